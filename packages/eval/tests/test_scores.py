"""From MTEB's scores to what is reported."""

from __future__ import annotations

import pytest

from lmk_eval import EvaluationError
from lmk_eval.evaluation.scores import OTHER_METRICS, RETRIEVAL_METRICS, Part, per_query, report
from lmk_eval.tasks.groups import sorted_values


def part(value: float | None, *, split: str = "test", subset: str = "default", task: str = "T", **more) -> Part:
    scores = {**dict.fromkeys(RETRIEVAL_METRICS, value), "map_at_10": 0.5, "hf_subset": subset, **more}
    return Part(task, split, subset, True, scores)


def test_means_over_parts_and_groups_of_them():
    parts = [part(0.2, split="test_1024"), part(0.4, split="test_256"), part(0.9, split="test_512")]
    values = report("needle", parts, "split")
    assert values["precision_at_1"] == 0.5
    assert [name for name in values if name.startswith("ndcg_at_10[")] == [
        "ndcg_at_10[split=test_1024]",
        "ndcg_at_10[split=test_256]",
        "ndcg_at_10[split=test_512]",
    ]
    assert values["main_score[split=test_512]"] == 0.9
    assert "map_at_10" not in values


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_a_number_that_is_none(value):
    with pytest.raises(EvaluationError, match=r"task 'needle': ndcg_at_10 is .*\(split b, subset default\)"):
        report("needle", [part(0.2, split="a"), part(value, split="b")], None)


def test_a_missing_metric():
    scores = dict.fromkeys((*RETRIEVAL_METRICS[:3], "main_score"), 0.5)
    with pytest.raises(EvaluationError, match="task 'x': MTEB gave no recall_at_100, mrr_at_10"):
        report("x", [Part("T", "test", "default", True, scores)], None)


def test_other_tasks_give_what_they_have():
    scores = {"accuracy": 0.25, "main_score": 0.25, "f1": 0.5, "lrap": 0.1}
    assert report("eurlex", [Part("T", "test", "en", False, scores)], None) == {
        "f1": 0.5,
        "accuracy": 0.25,
        "main_score": 0.25,
    }
    assert set(OTHER_METRICS) >= {"f1", "main_score"}


def test_query_ids_are_told_apart_by_what_differs():
    def asked(value: float, **more) -> Part:
        return part(0.5, per_query={"ndcg_at_10": {"q0": value}, "precision_at_1": {"q0": 0.0}}, **more)

    assert per_query([asked(0.25)]) == {"ndcg_at_10": {"q0": 0.25}, "precision_at_1": {"q0": 0.0}}
    english, german = asked(0.1, subset="en"), asked(1 / 3, subset="de")
    assert per_query([english, german])["ndcg_at_10"] == {"en/q0": 0.1, "de/q0": 0.333333}
    other = asked(0.3, subset="de", task="U", split="dev")
    assert list(per_query([english, other])["precision_at_1"]) == ["T/en/test/q0", "U/de/dev/q0"]
    assert per_query([part(0.5)]) == {}


def test_result_files_of_before_hold_one_metric_by_query():
    assert per_query([part(0.5, per_query={"q0": 0.25})]) == {"ndcg_at_10": {"q0": 0.25}}


def test_values_in_reading_order():
    assert sorted_values(["10", "2", "b", "-1", "a", "1.5"]) == ["-1", "1.5", "2", "10", "a", "b"]


def test_the_metric_of_the_suite_is_the_main_score():
    parts = [part(0.2, split="test_256", precision_at_1=0.7), part(0.4, split="test_512", precision_at_1=0.9)]
    values = report("needle", parts, "split", "precision_at_1")
    assert values["main_score"] == values["precision_at_1"] == 0.8
    assert values["main_score[split=test_512]"] == 0.9
    assert values["ndcg_at_10"] == 0.3


def test_a_metric_that_the_task_does_not_have():
    with pytest.raises(EvaluationError, match="task 'needle': MTEB gave no f1, which is its metric here"):
        report("needle", [part(0.2)], None, "f1")

"""What is kept of an evaluation: what runs again and what doesn't, and what never mixes."""

from __future__ import annotations

import pytest

from lmk_eval import EvaluationError, Suite, Task, TaskDataError, read_per_query

METRICS = ["ndcg_at_10", "precision_at_1", "recall_at_10", "recall_at_100", "mrr_at_10", "main_score"]


def test_continues_with_the_missing_tasks_only(run, toy_folder, make_folder, make_oracle, tmp_path, remembering):
    broken = make_folder(tmp_path / "broken")
    (broken / "corpus.jsonl").write_text("{")
    suite = Suite(
        name="two", tasks=(Task(name="first", folder=str(toy_folder)), Task(name="second", folder=str(broken)))
    )
    model = make_oracle()
    with pytest.raises(EvaluationError, match=r"task 'second': TaskDataError: .*corpus\.jsonl:1: not JSON") as caught:
        run(model, suite, tmp_path / "out", recorder=remembering)
    assert caught.value.task == "second"
    assert isinstance(caught.value.__cause__, TaskDataError)
    assert len(model.encoded) == 12 + 5
    assert [event["name"] for event in remembering.events] == ["first"]

    make_folder(broken)
    scores = run(model, suite, tmp_path / "out", recorder=remembering)
    assert len(model.encoded) == 2 * (12 + 5)
    assert scores["first"] == scores["second"] == dict.fromkeys(METRICS, 1.0)
    told = [
        (event["name"], event["cached"], event.get("documents"), event.get("queries")) for event in remembering.events
    ]
    assert told == [("first", False, 12, 5), ("first", True, None, None), ("second", False, 12, 5)]
    assert all(event["event"] == "task" and event["seconds"] >= 0 for event in remembering.events)

    assert run(model, suite, tmp_path / "out") == scores
    assert len(model.encoded) == 2 * (12 + 5)


def test_a_cached_result_is_the_same_numbers(run, random_set, tmp_path):
    folder, model, _, _ = random_set
    suite = Suite.from_folder("random", folder, group_by="quarter")
    fresh = run(model, suite, tmp_path / "out")
    path = tmp_path / "out" / "per_query" / "random.json.gz"
    by_query = path.read_bytes()
    path.unlink()
    calls = len(model.calls)
    assert run(model, suite, tmp_path / "out") == fresh
    assert len(model.calls) == calls
    assert path.read_bytes() == by_query


@pytest.mark.parametrize(
    "changes",
    [{"name": "lmk/other"}, {"revision": "0123-mean"}, {"max_length": 32}],
    ids=["name", "revision", "length"],
)
def test_results_are_kept_apart(run, toy_folder, make_oracle, tmp_path, changes):
    suite = Suite.from_folder("toy", toy_folder)
    good, bad = (
        make_oracle(),
        make_oracle([("q0", "d5", 1), ("q1", "d5", 1), ("q2", "d5", 1), ("q3", "d5", 1), ("q4", "d5", 1)]),
    )
    first = run(good, suite, tmp_path / "out")
    assert run(bad, suite, tmp_path / "out", **changes)["toy"]["ndcg_at_10"] < 0.9
    assert run(good, suite, tmp_path / "out") == first
    assert len(good.encoded) == 12 + 5
    assert read_per_query(tmp_path / "out", "toy")["q0"] == 1.0


def test_changed_data_or_a_torn_result_file_is_run_again(run, toy_folder, make_folder, make_oracle, tmp_path):
    suite, out = Suite.from_folder("toy", toy_folder), tmp_path / "out"
    model = make_oracle()
    run(model, suite, out)
    make_folder(toy_folder, relevant=[("q0", "d5", 1)])
    assert run(model, suite, out)["toy"]["precision_at_1"] == 0.0
    assert len(model.encoded) == (12 + 5) + (12 + 1)
    (result,) = (out / "results").rglob("local.toy.json")
    whole = result.read_bytes()
    result.write_bytes(whole[: len(whole) // 2])
    assert run(model, suite, out)["toy"]["precision_at_1"] == 0.0
    assert len(model.encoded) == (12 + 5) + 2 * (12 + 1)
    # A group that is asked for later is not missing from a cached result.
    grouped = run(model, Suite.from_folder("toy", toy_folder, group_by="quarter"), out)["toy"]
    assert grouped["ndcg_at_10[quarter=1]"] == pytest.approx(grouped["ndcg_at_10"], abs=6e-6)

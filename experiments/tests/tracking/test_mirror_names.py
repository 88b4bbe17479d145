from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmk_experiments.mirror.names import cut, flatten, parse_score_name, path_name, quote, score_name, unquote

NAMES = st.text(min_size=1, max_size=30)


def accepted_by_mlflow(name: str) -> bool:
    from mlflow.utils.validation import _validate_metric_name

    _validate_metric_name(name)
    return True


@pytest.mark.parametrize(
    ("metric", "spelled"),
    [
        ("ndcg_at_10", "ndcg_at_10"),
        ("ndcg_at_10[quarter=1]", "ndcg_at_10:quarter:1"),
        ("ndcg_at_10[place=1/4 ä]", "ndcg_at_10:place:1-x2f-4 -xe4-"),
        ("a-x5b[", "a-x2d-x5b-x5b-"),
        ("a:b", "a-x3a-b"),
        ("a[b]", "a-x5b-b-x5d-"),
    ],
)
def test_metrics_are_spelled_as_mlflow_takes_them(metric, spelled):
    name = score_name("beir15", "NFCorpus", metric)
    assert name == f"beir15/NFCorpus/{spelled}"
    assert accepted_by_mlflow(name)
    assert parse_score_name(name) == ("beir15", "NFCorpus", metric)


@given(NAMES, NAMES, NAMES)
def test_any_name_comes_back(suite, task, metric):
    name = score_name(suite, task, metric)
    assert accepted_by_mlflow(name)
    assert parse_score_name(name) == (suite, task, metric)


@given(NAMES, NAMES, NAMES)
def test_any_group_comes_back(metric, key, value):
    whole = f"{metric}[{key}={value}]"
    name = score_name("s", "..", whole)
    assert accepted_by_mlflow(name)
    assert parse_score_name(name) == ("s", "..", whole)


@given(NAMES)
def test_quoting_is_reversible(text):
    assert unquote(quote(text)) == text


def test_what_is_no_score_is_left_alone():
    assert parse_score_name("train/loss") is None
    assert parse_score_name("a/b/c:d") is None
    assert path_name("validation/recall@10") == "validation/recall-x40-10"


def test_config_becomes_flat_text():
    config = {
        "a": {"b": 1, "c": {}},
        "l": [32, 64],
        "none": None,
        "yes": True,
        "text": "",
        "ts": [{"n": "x"}, {"n": 2}],
    }
    assert flatten(config) == {
        "a.b": "1",
        "a.c": "{}",
        "l": "[32, 64]",
        "none": "null",
        "yes": "true",
        "text": "",
        "ts.0.n": "x",
        "ts.1.n": "2",
    }


def test_long_values_are_cut_and_say_so():
    assert cut("x" * 500) == "x" * 500
    assert len(cut("x" * 501)) == 500
    assert cut("x" * 12345).endswith("... (12345 in all)")

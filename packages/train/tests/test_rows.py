from __future__ import annotations

import json

import pytest

from lmk_train.data import DataError, Row, RowFile, Rows

GOOD = {"query": "q", "pos": ["p"], "neg": ["n", "m"]}


@pytest.fixture
def write(tmp_path):
    def make(*lines: object, name: str = "rows.jsonl"):
        path = tmp_path / name
        path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
        return path

    return make


def test_rows_are_read_in_any_order_and_blank_lines_are_skipped(write):
    scored = {**GOOD, "query": "ünïcode 東京", "pos_scores": [3], "neg_scores": [1.5, -2]}
    file = RowFile(write(GOOD, "", scored, {"query": "x", "pos": ["p", "p2"]}))
    assert len(file) == 3
    assert file[2] == Row("x", ("p", "p2"), ())
    assert file[1] == Row("ünïcode 東京", ("p",), ("n", "m"), (3.0,), (1.5, -2.0))
    assert file[0] == Row("q", ("p",), ("n", "m"))
    assert file.scored == 1


def test_several_files_are_one_list(write):
    rows = Rows([write(GOOD, name="a.jsonl"), write({**GOOD, "query": "b0"}, {**GOOD, "query": "b1"}, name="b.jsonl")])
    assert [row.query for row in rows] == ["q", "b0", "b1"]
    assert len(rows) == 3
    with pytest.raises(IndexError):
        rows[3]


@pytest.mark.parametrize(
    "scores",
    [
        {},
        {"pos_scores": None, "neg_scores": None},
        {"pos_scores": [1.0], "neg_scores": None},
        {"pos_scores": [1.0]},
        {"pos_scores": [None], "neg_scores": [1.0, 2.0]},
        {"pos_scores": [1.0], "neg_scores": [1.0, None]},
    ],
)
def test_missing_scores_make_a_row_without_scores(write, scores):
    row = RowFile(write({**GOOD, **scores}))[0]
    assert not row.has_scores
    assert row.positive_scores is None
    assert row.negative_scores is None


def test_a_row_without_negatives_has_scores_by_its_positives_alone(write):
    row = RowFile(write({"query": "q", "pos": ["p"], "neg": [], "pos_scores": [2.0]}))[0]
    assert (row.positive_scores, row.negative_scores) == ((2.0,), ())


FAULTS = {
    "not JSON": ('{"query": "q"', ["not JSON", "one JSON object"]),
    "not an object": (["q"], ['["q"]', "JSON object with 'query'"]),
    "no query": ({"pos": ["p"], "neg": []}, ["'query' is missing", "found: 'pos', 'neg'"]),
    "no pos": ({"query": "q", "positive": ["p"]}, ["'pos' is missing", "found: 'query', 'positive'"]),
    "query not a string": ({**GOOD, "query": 7}, ["'query' must be a string", "found 7"]),
    "pos a string": ({**GOOD, "pos": "text"}, ["'pos' must be a list of strings", 'write ["text"]']),
    "pos empty": ({**GOOD, "pos": []}, ["'pos' is empty"]),
    "pos null": ({**GOOD, "pos": None}, ["'pos' must be a list of strings", "found null"]),
    "neg a string": ({**GOOD, "neg": "text"}, ["'neg' must be a list of strings", 'found "text"']),
    "neg holds a number": ({**GOOD, "neg": ["n", 3]}, ["'neg' must hold strings only", "found 3"]),
    "too few scores": (
        {**GOOD, "pos_scores": [1], "neg_scores": [1]},
        ["'neg_scores' has 1 scores for 2 texts in 'neg'"],
    ),
    "too many scores": ({**GOOD, "pos_scores": [1, 2]}, ["'pos_scores' has 2 scores for 1 texts in 'pos'"]),
    "scores not a list": ({**GOOD, "pos_scores": 1.0}, ["'pos_scores' must be a list of numbers or null", "found 1.0"]),
    "a score is a string": ({**GOOD, "neg_scores": [1, "2"]}, ["'neg_scores' must hold finite numbers", 'found "2"']),
    "a score is a bool": ({**GOOD, "neg_scores": [1, True]}, ["'neg_scores' must hold finite numbers", "found true"]),
    "a score is too large": (
        '{"query": "q", "pos": ["p"], "pos_scores": [1' + "0" * 400 + "]}",
        ["'pos_scores' must hold finite numbers", "found 1000"],
    ),
    "a score is NaN": ({**GOOD, "neg_scores": [1, float("nan")]}, ["'neg_scores' must hold finite", "found NaN"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_line_is_named(write, fault):
    line, parts = FAULTS[fault]
    path = write(GOOD, "", line)
    with pytest.raises(DataError) as caught:
        RowFile(path)
    assert str(caught.value).startswith(f"{path}:3: ")
    assert caught.value.line == 3
    for part in parts:
        assert part in str(caught.value)


def test_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"query": "\xff\xfe", "pos": ["p"]}\n')
    with pytest.raises(DataError, match=r"rows.jsonl:1: not JSON"):
        RowFile(path)


def test_a_positive_among_the_negatives_is_dropped_with_its_score(write):
    scores = {"pos_scores": [9.0, 8.0], "neg_scores": [1.0, 2.0, 3.0, 4.0, 5.0]}
    line = {"query": "q", "pos": ["p", "r"], "neg": ["n", "p", "m", "r", "p "], **scores}
    row = RowFile(write(line))[0]
    assert row == Row("q", ("p", "r"), ("n", "m", "p "), (9.0, 8.0), (1.0, 3.0, 5.0), dropped=2)
    with pytest.raises(DataError, match=r"'neg_scores' has 2 scores for 3 texts"):
        RowFile(write({"query": "q", "pos": ["p"], "neg": ["n", "p", "m"], "pos_scores": [1], "neg_scores": [1, 2]}))


def test_rows_without_negatives_and_dropped_positives_are_counted(write):
    only_positives = {"query": "q", "pos": ["p"], "neg": ["p", "p"]}
    rows = Rows(
        [
            write(GOOD, {**GOOD, "neg": []}, {**GOOD, "neg": None}, name="a.jsonl"),
            write(only_positives, {**GOOD, "neg": ["p", "n"]}, name="b.jsonl"),
        ]
    )
    assert [len(row.negatives) for row in rows] == [2, 0, 0, 0, 1]
    assert rows.without_negatives == 3
    assert rows.dropped_positives == 3


def test_files_that_are_none(tmp_path, write):
    with pytest.raises(DataError, match=r"missing.jsonl: does not exist"):
        RowFile(tmp_path / "missing.jsonl")
    with pytest.raises(DataError, match="is a folder; a JSON-lines file is expected"):
        RowFile(tmp_path)
    with pytest.raises(DataError, match=r"it holds no rows; each line needs 'query'"):
        RowFile(write("", ""))
    with pytest.raises(DataError, match=r"ends in '.parquet'; valid endings: .jsonl, .json"):
        RowFile(write(GOOD, name="rows.parquet"))

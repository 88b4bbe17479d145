from __future__ import annotations

import json
import math

import pytest

from lmk_train.data import DataError, Findings, Row, Rows
from lmk_train.data.reading import CASES, check_file, read_rows, row_of

GOOD = {"query": "q", "pos": ["p"], "neg": ["n", "m"]}


@pytest.fixture
def write(tmp_path):
    def make(*lines: object, name: str = "rows.jsonl"):
        path = tmp_path / name
        path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
        return path

    return make


def only(record: object) -> Row:
    return row_of(json.loads(json.dumps(record)), "rows.jsonl", 1)


def found_in(path, **keywords) -> Findings:
    findings = Findings()
    for _ in read_rows(path, findings, **keywords):
        pass
    return findings


def test_rows_are_read_in_order_with_their_lines_and_blank_lines_are_skipped(write):
    scored = {**GOOD, "query": "ünïcode 東京", "pos_scores": [3], "neg_scores": [1.5, -2]}
    findings = Findings()
    rows = list(read_rows(write(GOOD, "", scored, {"query": "x", "pos": ["p", "p2"]}), findings))
    assert rows == [
        (1, Row("q", ("p",), ("n", "m"))),
        (3, Row("ünïcode 東京", ("p",), ("n", "m"), (3.0,), (1.5, -2.0))),
        (4, Row("x", ("p", "p2"), ())),
    ]
    assert (findings.rows, findings.scored, findings.faulty) == (3, 1, 0)
    assert findings.counts == {"without_scores": 2, "without_negatives": 1}


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
def test_missing_scores_make_a_row_without_scores(scores):
    row = only({**GOOD, **scores})
    assert not row.has_scores
    assert row.positive_scores is None
    assert row.negative_scores is None


def test_a_row_without_negatives_has_scores_by_its_positives_alone():
    row = only({"query": "q", "pos": ["p"], "neg": [], "pos_scores": [2.0]})
    assert (row.positive_scores, row.negative_scores) == ((2.0,), ())


FAULTS = {
    "not JSON": ('{"query": "q"', "not_json", ["not JSON", "one JSON object"]),
    "not an object": (["q"], "not_an_object", ['["q"]', "JSON object with 'query'"]),
    "no query": ({"pos": ["p"], "neg": []}, "missing_key", ["'query' is missing", "found: 'pos', 'neg'"]),
    "query null": ({**GOOD, "query": None}, "missing_key", ["'query' is null"]),
    "no pos": ({"query": "q", "positive": ["p"]}, "missing_key", ["'pos' is missing", "found: 'query', 'positive'"]),
    "query not a string": ({**GOOD, "query": 7}, "wrong_type", ["'query' must be a string", "found 7"]),
    "pos a string": ({**GOOD, "pos": "text"}, "wrong_type", ["'pos' must be a list of strings", 'write ["text"]']),
    "pos empty": ({**GOOD, "pos": []}, "no_positives", ["'pos' is empty"]),
    "pos null": ({**GOOD, "pos": None}, "missing_key", ["'pos' is null"]),
    "neg a string": ({**GOOD, "neg": "text"}, "wrong_type", ["'neg' must be a list of strings", 'found "text"']),
    "neg holds a number": ({**GOOD, "neg": ["n", 3]}, "wrong_type", ["'neg' must hold strings only", "found 3"]),
    "prompt not a string": ({**GOOD, "prompt": 3}, "wrong_type", ["'prompt' must be a string", "found 3"]),
    "too few scores": (
        {**GOOD, "pos_scores": [1], "neg_scores": [1]},
        "score_count",
        ["'neg_scores' has 1 scores for 2 texts in 'neg'"],
    ),
    "too many scores": (
        {**GOOD, "pos_scores": [1, 2]},
        "score_count",
        ["'pos_scores' has 2 scores for 1 texts in 'pos'"],
    ),
    "scores not a list": (
        {**GOOD, "pos_scores": 1.0},
        "score_value",
        ["'pos_scores' must be a list of numbers or null", "found 1.0"],
    ),
    "a score is a string": (
        {**GOOD, "neg_scores": [1, "2"]},
        "score_value",
        ["'neg_scores' must hold finite numbers", 'found "2"'],
    ),
    "a score is a bool": (
        {**GOOD, "neg_scores": [1, True]},
        "score_value",
        ["'neg_scores' must hold finite numbers", "found true"],
    ),
    "a score is too large": (
        '{"query": "q", "pos": ["p"], "pos_scores": [1' + "0" * 400 + "]}",
        "score_value",
        ["'pos_scores' must hold finite numbers", "found 1000"],
    ),
    "a score is too large for float32": (
        {**GOOD, "neg_scores": [1, -1e39]},
        "score_value",
        ["'neg_scores' must hold finite numbers", "found -1e+39"],
    ),
    "a score is NaN": (
        {**GOOD, "neg_scores": [1, math.nan]},
        "score_value",
        ["'neg_scores' must hold finite", "found NaN"],
    ),
    "Tevatron: no text": (
        {"query": "q", "positive_passages": [{"docid": "1", "title": "t"}], "negative_passages": []},
        "wrong_type",
        ["'positive_passages' must hold objects with the key 'text'"],
    ),
    "Tevatron: a separate corpus": (
        {"query": "q", "positive_document_ids": ["1"], "negative_document_ids": []},
        "missing_key",
        ["'positive_document_ids' names documents of another file"],
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_row_is_named_dropped_and_counted(write, fault):
    line, case, parts = FAULTS[fault]
    path = write(GOOD, "", line, GOOD)
    findings = found_in(path)
    assert findings.counts[case] == findings.faulty == 1
    assert findings.rows == 2
    (error,) = findings.faults
    assert (error.line, error.case, CASES[case].result) == (3, case, "dropped")
    with pytest.raises(DataError) as caught:
        Rows([path])
    assert str(caught.value).startswith(f"{path}:3: ")
    for part in parts:
        assert part in str(caught.value)


def test_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"query": "\xff\xfe", "pos": ["p"]}\n')
    with pytest.raises(DataError, match=r"rows.jsonl:1: not UTF-8 \(byte 12 of the line is b'\\xff'\)"):
        Rows([path])
    assert found_in(path).counts == {"not_utf8": 1}


def test_a_share_of_faulty_rows_may_be_allowed(write):
    path = write(*[GOOD] * 97, *[{"query": "q"}] * 3)
    findings = found_in(path)
    findings.check(path, 0.03)
    assert (findings.rows, findings.faulty) == (97, 3)
    with pytest.raises(DataError) as caught:
        findings.check(path, 0.02)
    said = str(caught.value)
    assert all(f"{path}:{line}: the key 'pos' is missing" in said for line in (98, 99, 100))
    assert "3 of 100 rows are faulty; data.max_faulty allows a share of 0.02; `lmk data check` lists them all" in said
    with pytest.raises(DataError, match=r"rows.jsonl:98: .*\n.*:99: "):
        findings.check(path, 0.0)


def test_only_the_first_faults_are_listed(write):
    path = write(GOOD, *[{"query": "q"}] * 30)
    with pytest.raises(DataError) as caught:
        Rows([path])
    assert f"{path}:11: " in str(caught.value)
    assert f"{path}:12: " not in str(caught.value)
    assert "and 20 more" in str(caught.value)


def test_a_positive_among_the_negatives_is_dropped_with_its_score():
    scores = {"pos_scores": [9.0, 8.0], "neg_scores": [1.0, 2.0, 3.0, 4.0, 5.0]}
    row = only({"query": "q", "pos": ["p", "r"], "neg": ["n", "p", "m", "r", "p "], **scores})
    assert row == Row("q", ("p", "r"), ("n", "m", "p "), (9.0, 8.0), (1.0, 3.0, 5.0), dropped=2)
    with pytest.raises(DataError, match=r"'neg_scores' has 2 scores for 3 texts"):
        only({"query": "q", "pos": ["p"], "neg": ["n", "p", "m"], "pos_scores": [1], "neg_scores": [1, 2]})


def test_a_negative_that_stands_twice_counts_once_with_its_first_score():
    row = only({"query": "q", "pos": ["p"], "neg": ["n", "m", "n"], "pos_scores": [9], "neg_scores": [1, 2, 3]})
    assert row == Row("q", ("p",), ("n", "m"), (9.0,), (1.0, 2.0), duplicates=1)


def test_what_is_kept_is_counted(write):
    findings = check_file(
        write(
            {**GOOD, "neg": []},
            {**GOOD, "neg": None},
            {"query": "q", "pos": ["p"], "neg": ["p", "p"]},
            {**GOOD, "neg": ["p", "n", "n"]},
            {"query": " ", "pos": [""], "neg": ["n"]},
            {**GOOD, "prompt": "Find:", "type": "only_1neg", "id": 7},
        )
    )
    assert findings.rows == 6
    assert findings.counts == {
        "without_scores": 6,
        "without_negatives": 3,
        "positives_among_negatives": 3,
        "duplicate_negatives": 1,
        "empty_texts": 2,
        "prompts_not_used": 1,
        "key_not_read:type": 1,
        "key_not_read:id": 1,
    }


def test_prompts_stand_in_front_where_it_is_asked(write):
    rows = {"query": "q", "pos": ["p"], "neg": ["n"], "prompt": "Find:"}
    path = write(rows, {**rows, "type": "symmetric_sts"}, {**rows, "type": "only_1neg"}, GOOD)
    findings = Findings()
    read = [row for _, row in read_rows(path, findings, prompt="{prompt} {text}")]
    assert [row.query for row in read] == ["Find: q", "Find: q", "Find: q", "q"]
    assert [row.positives[0] for row in read] == ["p", "Find: p", "p", "p"]
    assert [row.negatives[0] for row in read] == ["n", "Find: n", "n", "n"]
    assert findings.counts == {"without_scores": 4}, "nothing of it is left unused"
    assert [row.query for row in Rows([path])] == ["q"] * 4


def test_tevatrons_layout():
    passages = [{"docid": "1", "title": "A title", "text": "and a text"}, {"docid": "2", "title": "", "text": "bare"}]
    row = only({"query_id": "7", "query": "q", "positive_passages": passages, "negative_passages": passages[1:] * 2})
    assert row == Row("q", ("A title and a text", "bare"), (), dropped=2)
    more = only({"query": "q", "positive_passages": passages[:1], "negative_passages": [{"text": "x"}], "answers": []})
    assert (more.positives, more.negatives, more.unread) == (("A title and a text",), ("x",), ("answers",))

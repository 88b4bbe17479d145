"""Every case of the table: made, counted under its name, and with the result that the table says.

The cases are those of public reports about other tools too: ``neg`` that is empty, ``pos`` that is one string, null
scores, positives that were mined as negatives, queries that share a positive.
"""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import pytest

from lmk_train.data import ContrastiveData, DataError
from lmk_train.data.reading import CASES

GOOD = [{"query": f"kaba {i}", "pos": [f"lodo {i}"], "neg": ["migi", "nupu"]} for i in range(8)]
FULL = {"pos_scores": [1.0], "neg_scores": [1.0, 2.0]}


def row(**changes):
    return {**GOOD[0], **FULL, **changes}


ROWS = {
    "not_json": '{"query": "q", "pos": [',
    "not_an_object": ["q", "p"],
    "missing_key": {"pos": ["p"]},
    "wrong_type": row(pos="lodo"),
    "no_positives": row(pos=[]),
    "score_count": row(neg_scores=[1.0]),
    "score_value": row(neg_scores=[1.0, math.nan]),
    "without_scores": row(pos_scores=None),
    "without_negatives": row(neg=[], neg_scores=[]),
    "few_negatives": row(neg=["migi"], neg_scores=[1.0]),
    "positives_among_negatives": row(neg=["migi", "nupu", "lodo 0"], neg_scores=[1.0, 2.0, 3.0]),
    "duplicate_negatives": row(neg=["migi", "nupu", "migi"], neg_scores=[1.0, 2.0, 3.0]),
    "empty_texts": row(query=" "),
    "prompts_not_used": row(prompt="Find:"),
}


def make(case: str, folder: Path) -> Path:
    """A path where there is one of this case, and otherwise eight good rows."""
    lines = [json.dumps({**one, **FULL}) for one in GOOD]
    path = folder / "rows.jsonl"
    if case in ROWS:
        content = ROWS[case]
        lines.insert(3, content if isinstance(content, str) else json.dumps(content))
    elif case == "no_rows":
        lines = []
    elif case == "unknown_ending":
        path = folder / "rows.tsv"
    elif case == "no_in_batch_neg":
        path = folder / "rows_no_in_batch_neg.jsonl"
    elif case == "no_file":
        return folder / "rows.jsonl"
    text = "".join(f"{line}\n" for line in lines).encode()
    if case == "not_utf8":
        text = text.replace(b"kaba 3", b"kaba \xff")
    if case == "truncated":
        path, text = folder / "rows.jsonl.gz", gzip.compress(text)[:-20]
    path.write_bytes(text)
    return path


@pytest.mark.parametrize("name", CASES)
def test_every_case(name, tmp_path, make_config, tokenizer):
    case, path = CASES[name], make(name, tmp_path)

    def data(**changes) -> ContrastiveData:
        return ContrastiveData(make_config(data__train=[str(path)], optim__batch_size=4, **changes), tokenizer)

    if case.result == "kept":
        summary = data().summary()
        flat = {
            **summary["found"],
            "without_negatives": summary["rows_without_negatives"],
            "positives_among_negatives": summary["dropped_positives_among_negatives"],
        }
        assert flat[name] == 1
        assert summary["rows"] == (8 if name == "no_in_batch_neg" else 9)
        assert summary["dropped_rows"] == 0
        assert len(next(iter(data().batches())).rows) == 4
        return
    with pytest.raises(DataError) as caught:
        data()
    assert caught.value.case == name
    assert str(path) in str(caught.value)
    if case.result == "dropped":
        allowed = data(data__max_faulty=0.2).summary()
        assert allowed["found"][name] == allowed["dropped_rows"] == 1
        assert allowed["rows"] == (7 if name == "not_utf8" else 8)
        assert allowed["dropped_first"] == [str(caught.value)]
    else:
        with pytest.raises(DataError):
            data(data__max_faulty=0.9)


def test_queries_that_share_a_positive_have_equal_keys(make_config, write_rows, tmp_path, tokenizer):
    rows = [{**one, "pos": ["lodo"]} for one in GOOD[:2]] + GOOD[2:4]
    config = make_config(data__train=[str(write_rows(tmp_path / "rows.jsonl", rows))], optim__batch_size=4)
    batch = next(iter(ContrastiveData(config, tokenizer).batches()))
    first = batch.sizes.cumsum(0) - batch.sizes
    keys = {row: int(batch.passage_keys[place]) for row, place in zip(batch.rows.tolist(), first.tolist(), strict=True)}
    assert keys[0] == keys[1]
    assert len(set(keys.values())) == 3


def test_the_readme_has_the_same_table():
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    rows = [f"| `{case.name}` | {case.found} | {case.result} | {case.done} |" for case in CASES.values()]
    for line in rows:
        assert line in readme, line

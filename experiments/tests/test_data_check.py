"""``lmk data check``: what it tells about files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result
from row_files import ROW, rows, write


def test_check_tells_what_a_file_holds(lmk: Callable[..., Result], tmp_path: Path) -> None:
    good = write(
        tmp_path / "nq_len-0-500.jsonl",
        {"query": "abc", "pos": ["12345"], "neg": ["1", "12", "123"], "pos_scores": [9], "neg_scores": [1, 2, -3]},
        {"query": "a", "pos": ["12345"], "neg": ["1"], "type": "only_1neg"},
        {"query": "a", "pos": ["12345"], "neg": []},
    )
    done = lmk("data", "check", good)
    assert done.exit_code == 0
    for line in (
        "3 rows, 1 with scores, 0 faulty, lengths 0-500",
        "negatives a row: min 0, p10 0, p50 1, p90 3, p99 3, max 3, mean 1.333",
        "characters of a query: min 1, p10 1, p50 1, p90 3, p99 3, max 3, mean 1.667",
        "characters of a negative: min 1, p10 1, p50 1, p90 3, p99 3, max 3, mean 1.75",
        "positive scores: min 9, mean 9, max 9",
        "negative scores: min -3, mean 0, max 2",
        "1 rows repeat another one; 1 more share their positive with another one",
        "key_not_read:type: 1",
        "without_negatives: 1",
        "1 file, 3 rows, 0 faults",
    ):
        assert line in done.output


def test_check_lists_every_fault_and_goes_on(lmk: Callable[..., Result], tmp_path: Path) -> None:
    folder = tmp_path / "data"
    write(folder / "a.jsonl", ROW, *[{"query": "q", "pos": "text"}] * 25)
    cut = write(folder / "b.jsonl.gz", *rows(500))
    cut.write_bytes(cut.read_bytes()[:-100])
    write(folder / "c.jsonl", ROW)
    write(folder / "d.jsonl")
    done = lmk("data", "check", folder, "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    files = {Path(one["file"]).name: one for one in found["files"]}
    assert [(one["line"], one["case"]) for one in files["a.jsonl"]["faults"]] == [
        (line, "wrong_type") for line in range(2, 27)
    ]
    assert [one["case"] for one in files["b.jsonl.gz"]["faults"]] == ["truncated"]
    assert 0 < files["b.jsonl.gz"]["rows"] < 500
    assert (files["c.jsonl"]["rows"], files["c.jsonl"]["faults"]) == (1, [])
    assert [one["case"] for one in files["d.jsonl"]["faults"]] == ["no_rows"]
    assert found["faulty"] == 27
    said = lmk("data", "check", folder).output
    assert f"{folder / 'a.jsonl'}:21: 'pos' must be a list of strings" in said
    assert f"{folder / 'a.jsonl'}:22: " not in said
    assert "and 5 more (--all or --json lists them)" in said
    assert f"{folder / 'a.jsonl'}:26: " in lmk("data", "check", folder, "--all").output


def test_check_counts_tokens(lmk: Callable[..., Result], tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]").save_pretrained(tmp_path / "tok")
    path = write(tmp_path / "rows.jsonl", {"query": "a b", "pos": ["a b c d"], "neg": ["a", "x y"]})
    done = lmk("data", "check", path, "--tokenizer", tmp_path / "tok", "--json")
    (found,) = json.loads(done.stdout)["files"]
    assert {name: values["mean"] for name, values in found["tokens"].items()} == {
        "query": 2.0,
        "positive": 4.0,
        "negative": 1.5,
    }


def test_check_of_the_real_excerpts(lmk: Callable[..., Result], shared: Path) -> None:
    done = lmk("data", "check", shared / "data/train", "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, len(found["files"]), found["rows"], found["faulty"]) == (0, 8, 3657, 0)
    by_name = {Path(one["file"]).name: one for one in found["files"]}
    splade = by_name["msmarco_v2_dl21_splade.jsonl"]
    assert (splade["negatives_a_row"]["min"], splade["negatives_a_row"]["max"]) == (12, 15)
    assert splade["counts"]["duplicate_negatives"] == 15 * 296 - round(296 * splade["negatives_a_row"]["mean"])
    assert (round(splade["positive_scores"]["min"]), round(splade["positive_scores"]["max"])) == (154, 334)
    assert by_name["sts.jsonl"]["rows_with_scores"] == 0
    assert by_name["nli.jsonl"]["counts"]["key_not_read:type"] == 10

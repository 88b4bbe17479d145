"""``lmk analyze``: what it writes, what it prints, what it says of mistakes before anything is lost."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from lmk_experiments.cli import main as command
from lmk_experiments.texts import Source, sources

LONG = " ".join(f"number {number} is on the table" for number in range(60))
TEXTS = [LONG, "short", f"other {LONG}"]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps({"_id": str(n), "text": text}) + "\n" for n, text in enumerate(TEXTS)))
    return file


def retrieval_folder(folder: Path) -> Path:
    (folder / "qrels").mkdir(parents=True)
    documents = [f"{'x' * 30 * n} the word is w{n}" for n in range(4)]
    (folder / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": f"d{n}", "title": "t", "text": text}) + "\n" for n, text in enumerate(documents))
    )
    (folder / "queries.jsonl").write_text(
        "".join(
            json.dumps({"_id": f"q{n}", "text": f"w{n}", "metadata": {"place": n / 4 + 0.1}}) + "\n" for n in range(4)
        )
    )
    lines = ["query-id\tcorpus-id\tscore", *(f"q{n}\td{n}\t1" for n in range(4))]
    (folder / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n")
    return folder


def fails(monkeypatch, capsys, *arguments: object) -> str:
    """What the command says on stderr when it ends with 2."""
    monkeypatch.setattr(sys, "argv", ["lmk", "analyze", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        command.main()
    assert stop.value.code == 2
    return capsys.readouterr().err


def written(out: Path, kind: str) -> dict:
    """The record of an analysis, with all of its files there."""
    record = json.loads((out / f"{kind}.json").read_text(encoding="utf-8"))
    assert {f"{kind}.png", f"{kind}.svg", f"{kind}.csv"} <= set(record["files"])
    assert all((out / name).stat().st_size > 0 for name in record["files"])
    return record


def test_attention_landmarks_and_cost_of_a_file(lmk, tmp_path, model_folder, rows) -> None:
    out = tmp_path / "out"
    texts = ["--texts", rows, "--out", out, "--device", "cpu"]
    done = lmk("analyze", "attention", f"mine={model_folder}", *texts, "--max-length", "64,128", "--bins", 8)
    assert done.exit_code == 0, done.output
    record = written(out, "attention")
    assert record["settings"]["max_lengths"] == [64, 128]
    assert record["settings"]["documents"] == 2  # the short one is left out
    assert record["settings"]["series"][0]["pooling"] == {"kind": "landmark", "granularity": 8}
    assert "mine" in done.output
    assert str(out / "attention.png") in done.output

    done = lmk("analyze", "landmarks", model_folder, *texts, "--min-chunks", 16, "--k", 3)
    assert done.exit_code == 0, done.output
    record = written(out, "landmarks")
    assert record["settings"]["series"][0]["name"] == "saved"  # the folder's name, not `model`
    assert record["summary"][0]["chance"] == pytest.approx(3 / 16)

    done = lmk("analyze", "cost", model_folder, *texts, "--granularity", "4,8", "--rounds", 0)
    assert done.exit_code == 0, done.output
    with (out / "cost.csv").open() as stream:
        assert [row["granularity"] for row in csv.DictReader(stream)] == ["", "4", "8"]


def test_lengths_of_training_rows(lmk, tmp_path, model_folder) -> None:
    rows = [{"query": "q", "pos": ["abc", "abcdef"], "neg": ["x" * 20]}, {"query": "q", "pos": ["ab"], "neg": []}]
    file = tmp_path / "train.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    done = lmk(
        *("analyze", "lengths", f"data={file}", "--tokenizer", model_folder, "--text-key", "pos,neg"),
        *("--out", tmp_path / "out", "--max-length", "4,8"),
    )
    assert done.exit_code == 0, done.output
    record = written(tmp_path / "out", "lengths")
    (line,) = record["summary"]
    assert (line["texts"], line["tokens"]) == (4, 3 + 6 + 20 + 2 + 4 * 2)
    with (tmp_path / "out" / "lengths-cut.csv").open() as stream:
        assert [float(row["texts_cut"]) for row in csv.DictReader(stream)] == [0.75, 0.25]


def test_position_keeps_its_evaluations(lmk, tmp_path, model_folder) -> None:
    out = tmp_path / "out"
    arguments = [
        *("analyze", "position", model_folder, "--folder", retrieval_folder(tmp_path / "set")),
        *("--position-key", "place", "--bins", 4, "--max-length", 128, "--out", out, "--device", "cpu"),
    ]
    done = lmk(*arguments)
    assert done.exit_code == 0, done.output
    record = written(out, "position")
    assert record["summary"][0]["queries"] == 4
    kept = {path: path.stat().st_mtime_ns for path in (out / "evaluations").rglob("*.json")}
    assert kept
    assert lmk(*arguments).exit_code == 0
    assert kept == {path: path.stat().st_mtime_ns for path in (out / "evaluations").rglob("*.json")}
    assert written(out, "position") == record


def test_texts_of_folders(tmp_path, rows) -> None:
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    (tmp_path / "notes.md").write_text("not read")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "lines.txt").write_text("three\n")
    found = list(Source("all", tmp_path, ("text",)).texts())
    assert found == ["one", "two", "three", *TEXTS]
    (source,) = sources([f"set={retrieval_folder(tmp_path / 'set')}"], "text")
    assert source.name == "set"
    assert next(source.texts()) == "t  the word is w0"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": 3}, "rows.jsonl:2: text: expected a string or a list of strings, found int"),
        (
            {"text": ["a", None]},
            "rows.jsonl:2: text: expected a string or a list of strings, found a list with NoneType",
        ),
        ({"body": "a"}, "rows.jsonl:2: text: missing; the keys are: body"),
    ],
)
def test_a_faulty_row_is_told_by_file_line_and_key(tmp_path, change, message) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(f"{json.dumps({'text': 'first'})}\n{json.dumps(change)}\n")
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        list(Source("rows", file, ("text",)).texts())


def test_mistakes_are_told_and_lose_nothing(monkeypatch, capsys, tmp_path, model_folder, rows) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "attention.json").write_text("kept")

    def told(*arguments: object) -> str:
        error = fails(monkeypatch, capsys, *arguments, "--out", out)
        assert [path.name for path in out.iterdir()] == ["attention.json"]
        assert (out / "attention.json").read_text() == "kept"
        return error

    attention = ["attention", model_folder, "--texts", rows]
    assert "--max-length 64,64: expected different numbers" in told(*attention, "--max-length", "64,64")
    assert "none of 3 has 8192 tokens or more, the longest has" in told(*attention)
    assert "layer: 5; valid: -1 to 0" in told(*attention, "--max-length", 64, "--layer", 5)
    assert "--pooling clss: " in told(*attention, "--pooling", "clss")
    assert "nowhere: there is no such folder here" in told("attention", "nowhere", "--texts", rows)
    assert "none.jsonl: no such file or folder" in told("attention", model_folder, "--texts", "none.jsonl")
    assert "two models of one name" in told("attention", model_folder, model_folder, "--texts", rows)
    assert "no tokenizer.json in this folder" in told("lengths", rows, "--tokenizer", tmp_path)
    assert "no such folder" in told("position", model_folder, "--folder", tmp_path / "none")
    folder = retrieval_folder(tmp_path / "set")
    said = told("position", model_folder, "--folder", folder, "--position-key", "plce")
    assert "no query of the split has the metadata key 'plce'; found: place" in said
    said = fails(monkeypatch, capsys, *attention, "--max-length", 64, "--out", out / "attention.json")
    assert "attention.json is a file" in said


def test_help_is_light() -> None:
    program = (
        "import sys\nfrom lmk_experiments.cli.main import main\nsys.argv = ['lmk', 'analyze', 'attention', '--help']\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "print([name for name in ('torch', 'matplotlib', 'mteb', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "multiple of uniform attention" in " ".join(done.stdout.split())

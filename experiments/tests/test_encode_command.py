"""``lmk encode``: what it reads and writes, what it says of mistakes, and how it goes on after a stop."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from lmk_experiments.cli import encode_write
from lmk_experiments.cli import main as command
from lmk_experiments.texts import TextFile

TEXTS = ["the river and the stone", "a house in the garden, by the river", "", "light\u2028water", "morning"]
KEYS = ["d1", "d2", "d3", "d4", "d5"]


@pytest.fixture
def embedder(model_folder):
    from lmk_core import Embedder

    return Embedder.from_pretrained(model_folder, device="cpu")


@pytest.fixture
def lmk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Runs the command in ``tmp_path``: its exit code, and what it said on both streams."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["lmk", "encode", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            command.main()
        said = capsys.readouterr()
        return int(stopped.value.code or 0), said.out, said.err

    return run


def write_jsonl(path: Path, **more: object) -> Path:
    rows = [{"_id": key, "text": text, **more} for key, text in zip(KEYS, TEXTS, strict=True)]
    raw = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


@pytest.mark.parametrize("name", ["texts.jsonl", "texts.jsonl.gz", "texts.parquet", "texts.txt"])
def test_every_kind_of_file(lmk, tmp_path, model_folder, embedder, name):
    path = tmp_path / name
    if name == "texts.parquet":
        parquet.write_table(pyarrow.table({"_id": KEYS, "text": TEXTS, "other": [1] * 5}), path)
    elif name == "texts.txt":
        path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    else:
        write_jsonl(path)
    code, out, err = lmk(model_folder, path, "--out", "vectors.npy", "--device", "cpu")
    assert (code, out) == (0, "vectors.npy: 5 vectors\n"), err
    np.testing.assert_allclose(np.load("vectors.npy"), embedder.encode(TEXTS), atol=1e-5)
    keys = list("01234") if name == "texts.txt" else KEYS
    assert Path("vectors.ids.txt").read_text().split() == keys
    # Again: nothing is left to do, and nothing changes.
    assert lmk(model_folder, path, "--out", "vectors.npy", "--device", "cpu")[0] == 0


def test_rows_of_vectors_and_of_landmarks(lmk, tmp_path, model_folder, embedder):
    path = write_jsonl(tmp_path / "texts.jsonl", body="x")
    options = ("--device", "cpu", "--granularity", "4", "--prompt", "a: ", "--dim", "8", "--max-length", "40")
    assert lmk(model_folder, path, "--out", "v.jsonl", *options)[0] == 0
    assert lmk(model_folder, path, "--out", "v.parquet", *options)[0] == 0
    wanted = embedder.with_granularity(4).encode(TEXTS, prompt="a: ", dim=8, max_length=40)
    rows = [json.loads(line) for line in Path("v.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == KEYS
    np.testing.assert_allclose([row["vector"] for row in rows], wanted, atol=1e-5)
    table = parquet.read_table("v.parquet")
    assert table["id"].to_pylist() == KEYS
    np.testing.assert_allclose(table["vector"].to_pylist(), wanted, atol=1e-5)
    for name in ("l.jsonl", "l.parquet"):
        assert lmk(model_folder, path, "--out", name, "--device", "cpu", "--landmarks")[0] == 0
    found = [json.loads(line) for line in Path("l.jsonl").read_text().splitlines()]
    assert [{**row, "vector": None} for row in parquet.read_table("l.parquet").to_pylist()] == [
        {**row, "vector": None} for row in found
    ]
    expected = embedder.encode_landmarks(TEXTS)
    for key, (vectors, spans) in zip(KEYS, expected, strict=True):
        own = [row for row in found if row["id"] == key]
        assert [(row["landmark"], row["start"], row["end"]) for row in own] == [
            (number, *span) for number, span in enumerate(spans)
        ]
        np.testing.assert_allclose([row["vector"] for row in own], vectors, atol=1e-4)
    assert not list(tmp_path.glob(".*"))


def test_parts_are_gone_on_with(tmp_path, monkeypatch):
    monkeypatch.setattr(encode_write, "PART_ROWS", 2)
    rows = list(zip(KEYS, TEXTS, strict=True))
    out = tmp_path / "out.jsonl"
    parts = encode_write.Parts(out, {"model": "m"})
    for number, part in enumerate(parts.unfinished(rows)):
        parts.add([{"id": key, "vector": [0.5]} for key, _ in part])
        if number == 1:
            break  # stopped behind the second part, before it counted
    again = encode_write.Parts(out, {"model": "m"})
    done = []
    for part in again.unfinished(rows):
        done.append([key for key, _ in part])
        again.add([{"id": key, "vector": [1.5]} for key, _ in part])
    assert done == [["d3", "d4"], ["d5"]]
    again.join()
    assert [(row["id"], row["vector"]) for row in map(json.loads, out.read_text().splitlines())] == [
        ("d1", [0.5]),
        ("d2", [0.5]),
        *((key, [1.5]) for key in KEYS[2:]),
    ]
    with pytest.raises(ValueError, match=r"--out .*out\.jsonl: exists already"):
        encode_write.Parts(out, {"model": "m"})
    out.unlink()
    parts = encode_write.Parts(out, {"model": "m"})
    for part in parts.unfinished(rows):
        parts.add([{"id": key, "vector": [0.5]} for key, _ in part])
    with pytest.raises(ValueError, match="half of an encoding with another model; delete it"):
        encode_write.Parts(out, {"model": "other"})
    with pytest.raises(ValueError, match="the input has changed: rows 2 to 3"):
        list(encode_write.Parts(out, {"model": "m"}).unfinished([*rows[:2], ("d3", "changed"), *rows[3:]]))
    with pytest.raises(ValueError, match="the input has changed: it is shorter now"):
        list(encode_write.Parts(out, {"model": "m"}).unfinished(rows[:2]))


def test_long_texts_are_fewer_a_part_and_all_rows_are_counted(lmk, tmp_path, model_folder, monkeypatch):
    """What is done at once, and what the command says at the end, also when a part was done before."""
    monkeypatch.setattr(encode_write, "PART_CHARACTERS", 40)
    path = write_jsonl(tmp_path / "texts.jsonl")
    parts = encode_write.Parts(tmp_path / "x.jsonl", {})
    assert [[key for key, _ in part] for part in parts.unfinished(TextFile(path).rows())] == [["d1", "d2"], KEYS[2:]]
    (tmp_path / ".x.jsonl.parts" / "parts.json").unlink()
    written = encode_write.Parts.add
    calls = []

    def add(parts, rows):
        calls.append(written(parts, rows))
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(encode_write.Parts, "add", add)
    command = (model_folder, path, "--out", "l.parquet", "--device", "cpu", "--landmarks")
    assert lmk(*command)[0] == 130
    assert not Path("l.parquet").exists()
    # With the length that the model has itself said aloud, it is the same encoding; with another one it is not.
    code, _, err = lmk(*command, "--max-length", "30")
    assert (code, "half of an encoding with another max_length" in " ".join(err.split())) == (2, True)
    code, out, err = lmk(*command, "--max-length", "64")
    assert (code, len(calls)) == (0, 3), err
    assert out == f"l.parquet: {parquet.read_metadata('l.parquet').num_rows} landmarks\n"


@pytest.mark.parametrize(
    ("name", "content", "options", "says"),
    [
        ("a.jsonl", b'{"text": "x"}\n{"txt": "y"}\n', {}, "a.jsonl:2: text: missing; the keys are: txt"),
        ("a.jsonl", b'\n{"text": 3}\n', {}, "a.jsonl:2: text: expected a string, found int"),
        ("a.jsonl", b'{"text": "x"}\n{"text"\n', {}, "a.jsonl:2: not valid JSON: "),
        ("a.jsonl", b'["x"]\n', {}, "a.jsonl:1: expected an object such as"),
        ("a.jsonl", b'{"text": "x", "_id": "1"}\n{"text": "y"}\n', {}, "a.jsonl:2: _id: missing"),
        ("a.jsonl", b'{"text": "x", "id": 1.5}\n', {}, "a.jsonl:1: id: expected a string or an integer, found float"),
        ("a.jsonl", b'{"text": "x"}\n', {"text_key": "body"}, "a.jsonl:1: body: missing; the keys are: text"),
        ("a.txt", b"fine\n\xff\xfe\n", {}, "a.txt:2: not UTF-8 at byte 0 of the line"),
        ("a.jsonl.gz", gzip.compress(b'{"text": "x"}\n' * 9999)[:-30], {}, "not a whole gzip file"),
        ("a.jsonl.gz", b"no gzip", {}, "a.jsonl.gz: behind line 0: not a whole gzip file"),
        ("a.parquet", b"no parquet", {}, "a.parquet: not a parquet file"),
        ("none.txt", None, {}, "none.txt: no such file"),
    ],
)
def test_mistakes_in_the_texts_name_their_place(tmp_path, name, content, options, says):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError) as caught:
        list(TextFile(path, **options).rows())
    assert str(caught.value).startswith(str(tmp_path))
    assert says in str(caught.value)


def test_columns_of_parquet_and_keys(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"body": ["x", None], "n": [7, 8]}), path)
    with pytest.raises(ValueError, match=r"a\.parquet: text: missing; the columns are: body, n"):
        list(TextFile(path).rows())
    with pytest.raises(ValueError, match=r"a\.parquet: row 1: body: expected a string, found NoneType"):
        list(TextFile(path, "body", "n").rows())
    assert next(TextFile(path, "body", "n").rows()) == ("7", "x")
    assert next(TextFile(path, "body").rows()) == ("0", "x")


def test_mistakes_in_the_command(lmk, tmp_path, model_folder):
    path = write_jsonl(tmp_path / "texts.jsonl")
    for arguments, says in [
        ((model_folder, path, "--out", "v.csv"), "--out v.csv: ends in .csv; valid: .npy, .jsonl, .parquet"),
        ((model_folder, path, "--out", "v.npy", "--landmarks"), "landmarks go to .jsonl or .parquet"),
        (("./out/modle", path, "--out", "v.npy"), "./out/modle: there is no such folder"),
        ((model_folder, path, "--out", "v.npy", "--granularity", "big"), "granularity: 'big'; valid: an integer"),
        ((model_folder, path, "--out", "v.npy", "--dim", "99"), "dim: 99; valid: 1 to 16"),
        ((model_folder, path, "--out", "v.npy", "--text-key", "body"), "texts.jsonl:1: body: missing"),
    ]:
        code, _, err = lmk(*arguments)
        assert code == 2, err
        assert says in err
        assert "Traceback" not in err
    assert [file.name for file in tmp_path.iterdir()] == ["texts.jsonl"]

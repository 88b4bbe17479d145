"""Reading a BEIR folder: right values, and every fault named by file, line and key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmk_eval.tasks import TaskDataError, fingerprint, read_folder


def test_reads_a_folder(toy_folder):
    data = read_folder(toy_folder)
    assert len(data.documents) == 12
    assert data.documents["d0"] == ("", "the of and document 0")
    # q5 is judged nowhere.
    assert list(data.queries) == ["q0", "q1", "q2", "q3", "q4"]
    assert data.queries["q2"].text == "where is and"
    assert data.queries["q2"].metadata == {"quarter": 3}
    assert data.relevant["q2"] == {"d2": 1, "d3": 2}


def test_reads_what_real_files_hold(make_folder, tmp_path):
    folder = make_folder(tmp_path / "set", relevant=[("q0", "d0", 1), ("q0", "d1", 0), ("q1", "d1", 0)])
    (folder / "corpus.jsonl").write_bytes(
        b'\xef\xbb\xbf{"_id": "d0", "title": "Title", "text": "tab\\tand \xe2\x80\xa8 line"}\r\n\n'
        b'{"_id": "d1", "text": ""}'
    )
    (folder / "queries.jsonl").write_text(
        '{"_id": "q0", "text": "a", "metadata": null}\n{"_id": "q1", "text": "b"}\n{"_id": 7, "text": "c"}\n'
    )
    data = read_folder(folder)
    assert data.documents == {"d0": ("Title", "tab\tand \u2028 line"), "d1": ("", "")}
    # q1's only judgement says "not relevant".
    assert list(data.queries) == ["q0"]
    assert data.relevant == {"q0": {"d0": 1, "d1": 0}}


@pytest.mark.parametrize(
    ("file", "line", "text", "message"),
    [
        ("corpus.jsonl", 3, "{not json", "corpus.jsonl:3: not JSON"),
        ("corpus.jsonl", 2, "[1]", "corpus.jsonl:2: is a list ([1]), must be an object with the keys _id, text"),
        ("corpus.jsonl", 2, '{"id": "x", "text": "t"}', "corpus.jsonl:2: no key '_id'; found id, text"),
        ("corpus.jsonl", 1, '{"_id": "x", "body": "t"}', "corpus.jsonl:1: no key 'text'; found _id, body"),
        ("corpus.jsonl", 1, '{"_id": "x", "text": null}', "corpus.jsonl:1: key 'text' is null"),
        ("corpus.jsonl", 1, '{"_id": "x", "text": "t", "title": 3}', "corpus.jsonl:1: key 'title' is a number (3)"),
        ("corpus.jsonl", 1, '{"_id": true, "text": "t"}', "corpus.jsonl:1: key '_id' is a truth value"),
        ("corpus.jsonl", 5, '{"_id": "d0", "text": "t"}', "corpus.jsonl:5: _id 'd0' stands twice"),
        ("queries.jsonl", 4, '{"_id": "q0", "text": "t"}', "queries.jsonl:4: _id 'q0' stands twice"),
        ("queries.jsonl", 4, '{"_id": "q3"}', "queries.jsonl:4: no key 'text'"),
        (
            "queries.jsonl",
            4,
            '{"_id": "q3", "text": "t", "metadata": [1]}',
            "queries.jsonl:4: key 'metadata' is a list",
        ),
        ("qrels/test.tsv", 1, "q0\td0\t1", "test.tsv:1: the header is 'q0\\td0\\t1', must be query-id <tab>"),
        ("qrels/test.tsv", 3, "q9\td0\t1", "test.tsv:3: query-id 'q9' is not in queries.jsonl (6 queries)"),
        ("qrels/test.tsv", 3, "q0\td99\t1", "test.tsv:3: corpus-id 'd99' is not in corpus.jsonl (12 documents)"),
        ("qrels/test.tsv", 3, "q0\td1\t0.5", "test.tsv:3: score is '0.5', must be a whole number"),
        ("qrels/test.tsv", 3, "q0\td1", "test.tsv:3: 2 columns, must be query-id, corpus-id, score"),
        ("qrels/test.tsv", 3, "q0 0 d1 1", "test.tsv:3: 1 columns"),
        ("qrels/test.tsv", 3, "q0\td0\t2", "test.tsv:3: 'q0' and 'd0' are judged twice: 1 before, now 2"),
    ],
)
def test_bad_lines(toy_folder, file, line, text, message):
    path = toy_folder / file
    lines = path.read_text().splitlines()
    lines[line - 1] = text
    path.write_text("\n".join(lines))
    with pytest.raises(TaskDataError) as caught:
        read_folder(toy_folder)
    assert message in str(caught.value)
    assert str(toy_folder) in str(caught.value)


def test_bad_bytes(toy_folder):
    (toy_folder / "corpus.jsonl").write_bytes(b'{"_id": "d0", "text": "ok"}\n{"_id": "d1", "text": "\xff"}\n')
    with pytest.raises(TaskDataError, match=r"corpus\.jsonl:2: not UTF-8"):
        read_folder(toy_folder)


def test_nothing_is_relevant(make_folder, tmp_path):
    folder = make_folder(tmp_path / "set", relevant=[("q0", "d0", 0), ("q1", "d1", -1)])
    with pytest.raises(TaskDataError, match=r"test\.tsv: no relevant document .* 2 judged queries"):
        read_folder(folder)


@pytest.mark.parametrize("reader", [read_folder, fingerprint])
def test_missing_files(toy_folder, tmp_path, reader):
    with pytest.raises(TaskDataError, match="no such folder"):
        reader(tmp_path / "nowhere")
    with pytest.raises(TaskDataError, match=r"dev\.tsv: no such file; splits in the folder: test"):
        reader(toy_folder, "dev")
    (toy_folder / "queries.jsonl").unlink()
    with pytest.raises(TaskDataError, match=r"queries\.jsonl: no such file; the folder has: corpus\.jsonl, qrels"):
        reader(toy_folder)


def test_fingerprint_is_of_the_split_and_its_content(toy_folder, make_folder, tmp_path):
    before = fingerprint(toy_folder)
    assert before == fingerprint(make_folder(tmp_path / "copy"))
    make_folder(toy_folder, split="dev")
    assert fingerprint(toy_folder) == before
    for file in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        path = toy_folder / file
        kept = path.read_bytes()
        path.write_bytes(kept + b"\n")
        assert fingerprint(toy_folder) != before
        path.write_bytes(kept)
    assert fingerprint(toy_folder) == before


@pytest.mark.parametrize("split", ["test", "test-position"])
def test_a_real_set(reference_data: Path, split: str):
    folder = reference_data / "ir" / "wiki-long-en"
    data = read_folder(folder, split)
    rows = (folder / "qrels" / f"{split}.tsv").read_text().splitlines()[1:]
    assert len(data.documents) == 56
    assert sum(len(scores) for scores in data.relevant.values()) == len(rows)
    first = json.loads((folder / "queries.jsonl").read_text().splitlines()[0])
    assert data.queries.keys() == {row.split("\t")[0] for row in rows}
    if split == "test":
        assert data.queries[first["_id"]].text == first["text"]


@pytest.fixture
def always_large(monkeypatch, tmp_path):
    """Every corpus counts as large, and the cache is of this test alone."""
    from datasets import config

    from lmk_eval.tasks import local

    monkeypatch.setattr(local, "LARGE_BYTES", 0)
    monkeypatch.setattr(config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path / "cache" / "lmk-corpora"


def test_a_large_corpus_gives_the_same_and_is_read_once(run, random_set, tmp_path, always_large, monkeypatch):
    from lmk_eval import Suite
    from lmk_eval.tasks import large, local

    folder, model, _, _ = random_set
    suite = Suite.from_folder("random", folder, group_by="quarter")
    found = run(model, suite, tmp_path / "large")
    assert [path.suffix for path in always_large.iterdir()] == [".arrow"]
    monkeypatch.setattr(large, "_write", lambda *_: pytest.fail("it was read again"))
    assert run(model, suite, tmp_path / "again") == found
    monkeypatch.setattr(local, "LARGE_BYTES", 10**9)
    assert run(model, suite, tmp_path / "small") == found


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"_id": "d3", "text": "again"}', r"corpus\.jsonl:13: _id 'd3' stands twice"),
        ('{"_id": "d99"}', r"corpus\.jsonl:13: no key 'text'"),
    ],
)
def test_bad_lines_of_a_large_corpus(toy_folder, always_large, line, message):
    from lmk_eval.tasks.local import folder_data

    with (toy_folder / "corpus.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(TaskDataError, match=message):
        folder_data(toy_folder, "test")
    assert not list(always_large.iterdir()), "nothing half-written is left"


def test_a_judged_document_that_a_large_corpus_lacks(make_folder, tmp_path, always_large):
    from lmk_eval.tasks.local import folder_data

    folder = make_folder(tmp_path / "set", relevant=[("q0", "d0", 1), ("q1", "d77", 1)])
    with pytest.raises(TaskDataError, match=r"test\.tsv:3: corpus-id 'd77' is not in corpus\.jsonl \(12 documents\)"):
        folder_data(folder, "test")

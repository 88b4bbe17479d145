"""``lmk data build retromae``: a sample of texts, the same for one seed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from lmk_experiments.builders import texts
from lmk_experiments.datasets import DataSetMissing, data_path, load_data_set


@pytest.fixture
def nine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine texts are to be drawn, and not 225,000."""
    monkeypatch.setattr(texts, "load_data_set", lambda name: load_data_set(name).model_copy(update={"rows": 9}))


def sources(folder: Path) -> list[Path]:
    """Rows in two files, rows in one, and a book."""
    (folder / "books").mkdir(parents=True)
    (folder / "wiki").mkdir()
    paragraphs = [f"paragraph {number} " * 1500 for number in range(8)]
    (folder / "books/one.txt").write_text("\n\n".join(paragraphs))
    rows = [json.dumps({"text": f"article {number}", "title": "t"}) for number in range(20)]
    (folder / "wiki/a.jsonl").write_text("\n".join(rows[:12]) + "\n")
    (folder / "wiki/b.jsonl").write_text("\n".join([*rows[12:], rows[0]]) + "\n")
    (folder / "stack.jsonl").write_text("\n".join(json.dumps({"text": f"answer {number}"}) for number in range(30)))
    return [folder / "books", folder / "wiki", folder / "stack.jsonl"]


def drawn(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "texts.jsonl").read_text().splitlines()]


def test_equally_many_of_each_source(nine: None, lmk: Callable[..., Result], tmp_path: Path) -> None:
    found = sources(tmp_path / "in")
    done = lmk("data", "build", "retromae", *found)
    assert done.exit_code == 0, done.output
    out = data_path("data:retromae-225k", tmp_path / "runs")
    rows = drawn(out)
    assert [row["source"] for row in rows] == ["books"] * 3 + ["wiki"] * 3 + ["stack.jsonl"] * 3
    assert len({row["text"] for row in rows}) == 9
    manifest = json.loads((out / "DATA.json").read_text())
    assert (manifest["rows"], manifest["version"], manifest["seed"]) == (9, "1", 0)
    assert [one["rows"] for one in manifest["read"]][1:] == [12, 9, 30]
    assert lmk("data", "build", "retromae", *found).output.strip().endswith(str(out))


def test_a_seed_is_a_sample_however_files_are_cut(nine: None, tmp_path: Path) -> None:
    found = sources(tmp_path / "in")
    one = drawn(texts.build_texts(found, tmp_path / "a", report=print))
    whole = (found[1] / "a.jsonl").read_text() + (found[1] / "b.jsonl").read_text()
    for part in ("a", "b"):
        (found[1] / f"{part}.jsonl").unlink()
    (found[1] / "whole.jsonl").write_text(whole)
    assert drawn(texts.build_texts(found, tmp_path / "b", report=print)) == one
    assert drawn(texts.build_texts(found, tmp_path / "c", seed=1, report=print)) != one


def test_too_few_texts_are_an_excerpt_at_most(nine: None, lmk: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "few.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    with pytest.raises(ValueError, match=r"few.jsonl has 2 texts, and 9 are to be drawn; --any-count"):
        texts.build_texts([tmp_path / "few.jsonl"], tmp_path / "out", report=print)
    assert not (tmp_path / "out").exists()
    done = lmk("data", "build", "retromae", tmp_path / "few.jsonl", "--any-count")
    assert done.exit_code == 0, done.output
    with pytest.raises(DataSetMissing, match="1-excerpt"):
        data_path("data:retromae-225k", tmp_path / "runs")

"""Files that several machines may write at once, in a folder that they share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lmk_eval.analyses.figures import files
from lmk_eval.evaluation.per_query import write_per_query
from lmk_eval.tasks import large
from lmk_eval.tasks.folder import Asked


def write_corpus(folder: Path) -> None:
    corpus = folder / "corpus.jsonl"
    corpus.write_text('{"_id": "d", "text": "a river"}\n')
    large._write(corpus, folder / "corpus.arrow", Asked({}, {}, {}))


WRITERS = {
    "figures": lambda folder: files._write(folder / "a.png", b"drawn"),
    "per query": lambda folder: write_per_query(folder, "toy", {"ndcg_at_10": {"q": 1.0}}),
    "large corpora": write_corpus,
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_drafts_of_two_machines_have_different_names(
    write: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their processes may have one id."""
    drafts: list[str] = []
    replace = Path.replace
    monkeypatch.setattr(Path, "replace", lambda path, target: drafts.append(path.name) or replace(path, target))
    for _ in range(2):
        write(tmp_path)
    assert len(set(drafts)) == 2
    assert not [path for path in tmp_path.rglob(".*") if path.is_file()], "none is left"

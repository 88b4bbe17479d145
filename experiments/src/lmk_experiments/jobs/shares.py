"""Shares of an evaluation: several jobs encode its corpora, each a part, and the evaluation's own job then scores.

A share has a folder below its evaluation's, ``<evaluation>/shares/2-of-4/``, with the records of a cell. Embeddings go
where the evaluation looks for them. What a share has left undone the evaluation encodes itself, so that a share's
``DONE.json`` decides about time only, never about scores.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lmk_experiments.records import Cell
from lmk_experiments.records.attempts import Attempt, starts_of
from lmk_slurm import Job

FOLDER = "shares"
"""Of an evaluation's folder: holds those of its shares."""
_NAME = re.compile(r"([1-9][0-9]*)-of-([1-9][0-9]*)")


@dataclass(frozen=True)
class Share(Cell):
    """One share of the encoding of an evaluation's corpora."""

    @property
    def evaluation(self) -> Cell:
        """The cell that this is a share of."""
        return Cell(self.folder.parent.parent)

    @property
    def part(self) -> tuple[int, int]:
        """Its number from 0, and how many shares there are."""
        found = _NAME.fullmatch(self.folder.name)
        if found is None:
            raise ValueError(f"{self.folder}: a share's folder is called as `2-of-4` is")
        return int(found[1]) - 1, int(found[2])

    def made(self) -> Share:
        """Write its ``cell.json`` where there is none."""
        self.create("evaluation", {"share": list(self.part), "evaluation": self.evaluation.id})
        return self


def share_of(evaluation: Cell, number: int, shares: int) -> Share:
    """The share of this number, from 0."""
    return Share(evaluation.folder / FOLDER / f"{number + 1}-of-{shares}")


def make_shares(jobs: Iterable[Job]) -> None:
    """Make the folders of the shares that jobs are about."""
    for job in jobs:
        for folder in map(Path, job.argument.split(os.pathsep)):
            if folder.parent.name == FOLDER:
                Share(folder).made()


def shares_of(folder: Path) -> list[Share]:
    """The shares that an evaluation's folder holds, those of an earlier number of shares too."""
    found = (folder / FOLDER).glob("*-of-*")
    return sorted((Share(path) for path in found if _NAME.fullmatch(path.name)), key=lambda one: one.part)


def share_starts(evaluation: Cell) -> list[Attempt]:
    """Every start of every share of an evaluation."""
    return [start for share in shares_of(evaluation.folder) for start in starts_of(share)]


def shares_said(evaluation: Cell) -> str:
    """How far the shares of an evaluation are, in words; nothing where it has none, or all are encoded."""
    shares = _newest(evaluation)
    done = sum(share.done() is not None for share in shares)
    return "" if done == len(shares) else f"{done} of {len(shares)} shares are encoded"


def share_failed(evaluation: Cell) -> str:
    """Why a share of an evaluation has failed, in words; nothing where none has."""
    states = ((share, share.state()) for share in _newest(evaluation) if share.done() is None)
    return next((f"share {share.id} failed: {state.reason}" for share, state in states if state.name == "failed"), "")


def _newest(evaluation: Cell) -> list[Share]:
    """The shares by the number of them that was asked for last."""
    shares = shares_of(evaluation.folder)
    newest = max((share.folder.stat().st_mtime, share.part[1]) for share in shares)[1] if shares else 0
    return [share for share in shares if share.part[1] == newest]

"""The files of a cell whose lines become curves, read from where the last look ended."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmk_experiments.mirror.names import fitting, path_name
from lmk_experiments.mirror.store import Kind
from lmk_experiments.records import shapes
from lmk_experiments.records.atomic import parse_lines
from lmk_experiments.records.cell import one_a_step

FILES = {"metrics.jsonl": "", "system.jsonl": "system/"}
"""File to what its metrics' names begin with in MLflow, whose page of system metrics goes by it."""
CHUNK_BYTES = 4 << 20
"""So much of a file is read at a time."""

Curve = dict[str, Any]
"""``{"offset", "lines", "steps"}``: what was read of a file, in bytes and lines, and the last step of each metric."""


@dataclass(frozen=True)
class Piece:
    """Some whole lines of a file.

    Attributes:
        lines: ``{"step", "time", "values"}`` one a step, by step; of a step that comes twice, the later values.
        wrong: what is wrong with the lines that are left out.
        offset, count: where the next piece begins, in bytes and in lines.
    """

    lines: list[dict[str, Any]]
    wrong: list[str]
    offset: int
    count: int


def files_of(kind: Kind) -> list[str]:
    """The files of a cell of this kind that become curves; the metrics of an evaluation are its scores."""
    return [file for file in FILES if file != "metrics.jsonl" or kind == "training"]


def pieces(file: Path, curve: Mapping[str, Any] | None) -> Generator[Piece]:
    """What a file holds beyond ``curve``. A line that is just being written is left for the next look."""
    try:
        with file.open("rb") as stream:
            offset, count = (curve["offset"], curve["lines"]) if curve else (0, 0)
            if stream.seek(0, 2) < offset:  # another file than the one that was read
                offset = count = 0
            stream.seek(offset)
            rest = b""
            while chunk := stream.read(CHUNK_BYTES):
                whole, newline, rest = (rest + chunk).rpartition(b"\n")
                if not newline:
                    continue
                raw = whole.split(b"\n")
                piece = _parsed(raw, file, offset + len(whole) + 1, count)
                offset, count = piece.offset, piece.count
                yield piece
    except FileNotFoundError:
        return


def is_read(file: Path, curve: Mapping[str, Any] | None) -> bool:
    """Whether a file holds nothing beyond ``curve``."""
    try:
        return file.stat().st_size == (curve["offset"] if curve else 0)
    except FileNotFoundError:
        return True


def points(piece: Piece, prefix: str, last: Mapping[str, int]) -> list[tuple[str, float, float, int]]:
    """Name, value, time and step of what is beyond the last step of its metric.

    A step that the run has got stays as it is, also when the records tell it anew: a run that was stopped and resumed
    repeats some steps, and its curve must not show them twice.
    """
    named = (
        (fitting(prefix + path_name(name)), value, line)
        for line in piece.lines
        for name, value in line["values"].items()
    )
    return [
        (name, float(value), line["time"], line["step"])
        for name, value, line in named
        if isinstance(value, int | float) and math.isfinite(value) and line["step"] > last.get(name, -1)
    ]


def _parsed(raw: list[bytes], file: Path, offset: int, before: int) -> Piece:
    lines, wrong = parse_lines(raw, file, shapes.METRICS, first=before + 1)
    return Piece(one_a_step(lines), wrong, offset, before + len(raw))

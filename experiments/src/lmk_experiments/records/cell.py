"""A cell: the folder of one training or of one evaluation."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from lmk_experiments.records.atomic import read_json, read_lines, write_json
from lmk_experiments.records.claim import heartbeat, read_claim
from lmk_experiments.records.state import State

Kind = Literal["pretraining", "training", "evaluation"]
SCHEMA = 1
_ID = re.compile(r"[0-9a-f]{12}")


class CellError(ValueError):
    """A cell's folder is not what it should be."""


@dataclass(frozen=True)
class Cell:
    """The folder of one cell. Reading it never fails on a cell that is just being written."""

    folder: Path

    @property
    def id(self) -> str:
        """The identity: 12 hex digits, the folder's name."""
        return self.folder.name

    @property
    def root(self) -> Path:
        """The root folder that this cell belongs to."""
        return self.folder.parent.parent

    @cached_property
    def record(self) -> dict[str, Any]:
        """``cell.json``.

        Raises:
            CellError: there is none, or it belongs to another cell.
        """
        record = read_json(self.folder / "cell.json")
        if record is None:
            raise CellError(f"{self.folder}: no cell.json here, so this is not the folder of a cell")
        if record.get("id") != self.id:
            raise CellError(f"{self.folder}/cell.json: id is {record.get('id')!r}, but the folder says {self.id!r}")
        return record

    @property
    def kind(self) -> Kind:
        """``pretraining``, ``training`` or ``evaluation``."""
        return self.record["kind"]

    @property
    def config(self) -> dict[str, Any]:
        """The resolved configuration, with symbolic paths."""
        return self.record["config"]

    def done(self) -> dict[str, Any] | None:
        """``DONE.json``, or ``None`` while the cell is not finished."""
        return read_json(self.folder / "DONE.json")

    def events(self) -> list[dict[str, Any]]:
        """Everything that happened to this cell, oldest first."""
        return read_lines(self.folder / "events.jsonl")

    def metrics(self) -> list[dict[str, Any]]:
        """The curves: ``{"step", "time", "values"}`` a line, one line a step; of a step run twice, the later line."""
        by_step: dict[int, dict[str, Any]] = {}
        for line in read_lines(self.folder / "metrics.jsonl"):
            kept = by_step.setdefault(line["step"], {"step": line["step"], "time": line["time"], "values": {}})
            kept["values"] = {**kept["values"], **line["values"]}
            kept["time"] = line["time"]
        return [by_step[step] for step in sorted(by_step)]

    def progress(self) -> dict[str, Any] | None:
        """How far the cell is, as of its last word."""
        return read_json(self.folder / "progress.json")

    def state(self) -> State:
        """The state as the records tell it (a scheduler's word is added elsewhere)."""
        events = self.events()
        attempts = sum(event["event"] == "attempt" for event in events)
        if (self.folder / "DONE.json").exists():
            return State("done", attempts=attempts)
        claim = read_claim(self.folder / "claim.json")
        if claim is not None and claim.alive(heartbeat(self.folder)):
            now = self.progress() or {}
            left = now.get("seconds_left")
            if left is not None:
                left = max(0.0, left - (time.time() - now["time"]))
            return State(
                "running", "", now.get("done", 0), now.get("total", 0), now.get("unit", "step"), left, attempts
            )
        if not attempts:
            return State("planned")
        last = events[-1]
        if last["event"] == "failed":
            return State("failed", last.get("reason", "error"), attempts=attempts)
        return State("failed", "stopped without a word: run it again to go on", attempts=attempts)

    def create(self, kind: Kind, config: dict[str, Any]) -> Cell:
        """Write ``cell.json``.

        Two configurations with one identity differ in what is transient and in where the same content lies. A cell that
        is neither done nor being worked on takes the newer one, so that a retry sees moved files and new settings.
        """
        path = self.folder / "cell.json"
        try:
            known = read_json(path)
        except ValueError:
            known = None  # damaged: the configuration at hand has the same identity, and so replaces it
        if known is not None and (known.get("config") == config or self._settled()):
            return self
        created = (known or {}).get("created") or datetime.now(UTC).isoformat(timespec="seconds")
        write_json(path, {"schema": SCHEMA, "kind": kind, "id": self.id, "created": created, "config": config})
        self.__dict__.pop("record", None)
        return self

    def _settled(self) -> bool:
        """Whether the cell's configuration is in use or was used: it must not change any more."""
        if (self.folder / "DONE.json").exists():
            return True
        claim = read_claim(self.folder / "claim.json")
        return claim is not None and claim.alive(heartbeat(self.folder))

    def finish(self, seconds: float, **result: Any) -> None:
        """Write ``DONE.json``: the last act of a cell."""
        finished = datetime.now(UTC).isoformat(timespec="seconds")
        record = {"schema": SCHEMA, "kind": self.kind, "id": self.id, "finished": finished, "seconds": seconds}
        write_json(self.folder / "DONE.json", {**record, **result})


def pretraining_cell(root: Path, identity: str) -> Cell:
    """The cell of a pre-training under ``root``."""
    return Cell(root / "pretrainings" / _checked(identity))


def training_cell(root: Path, identity: str) -> Cell:
    """The cell of a training under ``root``."""
    return Cell(root / "trainings" / _checked(identity))


def evaluation_cell(root: Path, identity: str) -> Cell:
    """The cell of an evaluation under ``root``."""
    return Cell(root / "evaluations" / _checked(identity))


def _checked(identity: str) -> str:
    if not _ID.fullmatch(identity):
        raise CellError(f"{identity!r} is not a cell's identity: 12 hex digits are")
    return identity

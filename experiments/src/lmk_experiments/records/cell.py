"""A cell: the folder of one training, of one evaluation or of one analysis."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from lmk_experiments.records import shapes
from lmk_experiments.records.atomic import append_line, read_lines, read_record, scan_lines, write_json
from lmk_experiments.records.claim import checked_claim, heartbeat, read_claim
from lmk_experiments.records.state import State

Kind = Literal["pretraining", "training", "evaluation", "analysis"]
SCHEMA = 1
PRETRAINING_PREFIX = "pretraining:"
"""Before the identity of a pre-training in the ``init`` of what starts from it."""
_ID = re.compile(r"[0-9a-f]{12}")
FAILURES = ("failed", "rank_failed")
"""Events that say why an attempt failed; a rank of a training can do so when the process that records cannot."""
STOPPED = "stopped"
"""The event of an attempt that a person or a signal has ended; in older records the reason of a failure."""
_NO_WORD = "stopped without a word: run it again to go on"
_Read = TypeVar("_Read")


class CellError(ValueError):
    """A cell's folder is not what it should be."""


def one_a_step(lines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Lines of metrics as a curve: one a step, by step; of a step that comes twice, the later values."""
    by_step: dict[int, dict[str, Any]] = {}
    for line in lines:
        kept = by_step.setdefault(line["step"], {"step": line["step"], "time": line["time"], "values": {}})
        kept["values"] = {**kept["values"], **line["values"]}
        kept["time"] = line["time"]
    return [by_step[step] for step in sorted(by_step)]


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
            ValueError: it cannot be read; the message names the file and the key.
        """
        record = read_record(self.folder / "cell.json", shapes.CELL)
        if record is None:
            raise CellError(f"{self.folder}: no cell.json here, so this is not the folder of a cell")
        if record["id"] != self.id:
            raise CellError(f"{self.folder}/cell.json: id is {record['id']!r}, but the folder says {self.id!r}")
        if record["kind"] not in get_args(Kind):
            valid = ", ".join(get_args(Kind))
            raise CellError(f"{self.folder}/cell.json: kind is {record['kind']!r}; valid: {valid}")
        return record

    @property
    def kind(self) -> Kind:
        """``pretraining``, ``training``, ``evaluation`` or ``analysis``."""
        return self.record["kind"]

    @property
    def config(self) -> dict[str, Any]:
        """The resolved configuration, with symbolic paths."""
        return self.record["config"]

    def waits_for(self) -> Cell | None:
        """The cell that this one starts from: an evaluation's training, a fine-tune's pre-training; or ``None``.

        Of an analysis, the first of its trainings that is not done, else the first. A record that cannot be read names
        none.
        """
        try:
            config = self.config
            if self.kind == "evaluation":
                return training_cell(self.root, str(config.get("training", "")))
            if self.kind == "analysis":
                held = [training_cell(self.root, one["training"]) for one in config["series"] if "training" in one]
                return next((cell for cell in held if cell.done() is None), held[0] if held else None)
            first = str(config.get("init") or "")
            return pretraining_cell(self.root, first.removeprefix(PRETRAINING_PREFIX)) if first else None
        except (ValueError, AttributeError, KeyError, TypeError):
            return None

    def done(self) -> dict[str, Any] | None:
        """``DONE.json``, or ``None`` while the cell is not finished. One that cannot be read finishes nothing."""
        try:
            return self._done()
        except ValueError:
            return None

    def _done(self) -> dict[str, Any] | None:
        path = self.folder / "DONE.json"
        found = read_record(path, shapes.DONE)
        if found is not None:
            self._check_result(found, path)
        return found

    def _check_result(self, result: dict[str, Any], path: Path) -> None:
        if self.folder.parent.name == "evaluations":
            scores = shapes.checked(result, shapes.SCORES, str(path))["scores"]
            shapes.checked_values(scores, shapes.OBJECT, f"{path}: scores")
            for task, values in scores.items():
                shapes.checked_values(values, shapes.NUMBER, f"{path}: scores of {task}")
        elif self.folder.parent.name == "analyses":
            found = shapes.checked(result, shapes.FIGURE, str(path))
            shapes.checked_values(found["metrics"], shapes.NUMBER, f"{path}: metrics")
            shapes.checked_values(found["files"], shapes.TEXT, f"{path}: files")

    def put_aside(self) -> str:
        """Move a ``DONE.json`` that cannot be read out of the way, so that the cell is worked on again.

        Returns what was done, in words; nothing where there was nothing to do.
        """
        path = self.folder / "DONE.json"
        try:
            self._done()
        except ValueError as error:
            kept = path.with_name("DONE.json.unreadable")
            path.replace(kept)
            reason = _unreadable(path, error)
            append_line(self.folder / "events.jsonl", {"time": time.time(), "event": "failed", "reason": reason})
            return f"{self.folder}: {reason}; it is kept as {kept.name}, and the cell is done again"
        return ""

    def events(self) -> list[dict[str, Any]]:
        """Everything that happened to this cell, oldest first."""
        return read_lines(self.folder / "events.jsonl", shapes.EVENT)

    def metrics(self) -> list[dict[str, Any]]:
        """The curves: ``{"step", "time", "values"}`` a line, one line a step; of a step run twice, the later line."""
        return one_a_step(read_lines(self.folder / "metrics.jsonl", shapes.METRICS))

    def progress(self) -> dict[str, Any] | None:
        """How far the cell is, as of its last word; ``None`` where that cannot be read."""
        try:
            return read_record(self.folder / "progress.json", shapes.PROGRESS)
        except (ValueError, OSError):
            return None

    def state(self) -> State:
        """The state as the records tell it (a scheduler's word is added elsewhere).

        A record that cannot be read is named in the reason, and breaks nothing.
        """
        events, wrong = scan_lines(self.folder / "events.jsonl", shapes.EVENT)
        attempts = sum(event["event"] == "attempt" for event in events)
        said = _short(self.folder, wrong[0]) if wrong else ""
        done, unreadable = _tried("DONE.json", self._done, self.folder)
        if done is not None:
            return State("done", said, attempts=attempts)
        claim, no_claim = _tried("claim.json", lambda: checked_claim(self.folder / "claim.json"), self.folder)
        if claim is not None and claim.alive(heartbeat(self.folder)):
            return self._running(attempts, said)
        _, no_cell = _tried("cell.json", lambda: self.record, self.folder)
        if (self.folder / "cell.json").exists():
            unreadable = unreadable or no_cell
        if unreadable:
            return State("failed", unreadable, attempts=attempts)
        if not events and not wrong:
            return State("planned", no_claim)
        if events and is_stop(events[-1]) and not (said or no_claim):
            return State("stopped", "run it again to go on", attempts=attempts)
        own = str(events[-1].get("reason", "error")) if events and events[-1]["event"] in FAILURES else ""
        reasons = [reason for reason in (own, said, no_claim) if reason]
        return State("failed", "; ".join(reasons) or _NO_WORD, attempts=attempts)

    def _running(self, attempts: int, said: str) -> State:
        path = self.folder / "progress.json"
        now, unreadable = _tried(path.name, lambda: read_record(path, shapes.PROGRESS), self.folder)
        if now is None:
            return State("running", unreadable or said, attempts=attempts)
        left = now.get("seconds_left")
        left = max(0.0, left - (time.time() - now["time"])) if isinstance(left, int | float) else None
        return State("running", said, now["done"], now["total"], str(now.get("unit", "step")), left, attempts)

    def create(self, kind: Kind, config: dict[str, Any]) -> Cell:
        """Write ``cell.json``.

        Two configurations with one identity differ in what is transient and in where the same content lies. A cell that
        is neither done nor being worked on takes the newer one, so that a retry sees moved files and new settings.
        """
        path = self.folder / "cell.json"
        try:
            known = read_record(path, shapes.CELL)
        except ValueError:
            known = None  # damaged: the configuration at hand has the same identity, and so replaces it
        if known is not None and known["id"] == self.id and (known["config"] == config or self._settled()):
            return self
        created = (known or {}).get("created") or datetime.now(UTC).isoformat(timespec="seconds")
        write_json(path, {"schema": SCHEMA, "kind": kind, "id": self.id, "created": created, "config": config})
        self.__dict__.pop("record", None)
        return self

    def _settled(self) -> bool:
        """Whether the cell's configuration is in use or was used: it must not change any more."""
        if self.done() is not None:
            return True
        claim = read_claim(self.folder / "claim.json")
        return claim is not None and claim.alive(heartbeat(self.folder))

    def finish(self, seconds: float, **result: Any) -> None:
        """Write ``DONE.json``: the last act of a cell.

        Raises:
            ValueError: the result is none: an evaluation without scores, or a value that JSON does not hold.
        """
        finished = datetime.now(UTC).isoformat(timespec="seconds")
        record = {"schema": SCHEMA, "kind": self.kind, "id": self.id, "finished": finished, "seconds": seconds}
        path = self.folder / "DONE.json"
        self._check_result(result, path)
        write_json(path, {**record, **result})


def pretraining_cell(root: Path, identity: str) -> Cell:
    """The cell of a pre-training under ``root``."""
    return Cell(root / "pretrainings" / _checked(identity))


def training_cell(root: Path, identity: str) -> Cell:
    """The cell of a training under ``root``."""
    return Cell(root / "trainings" / _checked(identity))


def evaluation_cell(root: Path, identity: str) -> Cell:
    """The cell of an evaluation under ``root``."""
    return Cell(root / "evaluations" / _checked(identity))


def analysis_cell(root: Path, identity: str) -> Cell:
    """The cell of an analysis under ``root``."""
    return Cell(root / "analyses" / _checked(identity))


def is_stop(event: Mapping[str, Any]) -> bool:
    """Whether ``event`` says that a person or a signal has ended an attempt."""
    return event["event"] == "stopped" or (event["event"] == "failed" and event.get("reason") == STOPPED)


def is_identity(text: str) -> bool:
    """Whether ``text`` can be a cell's identity: 12 hex digits."""
    return _ID.fullmatch(text) is not None


def _tried(name: str, read: Callable[[], _Read | None], folder: Path) -> tuple[_Read | None, str]:
    """What was read, or nothing and why it cannot be read."""
    try:
        return read(), ""
    except (ValueError, OSError) as error:
        return None, _unreadable(folder / name, error)


def _unreadable(path: Path, error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) else str(error).removeprefix(f"{path}:").strip()
    return f"{path.name} cannot be read: {reason}"


def _short(folder: Path, text: str) -> str:
    """``text`` without the folder's path, which is shown beside it."""
    return text.replace(f"{folder}{os.sep}", "")


def _checked(identity: str) -> str:
    if not is_identity(identity):
        raise CellError(f"{identity!r} is not a cell's identity: 12 hex digits are")
    return identity

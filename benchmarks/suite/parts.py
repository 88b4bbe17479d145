"""What came of each benchmark of a run, and where it is kept until the run is whole."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suite.result import Missing, Result, from_json

NO_GPU = "not run: no CUDA device"


@dataclass(frozen=True)
class Part:
    """What came of one benchmark: ``done``, ``failed``, or ``not run``.

    Attributes:
        began: when, in seconds since 1970; 0 if it was not run.
        load: of the machine then.
        call: when the call of the run began that has run it.
    """

    name: str
    state: str
    seconds: float = 0.0
    reason: str = ""
    results: list[Result | Missing] = field(default_factory=list)
    began: float = 0.0
    load: float = 0.0
    call: float = 0.0

    @property
    def lacking(self) -> bool:
        """Whether another try could bring what it should have: of all but what needs a GPU that is not there."""
        return self.state != "done" and self.reason != NO_GPU

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**vars(self), "results": [one.to_json() for one in self.results]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Part:
        """The inverse of `to_json`."""
        return cls(**{**value, "results": [from_json(one) for one in value["results"]]})


class Kept:
    """What is done of a run that has not ended: a file each, in a folder of the same code and machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def find(self, name: str) -> Part | None:
        """What came of it, if it has ended."""
        file = self._file(name)
        return Part.from_json(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else None

    def keep(self, part: Part) -> None:
        """Written whole or not at all: a run may be killed at any time."""
        new = self._file(part.name).with_suffix(".new")
        new.write_text(json.dumps(part.to_json(), ensure_ascii=False), encoding="utf-8")
        new.replace(self._file(part.name))

    def clear(self, names: Iterable[str]) -> None:
        """The next run begins anew with these."""
        for name in names:
            self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self.folder / f"{name.replace(' ', '-')}.json"

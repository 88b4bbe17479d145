"""One thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """What was looked at, what was found, and what to do about it.

    ``note`` is worth knowing, ``warn`` may bite later, ``fail`` stops a grid.
    """

    level: Level
    what: str
    words: str

    def __str__(self) -> str:
        return f"{self.level:<4}  {self.what}: {self.words}"

"""Results of tests that are kept beside a grid's record, so that a table that was tested once prints at once."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

from lmk_experiments.records import read_json, write_json

FILE = "significance.json"
_SCHEMA = 1
_ENTRIES = 500
"""Columns that are kept; the oldest go."""


class Kept:
    """Results by a digest of whatever they were made of. A file that is lost, old or damaged costs time only.

    Args:
        folder: the grid's; where it is not there nothing is kept.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._changed = False
        self._held: dict[str, Any] = {}
        try:
            value = read_json(self._path)
        except (OSError, ValueError):
            value = None
        if isinstance(value, dict) and value.get("schema") == _SCHEMA and isinstance(value.get("columns"), dict):
            self._held = value["columns"]

    def get(self, parts: Any) -> Any:
        """What was kept for ``parts`` (JSON values), or ``None``."""
        return self._held.get(_digest(parts))

    def put(self, parts: Any, value: Any) -> None:
        """Keep ``value`` for ``parts``."""
        self._held[_digest(parts)] = value
        self._changed = True

    def save(self) -> None:
        """Write what is new, if that can be done."""
        if self._changed and self._path.parent.is_dir():
            newest = dict(list(self._held.items())[-_ENTRIES:])
            with contextlib.suppress(OSError):
                write_json(self._path, {"schema": _SCHEMA, "columns": newest})


def _digest(parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]

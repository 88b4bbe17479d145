"""The error of a faulty training file."""

from __future__ import annotations

from pathlib import Path


class DataError(ValueError):
    """A data file, or one line of it, can't be used.

    The message names the file, the line (from 1) and the key, what was found, and what would be valid.
    """

    def __init__(self, path: str | Path, line: int | None, problem: str) -> None:
        self.path = Path(path)
        self.line = line
        place = f"{path}" if line is None else f"{path}:{line}"
        super().__init__(f"{place}: {problem}")

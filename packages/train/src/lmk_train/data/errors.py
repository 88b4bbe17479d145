"""The error of a faulty training file."""

from __future__ import annotations

from pathlib import Path


class DataError(ValueError):
    """A data file, or one row of it, can't be used.

    The message names the file, the line (of parquet: the row) from 1, and the key, what was found, and what would be
    valid.

    Args:
        path: The file.
        line: The line; ``None`` for the file as a whole.
        problem: What is wrong and what would be valid.
        case: Which case of :data:`lmk_train.data.reading.CASES` it is, if any.
    """

    def __init__(self, path: str | Path, line: int | None, problem: str, case: str | None = None) -> None:
        self.path = Path(path)
        self.line = line
        self.problem = problem
        self.case = case
        place = f"{path}" if line is None else f"{path}:{line}"
        super().__init__(f"{place}: {problem}")

    def __reduce__(self) -> tuple[type[DataError], tuple[object, ...]]:
        return type(self), (self.path, self.line, self.problem, self.case)

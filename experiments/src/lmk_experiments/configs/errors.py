"""What is wrong with a user's file, said so that it can be mended."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

Path = tuple[str | int, ...]
"""A place in a YAML file, for example ``("train", 2, "pooling", "kind")``."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        file: the file as the user named it.
        line: 1-based line, or ``None`` where only the file is known.
        key: dotted path of the key, or an empty string for the whole file.
        message: what was found and what would be valid.
    """

    file: str
    line: int | None
    key: str
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


class ConfigError(ValueError):
    """A file of the user's is wrong; ``problems`` lists everything that was found, each once."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(dict.fromkeys(problems))
        super().__init__("\n".join(map(str, self.problems)))


def dotted(path: Path) -> str:
    """``("train", 2, "row")`` as ``train[2].row``.

    >>> dotted(("train", 2, "row"))
    'train[2].row'
    """
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def explain(found: object, valid: Iterable[str]) -> str:
    """The tail of an error about a wrong name: a near miss if there is one, then all valid names.

    >>> explain("clss", ["cls", "mean"])
    "did you mean 'cls'? Valid: cls, mean"
    """
    names = list(valid)
    listed = ", ".join(names) if names else "(none)"
    near = suggest(str(found), names)
    return f"did you mean {near!r}? Valid: {listed}" if near else f"valid: {listed}"


def suggest(found: str, names: Iterable[str]) -> str | None:
    """The valid name that ``found`` is nearest to, or ``None``."""
    return next(iter(difflib.get_close_matches(found, list(names), n=1, cutoff=0.7)), None)

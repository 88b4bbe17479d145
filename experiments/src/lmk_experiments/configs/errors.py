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
        index = isinstance(part, int) and not isinstance(part, bool)
        text += f"[{part}]" if index else f".{part}" if text else str(part)
    return text


def in_yaml(value: object) -> str:
    """A value that was found, in the words of YAML: short, and nothing of Python in it.

    >>> in_yaml(None), in_yaml(True), in_yaml("a"), in_yaml([1])
    ('null', 'true', "'a'", 'a list')
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    return repr(value) if isinstance(value, str) else str(value)


def without_key(message: str, key: object) -> str:
    """A message without the key at its head, for where the key is told anyway.

    >>> without_key("kind: 'x' is not valid", "kind")
    "'x' is not valid"
    """
    return message.removeprefix(f"{key}: ")


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

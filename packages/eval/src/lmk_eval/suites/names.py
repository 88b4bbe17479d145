"""Names that become parts of paths (suites, tasks, splits, revisions) and the messages about them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,126}")


class SuiteError(ValueError):
    """A suite or one of its tasks is not valid. The message names the key and the valid values."""


def check_name(name: str, what: str) -> str:
    """The name itself, when it can be one part of a path on every file system.

    Args:
        name: The name to check.
        what: What the name is of, for the message ("task name", "revision").

    Raises:
        SuiteError: if it is empty, longer than 127 characters, or holds anything but letters, digits, `.`, `_`, `-`.
    """
    if not _SAFE.fullmatch(name) or name.endswith("."):
        raise SuiteError(
            f"{what} {name!r} can't be a part of a path: use letters, digits, '.', '_' and '-', "
            "begin with a letter or a digit, don't end with '.', at most 127 characters"
        )
    return name


def check_keys(data: Mapping[str, Any], valid: Collection[str], what: str) -> None:
    """Refuse keys that are not among the valid ones, naming both.

    Raises:
        SuiteError: if `data` has a key that is not in `valid`.
    """
    unknown = [key for key in data if key not in valid]
    if unknown:
        raise SuiteError(f"{what} has no key {', '.join(map(repr, unknown))}; valid keys: {', '.join(sorted(valid))}")

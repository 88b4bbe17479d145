"""What records hold at least: a file of another shape is told by its name and key, and does not break its reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Types = tuple[type, ...]
Shape = Mapping[str, Types]
"""The keys that must be there, and the types that their values may have."""

TEXT: Types = (str,)
WHOLE: Types = (int,)
NUMBER: Types = (int, float)
OBJECT: Types = (dict,)
LIST: Types = (list,)
FLAG: Types = (bool,)

EVENT: Shape = {"time": NUMBER, "event": TEXT}
METRICS: Shape = {"time": NUMBER, "step": WHOLE, "values": OBJECT}
PROGRESS: Shape = {"time": NUMBER, "done": WHOLE, "total": WHOLE}
CLAIM: Shape = {"host": TEXT, "pid": WHOLE, "started": NUMBER, "token": TEXT}
CELL: Shape = {"id": TEXT, "kind": TEXT, "created": TEXT, "config": OBJECT}
DONE: Shape = {"finished": TEXT, "seconds": NUMBER}
SCORES: Shape = {"scores": OBJECT}
"""What ``DONE.json`` of an evaluation holds besides: task to metric to value."""
FIGURE: Shape = {"files": OBJECT, "metrics": OBJECT, "summary": LIST}
"""What ``DONE.json`` of an analysis holds besides: its files with their digests, and its few numbers."""

_NAMES: dict[type, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    dict: "an object",
    list: "a list",
    bool: "true or false",
}


class RecordError(ValueError):
    """A record has not the shape that it should have; the message names the file and the key."""


def checked(value: Any, shape: Shape, place: str) -> dict[str, Any]:
    """``value``, which is an object with the keys of ``shape``.

    Args:
        place: the file, and where in it, for the message.

    Raises:
        RecordError: it is something else.
    """
    if not isinstance(value, dict):
        raise RecordError(f"{place}: expected an object, found {_name(value)}")
    for key, types in shape.items():
        if key not in value:
            raise RecordError(f"{place}: key {key!r} is missing; needed: {', '.join(shape)}")
        # To Python true is a number; to a reader of records it is none.
        if not isinstance(value[key], types) or (isinstance(value[key], bool) and bool not in types):
            raise RecordError(f"{place}: key {key!r} is {_name(value[key])}; expected {_NAMES[types[-1]]}")
    return value


def checked_values(values: Mapping[str, Any], types: Types, place: str) -> None:
    """See that every value of an object has one of ``types``.

    Raises:
        RecordError: one has not.
    """
    for key in values:
        checked(values, {key: types}, place)


def _name(value: Any) -> str:
    return "null" if value is None else _NAMES.get(type(value), type(value).__name__)

"""Pydantic's errors in the words of the user's file."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, Tag, ValidationError

from lmk_experiments.configs.errors import ConfigError, Problem, explain, in_yaml, without_key
from lmk_experiments.configs.errors import Path as KeyPath

Model = TypeVar("Model", bound=BaseModel)

REQUIRED = "this key is required and is not there"

_EXPECTED = {
    "string": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "tuple": "a list",
    "list": "a list",
    "dict": "a mapping of keys to values",
    "mapping": "a mapping of keys to values",
    "model": "a mapping of keys to values",
}
"""What pydantic's kinds of errors ask for, by the first word of a kind such as ``int_parsing``."""
_OF_TYPE = ("_type", "_parsing", "_parsing_size", "_from_float", "_attributes_type")
_KEY = "[key]"


def validate(model: type[Model], value: Any, problem: Callable[[KeyPath, str], Problem]) -> Model:
    """``value`` as a ``model``.

    Args:
        problem: makes a ``Problem`` of a path and a message (``Document.problem`` or ``Layers.problem``).

    Raises:
        ConfigError: with one problem for each thing that is wrong, naming file, line, key and the valid values.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        faults = [_fault(model, detail) for detail in error.errors() if not _follows(detail)]
        raise ConfigError([problem(fault.path, fault.message) for fault in _joined(faults)]) from None


@dataclass(frozen=True)
class _Fault:
    path: KeyPath
    message: str
    expected: str | None = None
    """What stands in the message's place where it is only that another type is expected."""
    found: Any = None
    unions: tuple[KeyPath, ...] = ()
    """The places above, or here, that may be of several types: pydantic reports each of these types on its own."""


def _follows(detail: Any) -> bool:
    """Whether a list is only too short because its items are wrong, which is told already."""
    found = detail.get("input")
    return detail["type"] == "too_short" and isinstance(found, list) and len(found) >= detail["ctx"]["min_length"]


def _joined(faults: list[_Fault]) -> list[_Fault]:
    """One fault where several types are valid: what is wrong within the type that was meant, or all that are valid."""
    for place in dict.fromkeys(place for fault in faults for place in fault.unions):
        through = [fault for fault in faults if place in fault.unions]
        of_type = [fault for fault in through if fault.path == place and fault.expected]
        if len(of_type) < len(through):
            faults = [fault for fault in faults if fault not in of_type]
        elif len(of_type) > 1:
            expected = " or ".join(dict.fromkeys(str(fault.expected) for fault in of_type))
            merged = _of_type(place, expected, of_type[0].found)
            faults = [merged if fault is of_type[0] else fault for fault in faults if fault not in of_type[1:]]
    return faults


def _of_type(path: KeyPath, expected: str, found: Any, unions: tuple[KeyPath, ...] = ()) -> _Fault:
    quote = expected.startswith("text") and found is not None and not isinstance(found, str | dict | list | tuple)
    message = f"{expected} is expected, found {in_yaml(found)}{'; put it in quotes' if quote else ''}"
    return _Fault(path, message, expected, found, unions)


def _fault(model: type[BaseModel], detail: Any) -> _Fault:
    loc = tuple(detail["loc"])
    if _KEY in loc or detail["type"] == "invalid_key":
        path = _resolve(model, tuple(part for part in loc if part != _KEY))[0]
        return _Fault(path, "a key is text: put it in quotes")
    path, owner, here, unions = _resolve(model, loc)
    kind, found = detail["type"], detail.get("input")
    if kind == "extra_forbidden":
        return _Fault(path, f"unknown key; {explain(path[-1], _names(owner))}", unions=unions)
    if kind == "missing":
        return _Fault(path, "one item more is expected" if isinstance(path[-1], int) else REQUIRED, unions=unions)
    if isinstance(found, dict) and (unknown := [key for key in found if here and key not in _names(here)]):
        # A section that refuses unknown keys itself reports its own place: the key's is one level further down.
        return _Fault((*path, unknown[0]), f"unknown key; {explain(unknown[0], _names(here))}", unions=unions)
    cause = detail.get("ctx", {}).get("error")
    if cause is not None:
        key = getattr(cause, "key", None)
        return _Fault((*path, key) if key else path, without_key(str(cause), key), unions=unions)
    expected = _EXPECTED.get(kind.split("_")[0]) if kind.endswith(_OF_TYPE) else None
    if expected is not None:
        return _of_type(path, expected, found, unions)
    return _Fault(path, _message(detail, found), unions=unions)


def _message(detail: Any, found: Any) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in ("too_short", "too_long"):
        least = kind == "too_short"
        number = context["min_length" if least else "max_length"]
        items = "item is" if number == 1 else "items are"
        return f"at {'least' if least else 'most'} {number} {items} expected, found {context['actual_length']}"
    if kind == "string_too_short":
        return f"text of at least {context['min_length']} characters is expected, found {found!r}"
    message = detail["msg"][0].lower() + detail["msg"][1:]
    return message if isinstance(found, dict | list) or repr(found) in message else f"{message}, found {in_yaml(found)}"


def _resolve(
    model: type[BaseModel], loc: tuple[str | int, ...]
) -> tuple[KeyPath, type[BaseModel] | None, type[BaseModel] | None, tuple[KeyPath, ...]]:
    """Where ``loc`` is: its path without the names pydantic gives to the members of unions, the model of its last key,
    the model there, and the places of the unions it goes through."""
    path: list[str | int] = []
    owner: type[BaseModel] | None = model
    current: Any = model
    unions: list[KeyPath] = []
    for part in loc:
        members = _members(current)
        called = [member for member in members if _is_called(member, part)]
        if called:
            unions.append(tuple(path))
            current = _bare(called[0])
            continue
        owner = _as_model(current)
        path.append(part)
        if owner is None:
            current = _item(current)
            continue
        fields = {field.alias or name: field for name, field in owner.model_fields.items()}
        current = _model_in(fields[part].annotation) if part in fields else None
    return tuple(path), owner, _as_model(current), tuple(unions)


def _members(annotation: Any) -> tuple[Any, ...]:
    is_union = isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union
    return typing.get_args(annotation) if is_union else ()


def _is_called(member: Any, part: str | int) -> bool:
    """Whether ``part`` of an error's place is what pydantic calls this member of a union: its tag, or its type."""
    tags = [mark.tag for mark in getattr(member, "__metadata__", ()) if isinstance(mark, Tag)]
    if tags:
        return part == tags[0]
    bare = _bare(member)
    name = getattr(typing.get_origin(bare) or bare, "__name__", str(bare))
    if not isinstance(part, str):
        return False
    # A model with a validator of its own is called "function-after[its name, the model]".
    wrapped = part.startswith("function-") and part.endswith(f", {name}]")
    return wrapped or part in (name, f"constrained-{name}") or part.startswith(f"{name}[")


def _bare(annotation: Any) -> Any:
    return typing.get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation


def _as_model(annotation: Any) -> type[BaseModel] | None:
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _model_in(annotation: Any) -> Any:
    """``annotation`` without marks and without ``None``: ``Section | None`` is ``Section``."""
    annotation = _bare(annotation)
    members = [member for member in _members(annotation) if member is not type(None)]
    return members[0] if len(members) == 1 else annotation


def _item(annotation: Any) -> Any:
    """The item type of a container's annotation, or ``None``."""
    arguments = [argument for argument in typing.get_args(annotation) if argument is not Ellipsis]
    return _model_in(arguments[-1]) if arguments else None


def _names(model: type[BaseModel] | None) -> list[str]:
    return [] if model is None else [field.alias or name for name, field in model.model_fields.items()]

"""Pydantic's errors in the words of the user's file."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, Tag, ValidationError

from lmk_experiments.configs.errors import ConfigError, Problem, explain
from lmk_experiments.configs.errors import Path as KeyPath

Model = TypeVar("Model", bound=BaseModel)


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
        raise ConfigError([_translate(model, detail, problem) for detail in error.errors()]) from None


def _translate(model: type[BaseModel], detail: Any, problem: Callable[[KeyPath, str], Problem]) -> Problem:
    path, owner, here = _resolve(model, tuple(detail["loc"]))
    kind, found = detail["type"], detail.get("input")
    if kind == "extra_forbidden":
        return problem(path, f"unknown key; {explain(path[-1], _names(owner))}")
    if kind == "missing":
        return problem(path, "this key is required and is not there")
    if isinstance(found, dict) and (unknown := [key for key in found if here and key not in _names(here)]):
        # A section that refuses unknown keys itself reports its own place: the key's is one level further down.
        return problem((*path, unknown[0]), f"unknown key; {explain(unknown[0], _names(here))}")
    cause = detail.get("ctx", {}).get("error")
    if cause is not None:
        key = getattr(cause, "key", None)
        return problem((*path, key) if key else path, str(cause))
    message = detail["msg"][0].lower() + detail["msg"][1:]
    shown = "" if isinstance(found, dict | list) or repr(found) in message else f", found {found!r}"
    return problem(path, message + shown)


def _resolve(
    model: type[BaseModel], loc: tuple[str | int, ...]
) -> tuple[KeyPath, type[BaseModel] | None, type[BaseModel] | None]:
    """The path of ``loc`` without the tags pydantic adds for unions, the model of its last key, and the model there."""
    path: list[str | int] = []
    owner: type[BaseModel] | None = model
    current: Any = model
    for part in loc:
        members = {_name(member): member for member in _members(current)}
        if part in members:
            current = _bare(members[part])
            continue
        owner = _as_model(current)
        path.append(part)
        if owner is None:
            current = _item(current)
            continue
        fields = {field.alias or name: field for name, field in owner.model_fields.items()}
        current = _model_in(fields[part].annotation) if part in fields else None
    return tuple(path), owner, _as_model(current)


def _members(annotation: Any) -> tuple[Any, ...]:
    is_union = isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union
    return typing.get_args(annotation) if is_union else ()


def _name(member: Any) -> str:
    """What pydantic calls a member of a union in an error's place: its tag, or its type's name."""
    tags = [mark.tag for mark in getattr(member, "__metadata__", ()) if isinstance(mark, Tag)]
    return tags[0] if tags else getattr(member, "__name__", str(member))


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

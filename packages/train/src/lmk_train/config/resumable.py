"""What of a configuration has to be the same for two runs to be one training."""

from __future__ import annotations

import hashlib
import json
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel

from lmk_train.config.pretraining import AnyConfig


def resumable(config: BaseModel) -> dict[str, Any]:
    """The part of a configuration that may not change between a checkpoint and its resumption, as JSON values.

    That is what counts in the identity, but for the places of files: the same files can lie elsewhere, and what is in
    them is checked by who names the folder. A field that has its ``identity_absent`` value is left out, so that a
    checkpoint that was written before there was such a field can be resumed.

    Example:
        >>> from lmk_train.config import ModelConfig
        >>> resumable(ModelConfig(path="models/tiny", revision="main"))
        {'revision': 'main'}
    """
    dump = config.model_dump(mode="json")
    values = {}
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        marks = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        if marks.get("identity") == "content" and isinstance(value, tuple) and isinstance(value[0], BaseModel):
            values[name] = [resumable(item) for item in value]
            continue
        if marks.get("identity") in {"transient", "content"}:
            continue
        if "identity_absent" in marks and value == marks["identity_absent"]:
            continue
        if marks.get("place"):
            values[name] = PurePath(value).name
            continue
        values[name] = resumable(value) if isinstance(value, BaseModel) else dump[name]
    return values


def digest(config: AnyConfig) -> str:
    """SHA-256 of :func:`resumable` and of the names, without their folders, of the model and the training files."""
    text = json.dumps([resumable(config), _names(config)], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def described(config: AnyConfig) -> dict[str, Any]:
    """What :func:`digest` is of, to be compared with another one's by :func:`differences`."""
    model, *files = _names(config)
    return {**resumable(config), "model.path": model, "data.train": files}


def differences(theirs: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """One line for each key that differs, with both values; keys are dotted."""
    old, new = _flat(theirs), _flat(ours)
    return [
        f"{key}: {old.get(key)!r} there, {new.get(key)!r} here"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _names(config: AnyConfig) -> list[str]:
    return [PurePath(path).name for path in (config.model.path, *config.data.paths)]

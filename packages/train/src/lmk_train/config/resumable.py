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
    names = [PurePath(path).name for path in (config.model.path, *config.data.paths)]
    text = json.dumps([resumable(config), names], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()

"""Who a cell is: the first 12 hex digits of the SHA-256 of its canonical JSON.

Everything counts except fields marked ``{"identity": "transient"}``. Fields marked ``{"identity": "content"}`` name
files, folders or hub models and count by what is in them. A field added later says with ``{"identity_absent": VALUE}``
which value leaves older identities as they were. Published data (``data:NAME``) counts by its name and version.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

if TYPE_CHECKING:
    from lmk_core.pooling import PoolingConfig

Fingerprint = Callable[[str], str | None]
"""The content's fingerprint of a local path or a built reference, ``None`` while it is not built; of published data its
name and version."""

LOCAL_PREFIXES = ("built:", "data:", "/", "./", "../", "~")


class NotBuilt(LookupError):
    """An identity cannot be told before this data is built."""

    def __init__(self, reference: str) -> None:
        self.reference = reference
        super().__init__(f"{reference} is not built yet")


def is_local(reference: str) -> bool:
    """Whether ``reference`` is a path or data of ours, not the name of a model on a hub."""
    return reference.startswith(LOCAL_PREFIXES)


def canonical(value: Any, fingerprint: Fingerprint) -> Any:
    """``value`` as JSON values that hold exactly what counts.

    Raises:
        NotBuilt: it names data that is not built yet.
    """
    if isinstance(value, BaseModel):
        return {
            name: _field(getattr(value, name), _marks(field.json_schema_extra), fingerprint)
            for name, field in type(value).model_fields.items()
            if _counts(getattr(value, name), _marks(field.json_schema_extra))
        }
    if isinstance(value, tuple | list):
        return [canonical(item, fingerprint) for item in value]
    if isinstance(value, Mapping):
        return {str(key): canonical(item, fingerprint) for key, item in value.items()}
    if hasattr(value, "to_dict"):
        return canonical(value.to_dict(), fingerprint)
    return value


def identity(value: Any, fingerprint: Fingerprint) -> str:
    """The identity of a configuration: 12 hex digits.

    Raises:
        NotBuilt: it names data that is not built yet.
    """
    text = json.dumps(canonical(value, fingerprint), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _marks(extra: Any) -> dict[str, Any]:
    return extra if isinstance(extra, dict) else {}


def _counts(value: Any, marks: dict[str, Any]) -> bool:
    if marks.get("identity") == "transient":
        return False
    return not ("identity_absent" in marks and value == marks["identity_absent"])


def _field(value: Any, marks: dict[str, Any], fingerprint: Fingerprint) -> Any:
    if marks.get("identity") == "content" and value is not None:
        if isinstance(value, tuple | list):
            return [_content(item, fingerprint) for item in value]
        return _content(value, fingerprint)
    return canonical(value, fingerprint)


def _content(reference: Any, fingerprint: Fingerprint) -> Any:
    if isinstance(reference, BaseModel):  # a data set with more than a path
        return canonical(reference, fingerprint)
    if not is_local(reference):
        return {"hub": reference}
    found = fingerprint(reference)
    if found is None:
        raise NotBuilt(reference)
    return {"data": found} if reference.startswith("data:") else {"content": found}


def revision(weights: str | None, pooling: PoolingConfig | None, max_length: int) -> str:
    """What tells the results of one reading of these weights from all others."""
    read_as = {"pooling": pooling and pooling.to_dict(), "max_length": max_length}
    return hashlib.sha256(json.dumps([weights, read_as], sort_keys=True).encode()).hexdigest()[:12]

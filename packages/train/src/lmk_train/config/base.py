"""The base of every section, and the marks that say how a field counts in a training's identity."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

TRANSIENT: dict[str, Any] = {"identity": "transient"}
"""``json_schema_extra`` of a field that never changes the weights: left out of the identity."""

CONTENT: dict[str, Any] = {"identity": "content"}
"""``json_schema_extra`` of a path that counts by what the file or folder holds, not by its name."""


class Section(BaseModel):
    """A frozen group of keys. Unknown keys are errors that list the valid ones; the help is the docstrings.

    A field added after a release carries ``json_schema_extra={"identity_absent": VALUE}``: where the field has that
    value it is left out of the identity, so that trainings made before it keep theirs.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        validate_default=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _name_the_valid_keys(cls, data: Any) -> Any:
        """Turns pydantic's "extra inputs are not permitted" into an error a user can act on."""
        if not isinstance(data, Mapping):
            return data
        unknown = [str(key) for key in data if key not in cls.model_fields]
        if unknown:
            close = difflib.get_close_matches(unknown[0], cls.model_fields, n=1)
            raise PydanticCustomError(
                "unknown_key",
                "unknown key {unknown}{hint}; valid keys: {valid}",
                {
                    "unknown": ", ".join(repr(key) for key in unknown),
                    "hint": f" (did you mean '{close[0]}'?)" if close else "",
                    "valid": ", ".join(cls.model_fields),
                },
            )
        return data

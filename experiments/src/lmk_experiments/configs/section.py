"""What every part of a YAML file is read into."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of a file: frozen, without keys that nobody reads, its fields described by the texts under them.

    A field whose key is no name in Python is known by both.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, populate_by_name=True)

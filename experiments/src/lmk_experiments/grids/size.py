"""How large a model is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ModelSize(BaseModel):
    """How large a model is: for estimates of cost only, never part of an identity."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    parameters: int = Field(ge=1)
    """Parameters outside the embeddings: those that every token is multiplied with."""
    embedding_parameters: int = Field(default=0, ge=0)
    """Parameters of the embeddings: they are stored, and looked up."""
    dim: int = Field(ge=1)
    """Numbers of one embedding."""

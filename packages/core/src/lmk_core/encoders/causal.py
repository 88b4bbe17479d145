"""Telling models that read in both directions from those that do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)


def why_causal(config: Mapping[str, Any]) -> str | None:
    """Why a model with this ``config.json`` looks causal, or None if it reads in both directions."""
    if config.get("is_decoder"):
        return "its config says is_decoder"
    if config.get("use_bidirectional_attention") or config.get("is_causal") is False:
        return None
    for name in config.get("architectures") or ():
        if name.endswith(("ForCausalLM", "LMHeadModel")):
            return f"its architecture is {name}"
    kind = config.get("model_type")
    # A type with a masked language model reads in both directions unless is_decoder says otherwise.
    if kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        return f"its model_type {kind!r} is a causal language model"
    return None

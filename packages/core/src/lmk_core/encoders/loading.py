"""Loading an encoder, refusing what would give wrong vectors in silence."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModel, PreTrainedConfig

from lmk_core.encoders.causal import why_causal


class EncoderError(ValueError):
    """A checkpoint that cannot serve as an encoder here."""


def load_encoder(
    name_or_path: str | Path,
    *,
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
    causal_ok: bool = False,
    **options: Any,
) -> nn.Module:
    """Load a bidirectional encoder, in evaluation mode on the CPU. Safetensors only; remote code is never run.

    A pooler head is dropped: no strategy here uses it, and unused parameters trouble distributed training.

    Args:
        name_or_path: a folder, or a name on the Hugging Face Hub.
        dtype: of the weights, "float32" unless said otherwise (whatever type the file has).
        revision: of the Hub's repository.
        causal_ok: load a causal model all the same.
        options: passed on to ``AutoModel.from_pretrained``, for example ``attn_implementation``.

    Raises:
        EncoderError: for a causal or encoder-decoder model, a checkpoint that needs remote code, or missing weights.
    """
    name_or_path = str(name_or_path)
    _refuse_unusable(name_or_path, _config(name_or_path, revision), causal_ok)
    model, info = AutoModel.from_pretrained(
        name_or_path,
        dtype=_dtype(dtype),
        revision=revision,
        trust_remote_code=False,
        use_safetensors=True,
        output_loading_info=True,
        **options,
    )
    missing = sorted(key for key in info["missing_keys"] if "pooler" not in key)
    if missing:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise EncoderError(
            f"{name_or_path}: the checkpoint lacks {len(missing)} weights, which would be random: {shown}"
        )
    if "add_pooling_layer" in inspect.signature(type(model).__init__).parameters:
        model.pooler = None
    return model


def max_positions(encoder: nn.Module) -> int | None:
    """The longest input, in tokens, of an encoder with a table of positions; None for rotary and the like."""
    for name, module in encoder.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            # RoBERTa's table starts after the padding index.
            return module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
    return None


def _config(name: str, revision: str | None) -> dict[str, Any]:
    """The raw ``config.json``, read before anything may ask to run a checkpoint's own code."""
    try:
        config, _ = PreTrainedConfig.get_config_dict(name, revision=revision)
    except OSError as error:
        what = "no usable config.json in this folder"
        if not Path(name).is_dir():
            what = "neither a folder here nor a model of the Hugging Face Hub or its cache"
        raise EncoderError(f"{name}: {what}: {error}") from error
    return config


def _refuse_unusable(name: str, config: dict[str, Any], causal_ok: bool) -> None:
    if config.get("model_type") == "new":
        raise EncoderError(
            f"{name}: model_type 'new' (GTE with remote code) must be converted to the native 'gte' type first, which "
            "this version cannot do; loaded as it is its weights would be random"
        )
    if config.get("is_encoder_decoder"):
        raise EncoderError(f"{name}: an encoder-decoder model; only encoders are supported")
    reason = None if causal_ok else why_causal(config)
    if reason is not None:
        raise EncoderError(
            f"{name}: looks like a causal model ({reason}); landmarks need attention in both directions. "
            "Pass causal_ok=True to load it all the same"
        )


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype:
    if dtype is None:
        return torch.float32
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise EncoderError(f"dtype: {dtype!r}; valid: float32, bfloat16, float16")
    return found

"""Loading an encoder, refusing what would give wrong vectors in silence."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig

from lmk_core.encoders.causal import why_causal
from lmk_core.encoders.gte import PUBLISHED_TYPE, gte_config

_HUB_NAME = re.compile(r"(?!.*(--|\.\.))(?![-.])([A-Za-z0-9_][\w.-]*/)?[A-Za-z0-9_][\w.-]*(?<![-.])", re.ASCII)
# BERT's and most others', CLIP's, RoFormer's.
_POSITION_TABLES = ("position_embeddings", "position_embedding", "embed_positions")


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

    The published gte checkpoints (``model_type`` "new") load as transformers' own gte, and are saved as such. A pooler
    head is dropped: no strategy here uses it, and unused parameters trouble distributed training.

    Args:
        name_or_path: a folder, or a name on the Hugging Face Hub.
        dtype: of the weights, "float32" unless said otherwise (whatever type the file has).
        revision: of the Hub's repository.
        causal_ok: load a causal model all the same.
        options: passed on to ``AutoModel.from_pretrained``, for example ``attn_implementation``.

    Raises:
        EncoderError: if there is no such model, for a causal or encoder-decoder model, a gte checkpoint that the native
            model cannot compute, or missing weights.
    """
    name_or_path = str(name_or_path)
    refuse_unknown_place(name_or_path)
    config = _config(name_or_path, revision)
    _refuse_unusable(name_or_path, config, causal_ok)
    if config.get("model_type") == PUBLISHED_TYPE:
        options["config"] = _gte_config(name_or_path, config)
    model, info = AutoModel.from_pretrained(
        name_or_path,
        dtype=_dtype(dtype),
        revision=revision,
        trust_remote_code=False,
        use_safetensors=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # they are an error below, with their names
        **options,
    )
    _refuse_random_weights(name_or_path, info)
    if "add_pooling_layer" in inspect.signature(type(model).__init__).parameters:
        model.pooler = None
    return model


def _refuse_random_weights(name: str, info: Mapping[str, Any]) -> None:
    """A weight that the file lacks, or has in another shape, would be random; only an unused pooler may be."""
    for what, keys in (
        ("lacks", {str(key) for key in info["missing_keys"]}),
        ("has another shape of", {str(key) for key, *_ in info["mismatched_keys"]}),
    ):
        random = sorted(key for key in keys if key.split(".")[0] != "pooler")
        if random:
            shown = ", ".join(random[:5]) + (", ..." if len(random) > 5 else "")
            raise EncoderError(f"{name}: the checkpoint {what} {len(random)} weights, which would be random: {shown}")


def max_positions(encoder: nn.Module) -> int | None:
    """The longest input, in tokens, of an encoder with a table of positions; None for rotary and the like."""
    for name, module in encoder.named_modules():
        if name.endswith(_POSITION_TABLES) and isinstance(module, nn.Embedding):
            # RoBERTa's table starts after the padding index.
            return module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
    return None


def refuse_too_long(encoder: nn.Module, max_length: int) -> None:
    """Say so, rather than let an index fault tell.

    Raises:
        ValueError: for a length beyond the encoder's table of positions.
    """
    limit = max_positions(encoder)
    if limit is not None and max_length > limit:
        raise ValueError(f"max_length: {max_length} is beyond the model's table of positions; at most {limit}")


def refuse_unknown_place(name: str) -> None:
    """Say so where a path is mistyped, rather than let the Hub's client complain of a wrong name.

    Raises:
        EncoderError: for a file, or a path that is no folder and could be no name of the Hub.
    """
    if Path(name).is_dir():
        return
    if Path(name).is_file():
        raise EncoderError(f"{name}: is a file, not a model's folder")
    if not _HUB_NAME.fullmatch(name):
        raise EncoderError(
            f"{name}: there is no such folder (looked for in {Path.cwd()}), and no model of the Hugging Face Hub can "
            "have this name (valid: name or owner/name)"
        )


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


def native_config(name: str, revision: str | None = None) -> PreTrainedConfig:
    """The config of a checkpoint, that of a published gte one in transformers' own words.

    Raises:
        EncoderError: if there is no such model, or the native gte model cannot compute it.
    """
    config = _config(name, revision)
    if config.get("model_type") == PUBLISHED_TYPE:
        return _gte_config(name, config)
    return AutoConfig.from_pretrained(name, revision=revision, trust_remote_code=False)


def _gte_config(name: str, published: dict[str, Any]) -> PreTrainedConfig:
    try:
        return gte_config(published)
    except ValueError as error:
        raise EncoderError(f"{name}: config.json: {error}") from error


def _refuse_unusable(name: str, config: dict[str, Any], causal_ok: bool) -> None:
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

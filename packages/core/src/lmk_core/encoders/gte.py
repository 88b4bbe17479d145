"""The published gte checkpoints (``model_type`` "new") as transformers' own gte, without their remote code.

The weights are the same under the same names; only the config must be said in transformers' words. Loaded without that,
transformers takes none of the weights and draws random ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import GteConfig

PUBLISHED_TYPE = "new"
# What the native model computes; any other value of these is another model.
_FIXED: dict[str, Any] = {
    "position_embedding_type": "rope",
    "layer_norm_type": "layer_norm",
    "logn_attention_scale": False,
    "pack_qkv": True,
}
# How to run or to find the remote code, or what transformers writes by itself.
_LEFT_OUT = (
    *_FIXED,
    *("model_type", "auto_map", "architectures", "torch_dtype", "dtype", "transformers_version", "_name_or_path"),
    *("unpad_inputs", "use_memory_efficient_attention", "logn_attention_clip1", "rope_theta", "rope_scaling"),
)
# What the published config class takes where the file says nothing, and transformers' own does not.
_DEFAULTS: dict[str, Any] = {"vocab_size": 30528, "max_position_embeddings": 2048, "pad_token_id": None}
_DEFAULT_THETA = 10_000.0


def gte_config(published: Mapping[str, Any]) -> GteConfig:
    """transformers' own config of a published gte checkpoint's ``config.json``.

    Raises:
        ValueError: if it asks for something that the native model does not compute.
    """
    for key, value in _FIXED.items():
        if published.get(key, value) != value:
            raise ValueError(f"{key}: {published[key]!r}; the native gte model has {value!r} only")
    kept = {key: value for key, value in published.items() if key not in _LEFT_OUT}
    return GteConfig(**{**_DEFAULTS, **kept}, rope_parameters=rope_parameters(published))


def rope_parameters(published: Mapping[str, Any]) -> dict[str, Any]:
    """The rotary embedding, said in transformers' words.

    The published "ntk" scaling by f has the frequencies ``(theta f)^(-2i/d) / f^(2/d)``: that is a base of
    ``theta f`` with all frequencies divided by ``f^(2/d)``, which transformers calls "linear".

    Raises:
        ValueError: for a scaling that has no such form.
    """
    theta = float(published.get("rope_theta", _DEFAULT_THETA))
    scaling = published.get("rope_scaling")
    if scaling is None:
        return {"rope_type": "default", "rope_theta": theta}
    kind = scaling.get("type", scaling.get("rope_type"))
    if kind != "ntk":
        raise ValueError(f"rope_scaling.type: {kind!r}; valid: 'ntk', or no rope_scaling")
    if scaling.get("mixed_b") is not None:
        raise ValueError(f"rope_scaling.mixed_b: {scaling['mixed_b']!r}; only null has a native form")
    factor = scaling.get("factor")
    if isinstance(factor, bool) or not isinstance(factor, (int, float)) or factor <= 0:
        raise ValueError(f"rope_scaling.factor: {factor!r}; expected a positive number")
    if factor <= 1:  # the published code scales only what is longer than max_position_embeddings
        return {"rope_type": "default", "rope_theta": theta}
    dim = published.get("hidden_size", 768) // published.get("num_attention_heads", 12)
    return {"rope_type": "linear", "factor": factor ** (2 / dim), "rope_theta": theta * factor}

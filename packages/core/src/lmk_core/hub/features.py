"""A batch as Sentence Transformers passes it on: tensors in a dictionary, one or two layouts of the same texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from lmk_core.layouts import Layouts, PoolingTokenizer
from lmk_core.pooling import PoolingConfig

Features = dict[str, Any]

# Not "drawn_input_ids": a trainer takes every name that ends in "_input_ids" for another column of texts.
_DRAWN = {
    "input_ids": "drawn_ids",
    "attention_mask": "drawn_attention_mask",
    "pooling_mask": "drawn_pooling_mask",
    "prompt_mask": "drawn_prompt_mask",
}
_OF_READING = "read_attention_mask"
# Prompts are not cut.
_LONG = 2**31


def layout_features(tokenizer: PoolingTokenizer, layouts: Layouts, prompt: str | None) -> Features:
    """``input_ids``, ``attention_mask`` and ``pooling_mask``, each [batch, tokens].

    With a prompt also ``prompt_mask``, of the pooled positions that say nothing of the text behind it: see
    `of_prompt`.
    """
    features: Features = {**tokenizer.pad(layouts)}
    if prompt:
        own = PoolingTokenizer(tokenizer.hf_tokenizer, PoolingConfig("cls")).tokenize([prompt], max_length=_LONG)
        mask = torch.zeros_like(features["pooling_mask"])
        # Row by row, as `pooled` is.
        mask[features["pooling_mask"]] = torch.from_numpy(of_prompt(tokenizer, layouts, len(own.ids)))
        features["prompt_mask"] = mask
    return features


def of_prompt(tokenizer: PoolingTokenizer, layouts: Layouts, prompt_tokens: int) -> NDArray[np.bool_]:
    """[all pooled] whether a pooled position belongs to a prompt of ``prompt_tokens`` tokens before the text.

    A landmark, or the CLS of a chunk, belongs to it when its whole chunk does. Any other position does when it is the
    first special token or one of the prompt's own, as in Sentence Transformers' ``Pooling``.
    """
    head = 0 if tokenizer.tokens.first is None else 1
    kind = tokenizer.pooling.kind
    if kind not in ("landmark", "multi_cls"):
        return layouts.pooled < head + prompt_tokens
    # Special tokens before each pooled one, in its own text.
    before = np.arange(len(layouts.pooled)) - np.repeat(layouts.pooled_bounds[:-1], np.diff(layouts.pooled_bounds))
    if kind == "landmark":
        return layouts.pooled - head - before <= prompt_tokens
    chunk_starts = layouts.pooled - before
    return chunk_starts + (tokenizer.pooling.every or 1) <= prompt_tokens


def without_prompt(pooling_mask: Bool[Tensor, "batch tokens"], prompt_mask: Bool[Tensor, "batch tokens"]) -> Tensor:
    """The pooled positions outside the prompt; where there is none, the last pooled one. Shape [batch, tokens]."""
    kept = pooling_mask & ~prompt_mask
    last = pooling_mask & (pooling_mask.flip(1).cumsum(1).flip(1) == 1)
    return torch.where(kept.any(dim=1, keepdim=True), kept, last)


def both_layouts(read: Features, drawn: Features, pad_id: int) -> Features:
    """Two layouts of the same texts in one batch of equal widths, for `one_layout` to choose from.

    Its ``attention_mask`` is where either has a token, since gradient-cached losses cut their chunks down to it.
    """
    width = max(part["input_ids"].shape[1] for part in (read, drawn))
    read, drawn = _widened(read, width, pad_id), _widened(drawn, width, pad_id)
    both = {_OF_READING: read["attention_mask"], **{new: drawn[name] for name, new in _DRAWN.items() if name in drawn}}
    return read | both | {"attention_mask": read["attention_mask"] | drawn["attention_mask"]}


def one_layout(features: Features, drawn: bool) -> Features:
    """The drawn layout of `both_layouts`, or the one for reading; a batch of one layout as it is."""
    if _OF_READING not in features:
        return dict(features)
    kept = {name: value for name, value in features.items() if name not in (_OF_READING, *_DRAWN.values())}
    if drawn:
        return kept | {name: features[new] for name, new in _DRAWN.items() if new in features}
    return kept | {"attention_mask": features[_OF_READING]}


def _widened(features: Features, width: int, pad_id: int) -> Features:
    """Every tensor [batch, tokens] padded on the right to ``width``."""
    return {
        name: functional.pad(value, (0, width - value.shape[1]), value=pad_id if name == "input_ids" else 0)
        for name, value in features.items()
    }

"""A batch as Sentence Transformers passes it on: tensors in a dictionary, one or two layouts of the same texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.nn import functional

from lmk_core.layouts import Layout, PoolingTokenizer

Features = dict[str, Any]

# Not "drawn_input_ids": a trainer takes every name that ends in "_input_ids" for another column of texts.
_DRAWN = {
    "input_ids": "drawn_ids",
    "attention_mask": "drawn_attention_mask",
    "pooling_mask": "drawn_pooling_mask",
    "prompt_mask": "drawn_prompt_mask",
}
_OF_READING = "read_attention_mask"


def layout_features(tokenizer: PoolingTokenizer, layouts: Sequence[Layout], prompt: str | None) -> Features:
    """``input_ids``, ``attention_mask`` and ``pooling_mask``, each [batch, tokens].

    With a prompt also ``prompt_mask``, of the pooled positions that say nothing of the text behind it: see
    `prompt_positions`.
    """
    features: Features = {**tokenizer.pad(layouts)}
    if prompt:
        call = tokenizer.hf_tokenizer(prompt, add_special_tokens=False, split_special_tokens=True, verbose=False)
        masks = torch.zeros_like(features["pooling_mask"])
        for row, layout in enumerate(layouts):
            masks[row, prompt_positions(tokenizer, layout, len(call["input_ids"]))] = True
        features["prompt_mask"] = masks
    return features


def prompt_positions(tokenizer: PoolingTokenizer, layout: Layout, prompt_tokens: int) -> list[int]:
    """The pooled positions that belong to a prompt of ``prompt_tokens`` tokens.

    A landmark, or the CLS of a chunk, belongs to it when its whole chunk does. Any other position does when it is one
    of the first special token and the prompt's own, as in Sentence Transformers' ``Pooling``.
    """
    head = 0 if tokenizer.tokens.first is None else 1
    if tokenizer.pooling.kind == "landmark":
        ends = [position - head - index for index, position in enumerate(layout.pooled)]
    elif tokenizer.pooling.kind == "multi_cls":
        behind = [*layout.pooled[1:], len(layout) - 1]
        ends = [position - index - 1 for index, position in enumerate(behind)]
    else:
        return [position for position in layout.pooled if position < head + prompt_tokens]
    return [position for position, end in zip(layout.pooled, ends, strict=True) if end <= prompt_tokens]


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

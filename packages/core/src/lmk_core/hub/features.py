"""A batch as Sentence Transformers passes it on: tensors in a dictionary, one or two layouts of the same texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch.nn import functional

from lmk_core.layouts import PoolingTokenizer
from lmk_core.texts import TokenizedTexts

Features = dict[str, Any]

# Not "drawn_input_ids": a trainer takes every name that ends in "_input_ids" for another column of texts.
_DRAWN = {
    "input_ids": "drawn_ids",
    "attention_mask": "drawn_attention_mask",
    "pooling_mask": "drawn_pooling_mask",
    "text_mask": "drawn_text_mask",
}
_OF_READING = "read_attention_mask"


def layout_features(
    tokenizer: PoolingTokenizer, texts: TokenizedTexts, max_length: int | None, sizes: Sequence[int] | None = None
) -> Features:
    """``input_ids``, ``attention_mask`` and ``pooling_mask``, each [batch, tokens].

    Where the texts have prompts that they could do without, also ``text_mask``: what is pooled then.
    """
    whole = tokenizer.lay_out(replace(texts, unpooled=None), max_length=max_length, granularity=sizes)
    features: Features = {**tokenizer.pad(whole)}
    if texts.unpooled is not None:
        without = tokenizer.lay_out(texts, max_length=max_length, granularity=sizes)
        features["text_mask"] = tokenizer.pad(without)["pooling_mask"]
    return features


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

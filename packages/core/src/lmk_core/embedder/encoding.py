"""Turning many texts into vectors: sorted by length, in batches of a bounded number of tokens."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lmk_core.encoders import PooledEncoder
from lmk_core.layouts import Layout, PoolingTokenizer

# Tokenized at once and sorted together: enough to fill batches evenly, little enough to keep in memory.
_WINDOW_TEXTS = 65_536
_WINDOW_CHARACTERS = 32_000_000


class LandmarkVectors(NamedTuple):
    """What a text's landmarks say."""

    vectors: NDArray[np.float32]
    """[landmarks, dim] hidden states, not normalised: their mean, normalised, is the text's vector."""
    spans: list[tuple[int, int]]
    """[landmarks] the characters (start, end) each landmark closes."""


@contextmanager
def evaluating(module: nn.Module) -> Generator[None]:
    """Evaluation mode and no gradients inside; each submodule's own mode afterwards."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for part, mode in modes:
            part.training = mode


def text_windows(texts: Sequence[str]) -> Iterator[range]:
    """Cut many texts into ranges that are tokenized and sorted together."""
    start, characters = 0, 0
    for index, text in enumerate(texts):
        if index > start and (index - start == _WINDOW_TEXTS or characters + len(text) > _WINDOW_CHARACTERS):
            yield range(start, index)
            start, characters = index, 0
        characters += len(text)
    if start < len(texts):
        yield range(start, len(texts))


def token_batches(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Indices in batches, longest first, of at most ``batch_tokens`` tokens, padding included (or of one text)."""
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    start = 0
    while start < len(order):
        size = max(batch_tokens // lengths[order[start]], 1)
        yield order[start : start + size]
        start += size


def embed_layouts(
    module: PooledEncoder,
    tokenizer: PoolingTokenizer,
    layouts: Sequence[Layout],
    batch_tokens: int,
    device: torch.device,
) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
    """Vectors [batch, dim] of the layouts, batch by batch with their indices. Wants `evaluating` around it."""
    for indices in token_batches([len(layout) for layout in layouts], batch_tokens):
        batch = tokenizer.pad([layouts[index] for index in indices])
        vectors = module(
            batch["input_ids"].to(device), batch["attention_mask"].to(device), batch["pooling_mask"].to(device)
        )
        yield indices, vectors.cpu().numpy()


def landmark_vectors(
    module: PooledEncoder,
    tokenizer: PoolingTokenizer,
    layouts: Sequence[Layout],
    batch_tokens: int,
    device: torch.device,
) -> list[LandmarkVectors]:
    """Each layout's hidden states at its landmarks. Wants `evaluating` around it."""
    found: dict[int, LandmarkVectors] = {}
    for indices in token_batches([len(layout) for layout in layouts], batch_tokens):
        batch = tokenizer.pad([layouts[index] for index in indices])
        hidden = module.hidden_states(batch["input_ids"].to(device), batch["attention_mask"].to(device))
        for row, index in enumerate(indices):
            vectors = hidden[row, layouts[index].pooled].float().cpu().numpy()
            found[index] = LandmarkVectors(vectors, layouts[index].spans or [])
    return [found[index] for index in range(len(layouts))]

"""The padding that packed texts still have: inside the attention of a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from lmk_core.encoders import PooledEncoder
from lmk_core.encoders.packed.attention import has_flash_kernel
from lmk_core.encoders.packed.padding import attention_rows
from lmk_core.layouts import Layouts
from lmk_train.gradcache.chunks import Chunks
from lmk_train.throughput.flops import half_windows

_DROPOUTS = ("attention_dropout", "attention_probs_dropout_prob")


def attention_padding(encoder: PooledEncoder, texts: Layouts, chunks: Chunks) -> tuple[int, int]:
    """Queries of a step, summed over layers: without the padding of rectangles, and with it."""
    lengths, own, computed = np.asarray(texts.lengths, np.int64), 0, 0
    windows = half_windows(encoder)
    for indices in chunks.indices:
        of_chunk = lengths[indices]
        own += int(of_chunk.sum()) * len(windows)
        for half_window in set(windows):
            computed += windows.count(half_window) * attention_rows(of_chunk, half_window, encoder.dim)
    return own, computed


def makes_rectangles(encoder: PooledEncoder, device: torch.device, precision: str) -> bool:
    """Whether the attention of packed texts is computed in rectangles there: where PyTorch's flash kernel is not."""
    config: Any = encoder.encoder.config
    dropout = any(getattr(config, name, 0.0) for name in _DROPOUTS)
    return device.type != "cuda" or precision == "fp32" or dropout or not has_flash_kernel(device)

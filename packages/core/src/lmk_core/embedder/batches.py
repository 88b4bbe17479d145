"""One process's share of encoding: layouts in batches of a bounded number of tokens, through a model."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from lmk_core.encoders import PooledEncoder
from lmk_core.encoders.packed.attention import has_flash_kernel
from lmk_core.layouts import Layouts
from lmk_core.layouts.batch import pack_layouts, pad_layouts

# Measured: on a CPU small batches stay in its caches; a GPU wants to be filled.
_CPU_TOKENS = 2_048
_GPU_TOKENS = 32_768


@dataclass(frozen=True)
class BatchOptions:
    """How batches are run. Nothing here but ``dim`` and ``bf16`` changes the vectors."""

    batch_tokens: int | None = None
    """Tokens in a batch at most (padding included, where there is any); None takes what suits the device."""
    dim: int | None = None
    """Matryoshka: only the first so many of each vector, of length 1 again."""
    bf16: bool = False
    """Compute in bfloat16 (the pooling and the vectors stay float32)."""
    landmarks: bool = False
    """Give the hidden states at the pooled positions, instead of one vector a text."""

    def __post_init__(self) -> None:
        for name in ("batch_tokens", "dim"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}: {value} is not an integer of at least 1")


@contextmanager
def evaluating(module: nn.Module) -> Generator[None]:
    """Evaluation mode inside; each submodule's own mode afterwards."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


class BatchRunner:
    """Runs layouts through a model on one device. Wants `evaluating` around it.

    Texts are packed, without padding, where the model and the device allow it. When memory runs out, the budget of
    tokens is halved, and the batch is done again.
    """

    def __init__(self, module: PooledEncoder, device: torch.device, pad_id: int, options: BatchOptions) -> None:
        self.module = module
        self.device = device
        self.pad_id = pad_id
        self.options = options
        on_cpu = device.type == "cpu"
        self.batch_tokens = options.batch_tokens or (_CPU_TOKENS if on_cpu else _GPU_TOKENS)
        half = options.bf16 or next(module.parameters()).dtype != torch.float32
        # Without the flash kernel a GPU does better with one padded rectangle than with many small ones.
        self.packs = module.can_pack and (on_cpu or (half and has_flash_kernel(device)))

    def batches(self, lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Indices in batches, longest first, within the budget as it is by then."""
        order = np.argsort(-lengths, kind="stable")
        start = 0
        while start < len(order):
            stop = start + self._count(lengths[order[start:]])
            yield order[start:stop]
            start = stop

    def run(self, layouts: Layouts) -> NDArray[np.float32]:
        """Vectors [texts, dim] of the layouts as one batch, or [pooled, dim] of all their pooled positions.

        A batch that was planned before the budget was halved is cut down to it.

        Raises:
            torch.OutOfMemoryError: if the memory does not hold one text alone.
        """
        cost = int(layouts.lengths.sum()) if self.packs else len(layouts) * int(layouts.lengths.max())
        if len(layouts) > 1 and cost > self.batch_tokens:
            return self._run_halves(layouts)
        try:
            # Here, not around the whole encoding: whoever makes the texts meanwhile may want gradients.
            with torch.inference_mode():
                return self._forward(layouts).cpu().numpy()
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error) or len(layouts) == 1:
                raise
        # Outside of the except clause, which would hold the failed batch's tensors.
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.batch_tokens = max(min(self.batch_tokens, cost) // 2, 1)
        warnings.warn(f"out of memory: batches of {self.batch_tokens} tokens from now on", stacklevel=2)
        return self._run_halves(layouts)

    def _run_halves(self, layouts: Layouts) -> NDArray[np.float32]:
        half = len(layouts) // 2
        return np.concatenate([self.run(layouts[:half]), self.run(layouts[half:])])

    def _count(self, lengths: NDArray[np.int64]) -> int:
        """How many of the texts that come next, longest first, make a batch."""
        if self.packs:
            return max(int(np.searchsorted(np.cumsum(lengths), self.batch_tokens, side="right")), 1)
        return max(self.batch_tokens // int(lengths[0]), 1)

    def _forward(self, layouts: Layouts) -> Tensor:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.options.bf16):
            vectors = self._landmarks(layouts) if self.options.landmarks else self._vectors(layouts)
        dim = self.options.dim
        if dim is not None and dim < vectors.shape[1]:
            vectors = vectors[:, :dim]
            vectors = vectors if self.options.landmarks else functional.normalize(vectors, dim=-1)
        return vectors

    def _vectors(self, layouts: Layouts) -> Tensor:
        if self.packs:
            return self.module.forward_packed(**self._moved(pack_layouts(layouts)))
        return self.module(**self._moved(pad_layouts(layouts, self.pad_id)))

    def _landmarks(self, layouts: Layouts) -> Tensor:
        if self.packs:
            batch = self._moved(pack_layouts(layouts))
            pooled = batch.pop("pooled")
            del batch["pooled_texts"]
            return self.module.hidden_states_packed(**batch).index_select(0, pooled).float()
        batch = self._moved(pad_layouts(layouts, self.pad_id))
        mask = batch.pop("pooling_mask")
        return self.module.hidden_states(**batch)[mask].float()

    def _moved(self, batch: Any) -> dict[str, Any]:
        return {
            name: value.to(self.device, non_blocking=True) if isinstance(value, Tensor) else value
            for name, value in batch.items()
        }


def ordered_by_length(texts: Sequence[Any]) -> NDArray[np.int64]:
    """Indices of texts (or pairs of texts), longest first, as far as characters tell."""
    lengths = [len(text) if isinstance(text, str) else sum(map(len, text)) for text in texts]
    return np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")


def _is_out_of_memory(error: BaseException) -> bool:
    # On a CPU the allocator's complaint is a plain RuntimeError.
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)

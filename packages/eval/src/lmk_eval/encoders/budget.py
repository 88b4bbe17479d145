"""Batches of a number of tokens that shrinks when memory runs out: the batch is repeated, nothing is lost."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from lmk_core.recording import Recorder

LEAST = 64
"""A budget is not halved below this: then it is not the batch that is too large."""


class Budget:
    """Tokens in a batch, halved whenever a batch does not fit. It stays halved: what follows is as long or shorter.

    Args:
        tokens: in a batch at most, to begin with.
        recorder: gets a ``smaller_batches`` event for each halving.
    """

    def __init__(self, tokens: int, recorder: Recorder) -> None:
        self.tokens = tokens
        self.recorder = recorder

    def run(self, indices: Sequence[int], work: Callable[[Sequence[int], int], Any]) -> None:
        """Let ``work`` do the indices in batches of this many tokens, again with less when memory runs out.

        Args:
            indices: what is to be done, in order.
            work: does some of them; yields the indices of every batch that is done.

        Raises:
            MemoryError: as raised by ``work``, when not even the smallest batches fit.
        """
        left = list(indices)
        while left:
            done: set[int] = set()
            try:
                for finished in work(left, self.tokens):
                    done.update(finished)
                return
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error) or self.tokens // 2 < LEAST:
                    raise
                self.tokens //= 2
                reason = f"{type(error).__name__}: {error}".split("\n")[0]
            # Outside the handler, whose traceback holds the batch's tensors.
            left = [index for index in left if index not in done]
            self.recorder.event("smaller_batches", tokens=self.tokens, reason=reason)
            _free()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on a GPU or on the host."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)


def _free() -> None:
    if torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()


def longest_first(lengths: Sequence[int] | np.ndarray) -> list[int]:
    """Indices by length, longest first: what doesn't fit fails at once, and the guess of the time left errs high."""
    return np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable").tolist()

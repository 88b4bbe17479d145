"""From texts to vectors: tokenized once, sorted by length, in batches of a number of tokens that fits the memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from lmk_core import Embedder
from lmk_core.embedder.batches import BatchOptions, BatchRunner, evaluating
from lmk_core.recording import Recorder
from lmk_eval.corpus.tokens import TokenCache
from lmk_eval.encoders.budget import Budget, longest_first

# One call of an encoder that isn't ours gets about this many batches, so that progress is told every few batches while
# the texts of most batches are of nearly equal length.
_BATCHES_A_CALL = 8
_BATCH_TOKENS = 16_384
_CHARACTERS_A_TOKEN = 4  # a rough guess, only used to size the calls and to tell the progress


@runtime_checkable
class TextEncoder(Protocol):
    """What is needed of a model: `lmk_core.Embedder` has it."""

    def encode(self, texts: Sequence[str], *, max_length: int | None = None, batch_tokens: int = 16384) -> Any:
        """Vectors of the texts, in their order: float32 array [texts, dim], unit length."""
        ...


class Encoding:
    """Encodes texts with one model read in one way.

    Args:
        model: An `Embedder`, whose texts' tokens are kept and found again, or any other `TextEncoder`.
        max_length: Texts are cut to this many tokens.
        batch_tokens: Tokens in one batch; what suits the device unless said. Halved when memory runs out.
        tokens: Where tokens are kept.
        recorder: Is told when batches become smaller.
    """

    def __init__(
        self, model: TextEncoder, *, max_length: int, batch_tokens: int | None, tokens: TokenCache, recorder: Recorder
    ) -> None:
        self.model = model
        self.max_length = max_length
        self.tokens = tokens
        self.recorder = recorder
        self.budget = Budget(batch_tokens or _BATCH_TOKENS, recorder)
        self._runner = _runner(model, batch_tokens) if isinstance(model, Embedder) else None

    def __call__(self, texts: Sequence[str], on_done: Callable[[int], None]) -> np.ndarray:
        """Vectors of the texts: float32 [texts, dim]; all of them are sorted together.

        Args:
            texts: at least one.
            on_done: is told how many more texts are done, batch by batch. Long texts come first and count for more, by
                their characters, so that the time left can be told from the beginning; all calls add up to the texts.

        Raises:
            ValueError: if a vector holds NaN or infinity; names the text.
        """
        out: list[np.ndarray] = []
        sizes = np.minimum([len(text) for text in texts], _CHARACTERS_A_TOKEN * self.max_length) + 1
        size, told = 0, 0

        def keep(indices: Sequence[int], vectors: np.ndarray) -> None:
            nonlocal size, told
            _check_finite(vectors, indices, texts)
            if not out:
                out.append(np.empty((len(texts), vectors.shape[1]), dtype=np.float32))
            out[0][indices] = vectors
            size += int(sizes[np.asarray(indices)].sum())
            done = len(texts) * size // int(sizes.sum())
            on_done(done - told)
            told = done

        def work(indices: Sequence[int], budget: int) -> Iterator[Sequence[int]]:
            for done, vectors in self._calls(texts, indices, budget):
                keep(done, vectors)
                yield done

        if self._runner is None:
            self.budget.run(longest_first([len(text) for text in texts]), work)
        else:
            self._embed(texts, self._runner, keep)
        return out[0]

    def _embed(
        self, texts: Sequence[str], runner: BatchRunner, keep: Callable[[Sequence[int], np.ndarray], None]
    ) -> None:
        """The way of an `Embedder`: the tokens of all texts, laid out for its reading."""
        model: Any = self.model
        tokenized = self.tokens.tokens(model.tokenizer, texts, self.max_length)
        layouts = model.tokenizer.lay_out(tokenized, max_length=self.max_length)
        with evaluating(model.module):
            for indices in runner.batches(layouts.lengths):
                before = runner.batch_tokens
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", message="out of memory")  # the recorder is told instead
                    vectors = runner.run(layouts.select(indices))
                if runner.batch_tokens < before:
                    self.recorder.event("smaller_batches", tokens=runner.batch_tokens, reason="out of memory")
                keep(indices.tolist(), vectors)

    def _calls(
        self, texts: Sequence[str], indices: Sequence[int], budget: int
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        """The way of any other encoder: some batches' texts a call."""
        for call in self._cut(texts, indices, budget):
            given = [texts[index] for index in call]
            found = self.model.encode(given, max_length=self.max_length, batch_tokens=budget)
            yield call, np.asarray(found, dtype=np.float32)

    def _cut(self, texts: Sequence[str], indices: Sequence[int], budget: int) -> Iterator[list[int]]:
        most = _BATCHES_A_CALL * _CHARACTERS_A_TOKEN * budget
        call: list[int] = []
        cost = 0
        for index in indices:
            size = min(len(texts[index]), _CHARACTERS_A_TOKEN * self.max_length) + 1
            if call and cost + size > most:
                yield call
                call, cost = [], 0
            call.append(index)
            cost += size
        if call:
            yield call


def _runner(model: Embedder, batch_tokens: int | None) -> BatchRunner:
    return BatchRunner(model.module, model.device, model.tokenizer.tokens.pad, BatchOptions(batch_tokens))


def _check_finite(vectors: np.ndarray, indices: Sequence[int], texts: Sequence[str]) -> None:
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if bad.size:
        text = texts[indices[int(bad[0])]]
        raise ValueError(
            f"{bad.size} of {len(indices)} vectors hold NaN or infinity; the first is that of the text {text[:60]!r}"
        )

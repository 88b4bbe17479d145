"""From texts to vectors: tokenized once, sorted by length, in batches of a number of tokens that fits the memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from lmk_core import Embedder
from lmk_core.embedder.encoding import embed_layouts, evaluating
from lmk_core.recording import Recorder
from lmk_eval.corpus.tokens import TokenCache
from lmk_eval.encoders.budget import Budget, longest_first

# One call of an encoder that isn't ours gets about this many batches, so that progress is told every few batches while
# the texts of most batches are of nearly equal length.
_BATCHES_A_CALL = 8
_CHARACTERS_A_TOKEN = 4  # a rough guess, only used to size the calls


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
        batch_tokens: Tokens in one batch, padding included; halved when memory runs out.
        tokens: Where tokens are kept.
        recorder: Is told when batches become smaller.
    """

    def __init__(
        self, model: TextEncoder, *, max_length: int, batch_tokens: int, tokens: TokenCache, recorder: Recorder
    ) -> None:
        self.model = model
        self.max_length = max_length
        self.tokens = tokens
        self.budget = Budget(batch_tokens, recorder)

    def __call__(self, texts: Sequence[str], on_done: Callable[[int], None]) -> np.ndarray:
        """Vectors of the texts: float32 [texts, dim]; all of them are sorted together.

        Args:
            texts: at least one.
            on_done: is told how many more texts are done, batch by batch.

        Raises:
            ValueError: if a vector holds NaN or infinity; names the text.
        """
        out: list[np.ndarray] = []
        steps = self._layouts(texts) if isinstance(self.model, Embedder) else self._calls(texts)

        def work(indices: Sequence[int], budget: int) -> Iterator[Sequence[int]]:
            for done, vectors in steps(indices, budget):
                _check_finite(vectors, done, texts)
                if not out:
                    out.append(np.empty((len(texts), vectors.shape[1]), dtype=np.float32))
                out[0][done] = vectors
                on_done(len(done))
                yield done

        self.budget.run(longest_first([len(text) for text in texts]), work)
        return out[0]

    def _layouts(self, texts: Sequence[str]) -> Callable[[Sequence[int], int], Iterator[tuple[list[int], np.ndarray]]]:
        """The way of an `Embedder`: the tokens of all texts, laid out for its reading."""
        model: Any = self.model
        tokenized = self.tokens.tokens(model.tokenizer, texts, self.max_length)
        layouts = model.tokenizer.lay_out(tokenized, max_length=self.max_length)

        def steps(indices: Sequence[int], budget: int) -> Iterator[tuple[list[int], np.ndarray]]:
            left = np.asarray(indices)
            with evaluating(model.module):
                some = layouts.select(left)
                for places, vectors in embed_layouts(model.module, model.tokenizer, some, budget, model.device):
                    yield left[np.asarray(places)].tolist(), vectors

        return steps

    def _calls(self, texts: Sequence[str]) -> Callable[[Sequence[int], int], Iterator[tuple[list[int], np.ndarray]]]:
        """The way of any other encoder: some batches' texts a call."""

        def steps(indices: Sequence[int], budget: int) -> Iterator[tuple[list[int], np.ndarray]]:
            for call in self._cut(texts, indices, budget):
                given = [texts[index] for index in call]
                found = self.model.encode(given, max_length=self.max_length, batch_tokens=budget)
                yield call, np.asarray(found, dtype=np.float32)

        return steps

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


def _check_finite(vectors: np.ndarray, indices: Sequence[int], texts: Sequence[str]) -> None:
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if bad.size:
        text = texts[indices[int(bad[0])]]
        raise ValueError(
            f"{bad.size} of {len(indices)} vectors hold NaN or infinity; the first is that of the text {text[:60]!r}"
        )

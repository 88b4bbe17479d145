"""Forward and backward of one step in chunks, with the memory that there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from lmk_train.gradcache.chunks import Chunks, Indices, plan_chunks
from lmk_train.gradcache.processes import sum_gradients
from lmk_train.gradcache.randomness import RandomState
from lmk_train.loss.agreement import OutOfMemoryTogether, largest, together, world

WHOLE_BATCH_CHUNK = 16_384
"""Tokens of a chunk where all graphs are kept: sorted chunks pad less than one batch, and large ones waste no time."""


@runtime_checkable
class Texts(Protocol):
    """What is encoded: `lmk_core.layouts.Layouts`."""

    @property
    def lengths(self) -> NDArray[Any]: ...
    def select(self, indices: Any) -> Any: ...


@dataclass(frozen=True)
class Pass:
    """What a step computed: its gradients are in the parameters, summed over processes."""

    loss: Float[Tensor, ""]
    """This process' part; the sum over processes is the step's loss."""
    vectors: Float[Tensor, "texts dim"]
    chunks: Chunks
    finite: bool
    """Of several processes: whether this one's gradient was made of finite numbers before it met the others'."""


class ChunkedEngine:
    """Does a step chunk by chunk. Where a GPU's memory does not suffice, all processes halve the chunk and do the step
    again from the random state at which it began. The new size is kept.

    Args:
        parameters: Those whose gradients are computed.
        chunk_tokens: The largest chunk, in tokens with their padding; ``None`` is what the engine can do at most.
        packed: Whether texts are encoded without padding: chunks are then counted in the texts' own tokens.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], chunk_tokens: int | None, *, packed: bool = False) -> None:
        self.parameters = list(parameters)
        self.chunk_tokens, self.packed = chunk_tokens, packed

    def plan(self, texts: Texts, chunk_tokens: int | None) -> Chunks:
        """The chunks of a batch; ``None`` are those of a batch whose graphs are all held."""
        return plan_chunks(np.asarray(texts.lengths, np.int64), chunk_tokens or WHOLE_BATCH_CHUNK, packed=self.packed)

    def attempt(
        self, texts: Texts, work: Callable[[Chunks, torch.device], Pass], halved: Callable[[int, str], None]
    ) -> Pass:
        """Does ``work``, with smaller chunks where the memory asks for them; gradients are none before it."""
        device = self.parameters[0].device
        began = RandomState.now(device)
        while True:
            for parameter in self.parameters:
                parameter.grad = None
            chunks = self.plan(texts, self.chunk_tokens)
            try:
                return work(chunks, device)
            except OutOfMemoryTogether as error:
                reason = str(error)
            if device.type == "cuda":
                torch.cuda.empty_cache()
            halved(self._halve(chunks, reason, device), reason)
            began.restore()

    def _halve(self, chunks: Chunks, reason: str, device: torch.device) -> int:
        """The next size, the same in all processes."""
        used = self.chunk_tokens or largest(chunks.padded, device=device)
        used = min(used, largest(chunks.padded, device=device))
        floor = largest(chunks.longest, device=device)
        if self.chunk_tokens is not None and used <= floor:
            raise torch.OutOfMemoryError(
                f"the memory does not suffice for one text of {floor} tokens, with its gradient, at a time: shorten "
                f"data.passage_max_length, or use a larger device. {reason}"
            )
        self.chunk_tokens = max(used // 2, floor)
        return self.chunk_tokens


class GradientEngine(ChunkedEngine):
    """Computes the gradient of a loss over all of a step's vectors, chunk by chunk.

    With ``chunk_tokens`` one chunk's graph is held at a time, and all but one chunk are encoded twice: memory is that
    of a chunk, whatever the batch. Without it all graphs are held, still in chunks sorted by length, so that memory
    goes with the tokens and not with rows times the longest. Both give the same gradient; with dropout the second
    encoding drops what the first one did, bit for bit.

    Args:
        embed: From some texts to their vectors: the one place where a chunk becomes tensors.
        parameters: Those whose gradients are computed.
        chunk_tokens: The largest chunk, in tokens with their padding; ``None`` holds the whole batch.
        packed: Whether ``embed`` has no padding: chunks are then counted in the texts' own tokens.
    """

    def __init__(
        self,
        embed: Callable[[Any], Float[Tensor, "texts dim"]],
        parameters: Sequence[nn.Parameter],
        chunk_tokens: int | None,
        *,
        packed: bool = False,
    ) -> None:
        super().__init__(parameters, chunk_tokens, packed=packed)
        self.embed = embed

    def run(
        self,
        texts: Texts,
        loss: Callable[[Float[Tensor, "texts dim"]], Float[Tensor, ""]],
        halved: Callable[[int, str], None] = lambda _chunk, _reason: None,
    ) -> Pass:
        """Leaves in each parameter the gradient of the sum over processes of ``loss``.

        Args:
            texts: This process' texts.
            loss: From their vectors to this process' part of the loss. It may talk to the other processes.
            halved: Hears of the new size when the chunk was halved.

        Raises:
            torch.OutOfMemoryError: The memory does not even suffice for the longest text alone.
            PeerFailedError: Another process failed.
        """
        return self.attempt(texts, lambda chunks, device: self._attempt(texts, loss, chunks, device), halved)

    def vectors(self, texts: Texts) -> Float[Tensor, "texts dim"]:
        """The vectors of all texts with the graph of all, drawn from the generators as `run` without chunks does."""
        chunks = self.plan(texts, None)
        joined = torch.cat([self.embed(texts.select(indices)) for indices in chunks.indices])
        return joined[_on(np.argsort(np.concatenate(chunks.indices)), joined.device)]

    def _attempt(self, texts: Texts, loss: Callable[[Tensor], Tensor], chunks: Chunks, device: torch.device) -> Pass:
        keep = 1 if self.chunk_tokens else len(chunks.indices)
        forward = together(lambda: _Forward(self.embed, texts, chunks, keep, device), device)
        value = together(lambda: loss(forward.vectors), device)
        together(lambda: _backward(value), device)
        together(forward.backward, device)
        finite = _all_finite(self.parameters)
        sum_gradients(self.parameters)
        return Pass(value.detach(), forward.vectors.detach(), chunks, finite)


class _Forward:
    """All vectors of a step, the last ``keep`` chunks with their graphs, the others with their random state."""

    def __init__(
        self,
        embed: Callable[[Any], Tensor],
        texts: Texts,
        chunks: Chunks,
        keep: int,
        device: torch.device,
    ) -> None:
        self.embed, self.texts, self.device = embed, texts, device
        self.kept: list[tuple[Indices, Tensor]] = []
        self.replayed: list[tuple[Indices, RandomState]] = []
        first_kept = len(chunks.indices) - keep
        parts = []
        for number, indices in enumerate(chunks.indices):
            if number < first_kept:
                self.replayed.append((indices, RandomState.now(device)))
                with torch.no_grad():
                    parts.append(embed(texts.select(indices)))
                continue
            if number == first_kept:
                # Autocast remembers a weight's cast. One that was made without a graph would cut off the gradient.
                torch.clear_autocast_cache()
            vectors = embed(texts.select(indices))
            self.kept.append((indices, vectors))
            parts.append(vectors.detach())
        self.after = RandomState.now(device)
        order = torch.from_numpy(np.concatenate(chunks.indices)).to(device)
        joined = torch.cat(parts)
        self.vectors = torch.empty_like(joined).index_copy_(0, order, joined).requires_grad_()

    def backward(self) -> None:
        """Carries the vectors' gradients into the weights."""
        gradients = self.vectors.grad
        assert gradients is not None
        while self.kept:
            indices, vectors = self.kept.pop()
            _backward(vectors, gradients[_on(indices, self.device)])
            del vectors
        for indices, state in self.replayed:
            state.restore()
            _backward(self.embed(self.texts.select(indices)), gradients[_on(indices, self.device)])
        self.after.restore()


def _backward(output: Tensor, gradient: Tensor | None = None) -> None:
    """Outside of autocast, as torch advises: each operation goes back in the precision that it came in."""
    with torch.autocast(output.device.type, enabled=False):
        output.backward(gradient)


def _on(indices: Indices, device: torch.device) -> Tensor:
    return torch.from_numpy(indices).to(device)


def _all_finite(parameters: Sequence[nn.Parameter]) -> bool:
    if world()[1] == 1:
        return True  # there is no other process to tell this one's gradient from
    norms = torch._foreach_norm([p.grad for p in parameters if p.grad is not None])
    return bool(torch.isfinite(torch.stack([norm.float() for norm in norms])).all())

"""The step of a pre-training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from lmk_core.layouts import Layouts
from lmk_train.config import PretrainConfig
from lmk_train.gradcache import Pass
from lmk_train.gradcache.chunks import Chunks
from lmk_train.gradcache.engine import ChunkedEngine
from lmk_train.gradcache.processes import sum_gradients, sums
from lmk_train.loss.agreement import together, world
from lmk_train.modules.stepping import SteppedModule, StepReport
from lmk_train.pretraining.data import TextBatch
from lmk_train.retromae import RetroMae, pack_masked
from lmk_train.throughput import ModelFlops

PartsOf = Callable[[TextBatch], Float[Tensor, " losses"]]
"""From some texts to their parts of the losses."""


@dataclass(frozen=True)
class PretrainingReport(StepReport):
    """Its ``loss`` is the sum of both losses, each the mean of its tokens over all processes."""

    encoder_loss: float = 0.0
    decoder_loss: float = 0.0


class SummingEngine(ChunkedEngine):
    """The gradient of a loss that is a sum over texts: each chunk goes there and back on its own.

    Memory is that of a chunk, and nothing is computed twice. ``chunk_tokens`` of ``None`` are 16,384.
    """

    def run(
        self,
        batch: TextBatch,
        loss: PartsOf,
        halved: Callable[[int, str], None] = lambda _chunk, _reason: None,
    ) -> Pass:
        """Leaves in each parameter the gradient of the sum of ``loss`` over chunks and processes.

        Args:
            batch: This process' texts.
            loss: From a chunk's texts to its parts of the losses.
            halved: Hears of the new size when the chunk was halved.

        Returns:
            As its ``vectors``, for each text the losses of its chunk: a step that fails can name that chunk's texts.

        Raises:
            torch.OutOfMemoryError: The memory does not even suffice for the longest text alone.
            PeerFailedError: Another process failed.
        """
        return self.attempt(batch, lambda chunks, device: self._sum(batch, loss, chunks, device), halved)

    def _sum(
        self,
        batch: TextBatch,
        loss: PartsOf,
        chunks: Chunks,
        device: torch.device,
    ) -> Pass:
        values = together(lambda: [self._there_and_back(batch.select(own), loss) for own in chunks.indices], device)
        finite = all(bool(torch.isfinite(p.grad).all()) for p in self.parameters if p.grad is not None)
        sum_gradients(self.parameters)
        of_chunks = torch.stack(values)
        owners = np.empty(len(batch.texts), dtype=np.int64)
        for number, own in enumerate(chunks.indices):
            owners[own] = number
        return Pass(of_chunks.sum(), of_chunks[torch.from_numpy(owners).to(device)], chunks, finite or world()[1] == 1)

    def _there_and_back(self, texts: TextBatch, loss: PartsOf) -> Float[Tensor, " losses"]:
        parts = loss(texts)
        with torch.autocast(parts.device.type, enabled=False):
            parts.sum().backward()
        return parts.detach()


class PretrainingModule(SteppedModule):
    """RetroMAE pre-training of a pooled encoder, on one process or on many.

    Args:
        model: The encoder with what is there while it trains.
        config: The pre-training.

    Raises:
        NonFiniteError: In a step whose loss or gradient is not finite, before any weight is changed.
        DivergenceError: In a step after which the loss has risen as ``config.runtime.divergence`` says.
    """

    engine: SummingEngine

    def __init__(self, model: RetroMae, config: PretrainConfig) -> None:
        super().__init__(model.encoder, config)
        self.model, self.config = model, config
        model.packed = self.packing.used
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.engine = SummingEngine(trained, config.runtime.chunk_tokens, packed=self.packing.used)
        self.flops = ModelFlops(model.encoder)
        linear = sum(layer.weight.numel() for layer in model.decoder.modules() if isinstance(layer, nn.Linear))
        self._decoder_weights, self._head_weights = linear, model.vocabulary * model.encoder.dim

    @property
    def trained(self) -> nn.Module:
        return self.model

    def training_step(self, batch: TextBatch, batch_idx: int) -> Float[Tensor, ""]:  # noqa: ARG002
        step = self.trainer.global_step + 1
        self.model.packed = self.packing.used
        guessed = [
            sum(int(text.masked.sum()) for text in batch.texts),
            sum(int(text.is_text.sum()) for text in batch.texts),
        ]
        counts = sums(torch.tensor(guessed, device=self.device)).clamp(min=1).tolist()

        def loss(texts: TextBatch) -> Tensor:
            losses = self.model(pack_masked(texts.texts).to(self.device))
            return torch.stack([losses.encoder / counts[0], losses.decoder / counts[1]])

        passed = self.engine.run(batch, loss, halved=lambda chunk, reason: self.halved(step, chunk, reason))
        return self.take(batch, passed, self._report(batch, passed, guessed, self.clip()), step)

    def own_metrics(self, reports: Sequence[StepReport]) -> dict[str, float]:
        last = reports[-1]
        assert isinstance(last, PretrainingReport)
        return {"train/encoder_loss": last.encoder_loss, "train/decoder_loss": last.decoder_loss}

    def _report(self, batch: TextBatch, passed: Pass, guessed: list[int], norm: Tensor) -> PretrainingReport:
        chunks, wide = passed.chunks, torch.float32 if self.device.type == "mps" else torch.float64
        parts = passed.vectors[[int(own[0]) for own in chunks.indices]].to(wide).sum(0)
        numbers = [chunks.tokens, chunks.padded, self._flops(batch, guessed), *self.signals()]
        counts = torch.tensor(numbers, dtype=wide, device=parts.device)
        values = torch.cat([sums(torch.cat([parts, counts])), norm.to(wide)[None]]).tolist()
        encoder, decoder, tokens, padded, flops, *signals, length = values
        return PretrainingReport(
            loss=encoder + decoder,
            gradient_norm=length,
            tokens=int(tokens),
            padded=int(padded),
            attention_padding=0.0,
            flops=flops,
            signals=tuple(map(int, signals)),
            encoder_loss=encoder,
            decoder_loss=decoder,
        )

    def _flops(self, batch: TextBatch, guessed: list[int]) -> int:
        """The encoder's, the decoder's of all pairs of a text, and the head's of the guessed tokens."""
        lengths = batch.lengths
        decoder = 2 * self._decoder_weights * int(lengths.sum())
        decoder += 4 * self.model.encoder.dim * int((lengths * lengths).sum())
        head = 2 * self._head_weights * sum(guessed)
        return self.flops.training(Layouts.from_list([text.layout for text in batch.texts])) + 3 * (decoder + head)

"""The step of a contrastive fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lmk_core.encoders import PooledEncoder
from lmk_core.layouts import Layouts, PoolingTokenizer
from lmk_train.config import TrainConfig
from lmk_train.data.collate import Batch
from lmk_train.gradcache import GradientEngine, Pass
from lmk_train.gradcache.processes import sums
from lmk_train.loss import ContrastiveObjective, Targets
from lmk_train.modules.stepping import SteppedModule, StepReport
from lmk_train.throughput import ModelFlops
from lmk_train.throughput.padding import attention_padding, makes_rectangles


class ContrastiveModule(SteppedModule):
    """Contrastive fine-tuning of a pooled encoder, on one process or on many.

    Args:
        encoder: Text tensors to unit vectors.
        tokenizer: Makes tensors of layouts.
        config: The training.

    Raises:
        ValueError: ``config.runtime`` asks for activation checkpointing that the encoder does not have.
        NonFiniteError: In a step whose loss or gradient is not finite, before any weight is changed.
        DivergenceError: In a step after which the loss has risen as ``config.runtime.divergence`` says.
    """

    config: TrainConfig
    engine: GradientEngine

    def __init__(self, encoder: PooledEncoder, tokenizer: PoolingTokenizer, config: TrainConfig) -> None:
        super().__init__(encoder, config)
        self.encoder, self.tokenizer, self.config = encoder, tokenizer, config
        runtime = config.runtime
        self.objective = ContrastiveObjective(config.loss, logits_at_once=runtime.logits_at_once)
        trained = [parameter for parameter in encoder.parameters() if parameter.requires_grad]
        self.engine = GradientEngine(self.embed, trained, runtime.chunk_tokens, packed=self.packing.used)
        self.flops = ModelFlops(encoder)

    @property
    def trained(self) -> nn.Module:
        return self.encoder

    def embed(self, texts: Layouts) -> Float[Tensor, "texts dim"]:
        """Texts to vectors, on the device: packed, or padded, which is the reference."""
        if self.packing.used:
            return self.encoder.forward_packed(**self._here(self.tokenizer.pack(texts)))
        return self.encoder(**self._here(self.tokenizer.pad(texts)))

    def _here(self, batch: Any) -> dict[str, Any]:
        """A packed or padded batch with its tensors on the device."""
        return {
            name: value.to(self.device, non_blocking=True) if isinstance(value, Tensor) else value
            for name, value in batch.items()
        }

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        """This process' part of a step's loss, in float32, with the graph of the whole batch."""
        return self._loss(batch, self.engine.vectors(_texts(batch)))[0]

    def training_step(self, batch: Batch, batch_idx: int) -> Float[Tensor, ""]:  # noqa: ARG002
        step, texts = self.trainer.global_step + 1, _texts(batch)
        masked = torch.zeros((), device=self.device)

        def loss(vectors: Tensor) -> Tensor:
            value, count = self._loss(batch, vectors)
            masked.copy_(count)
            return value

        passed = self.engine.run(texts, loss, halved=lambda chunk, reason: self.halved(step, chunk, reason))
        report = self._report(texts, passed, masked, self.clip())
        return self.take(batch, passed, report, step)

    def own_metrics(self, reports: Sequence[StepReport]) -> dict[str, float]:
        if not self.config.loss.mask_duplicates:
            return {}
        return {"train/masked_duplicates": sum(report.masked for report in reports) / len(reports)}

    def _loss(self, batch: Batch, vectors: Tensor) -> tuple[Tensor, Tensor]:
        here, rows = batch.to(vectors.device), len(batch.sizes)
        targets = Targets(here.sizes, here.teacher, here.scored, here.query_keys, here.passage_keys)
        return self.objective(vectors[:rows], vectors[rows:], targets)

    def _report(self, texts: Layouts, passed: Pass, masked: Tensor, norm: Tensor) -> StepReport:
        chunks, wide = passed.chunks, torch.float32 if self.device.type == "mps" else torch.float64
        own = torch.stack([passed.loss.to(wide), masked.to(wide)])
        rectangles = self.packing.used and makes_rectangles(self.encoder, self.device, self.config.precision)
        rows = attention_padding(self.encoder, texts, chunks) if rectangles else (0, 0)
        numbers = [chunks.tokens, chunks.padded, *rows, self.flops.training(texts), *self.signals()]
        counts = torch.tensor(numbers, dtype=wide, device=own.device)
        values = torch.cat([sums(torch.cat([own, counts])), norm.to(wide)[None]]).tolist()  # one wait for the device
        loss, pairs, tokens, padded, attended, computed, flops, *signals, length = values
        padding = 1 - attended / computed if computed else 0.0
        return StepReport(loss, length, int(tokens), int(padded), padding, flops, int(pairs), tuple(map(int, signals)))


def _texts(batch: Batch) -> Layouts:
    return Layouts.concatenate([batch.queries, batch.passages])

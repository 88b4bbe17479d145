"""The training step and the optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from lightning.pytorch import LightningModule
from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn

from lmk_core.encoders import PooledEncoder
from lmk_core.layouts import Layouts, PoolingTokenizer
from lmk_train.config import OptimConfig, TrainConfig
from lmk_train.data.collate import Batch
from lmk_train.gradcache import GradientEngine, Pass
from lmk_train.gradcache.processes import same_weights, sums
from lmk_train.loss import ContrastiveObjective, Targets
from lmk_train.modules.divergence import DivergenceCheck, DivergenceError
from lmk_train.modules.faults import described, everywhere, suspects
from lmk_train.modules.finite import NonFiniteError, usual_causes, what_is_not_finite
from lmk_train.modules.packing import Packing, checkpoint_activations
from lmk_train.modules.resuming import count_steps_by_hand
from lmk_train.modules.schedule import warmup_then_decay
from lmk_train.throughput import ModelFlops
from lmk_train.throughput.padding import attention_padding, makes_rectangles

_KEY = "lmk_step"
"""Our own entry of a checkpoint."""


@dataclass(frozen=True)
class StepReport:
    """A step in numbers, of all processes together."""

    loss: float
    gradient_norm: float
    """Before it was clipped."""
    tokens: int
    """Without padding."""
    padded: int
    """With the padding that goes through the encoder; packed there is none."""
    attention_padding: float
    """The share of padding among the tokens that the attention of packed texts computes: 0 but where a CPU makes
    rectangles of them."""
    flops: float
    """What the model asks for: see `lmk_train.throughput.ModelFlops`."""
    masked: int
    """Pairs of equal texts that were left out."""
    signals: tuple[int, ...] = ()
    """Of each of :data:`lmk_train.ranks.signals.SIGNALS`, how many processes have been sent it."""


class ContrastiveModule(LightningModule):
    """Contrastive fine-tuning of a pooled encoder, on one process or on many.

    It optimizes by hand: gradients in chunks, their sum over the processes of the default process group (whether or not
    something wraps the module in DDP, which is left idle), one clip, one check, one step. All processes compute the
    same numbers and stop in the same step.

    Args:
        encoder: Text tensors to unit vectors.
        tokenizer: Makes tensors of layouts.
        config: The training.

    Raises:
        ValueError: ``config.runtime`` asks for activation checkpointing that the encoder does not have.
        NonFiniteError: In a step whose loss or gradient is not finite, before any weight is changed.
        DivergenceError: In a step after which the loss has risen as ``config.runtime.divergence`` says.
    """

    def __init__(self, encoder: PooledEncoder, tokenizer: PoolingTokenizer, config: TrainConfig) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.encoder, self.tokenizer, self.config = encoder, tokenizer, config
        runtime = config.runtime
        self.objective = ContrastiveObjective(config.loss, logits_at_once=runtime.logits_at_once)
        trained = [parameter for parameter in encoder.parameters() if parameter.requires_grad]
        self.packing = Packing(encoder, asked=runtime.packed)
        self.engine = GradientEngine(self.embed, trained, runtime.chunk_tokens, packed=self.packing.used)
        self.flops = ModelFlops(encoder)
        if runtime.activation_checkpointing:
            checkpoint_activations(encoder.encoder)
        self.divergence = DivergenceCheck(runtime.divergence)
        self.report: StepReport | None = None
        """Of the last step."""
        self.events: list[dict[str, Any]] = []
        """What happened since someone looked; each has a ``kind`` and a ``step``."""
        self.signals: Callable[[], tuple[int, ...]] = tuple
        """What this process was told meanwhile, to be added up with the step's other numbers: it costs no exchange."""

    def on_fit_start(self) -> None:
        # Loaded models are in evaluation mode and Lightning keeps what it is given: without this, no dropout.
        self.train()

    def on_train_start(self) -> None:
        same_weights(self.encoder)
        self.events += self.packing.events(self.trainer.global_step)

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
        step = self.trainer.global_step + 1
        masked = torch.zeros((), device=self.device)

        def loss(vectors: Tensor) -> Tensor:
            value, count = self._loss(batch, vectors)
            masked.copy_(count)
            return value

        passed = self.engine.run(_texts(batch), loss, halved=lambda chunk, reason: self._halved(step, chunk, reason))
        optim = self.config.optim
        clip = math.inf if optim.gradient_clip is None else optim.gradient_clip
        norm = nn.utils.clip_grad_norm_(self.engine.parameters, clip)
        self.report = self._report(_texts(batch), passed, masked, norm)
        self._check(batch, passed, self.report, step)
        optimizer, schedule = self.optimizers(), self.lr_schedulers()
        assert isinstance(optimizer, LightningOptimizer)
        assert isinstance(schedule, torch.optim.lr_scheduler.LRScheduler)
        optimizer.step()
        schedule.step()
        return torch.tensor(self.report.loss)

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

    def _check(self, batch: Batch, passed: Pass, report: StepReport, step: int) -> None:
        """Every process has the same report and so takes the same way through here."""
        fault, optim = what_is_not_finite(report.loss, report.gradient_norm), self.config.optim
        if fault is None and not self.divergence.diverges(report.loss):
            return
        where = suspects(batch, passed) if fault else everywhere(batch)
        if fault:
            error = NonFiniteError(
                f"{fault} at step {step} of {optim.steps}, with {described(where)}; this step changed no weight. "
                f"{usual_causes(optim)}"
            )
        else:
            error = DivergenceError(
                f"the loss diverges at step {step} of {optim.steps}: its mean over the last steps is "
                f"{self.divergence.mean:.4g}, after {self.divergence.lowest:.4g} at its lowest and "
                f"{self.divergence.initial:.4g} at first. This step had {described(where)}. {usual_causes(optim)}. "
                "To go on all the same, set runtime.divergence to null"
            )
        error.step, error.where = step, where
        raise error

    def _halved(self, step: int, chunk: int, reason: str) -> None:
        self.events.append({"kind": "chunk_halved", "step": step, "chunk_tokens": chunk, "reason": reason[:500]})

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        chunks = {"asked": self.config.runtime.chunk_tokens, "used": self.engine.chunk_tokens}
        state = {"chunk_tokens": chunks, "packing": self.packing.state(), "divergence": self.divergence.state()}
        checkpoint[_KEY] = state

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        count_steps_by_hand(checkpoint)
        state = checkpoint.get(_KEY)
        self.packing.restore(None if state is None else state.get("packing"))
        self.engine.packed = self.packing.used
        if state is None:
            return
        self.divergence.restore(state["divergence"])
        # A size that was halved goes on, so that dropout does too; a size that the user has changed since is taken.
        if state["chunk_tokens"]["asked"] == self.config.runtime.chunk_tokens:
            self.engine.chunk_tokens = state["chunk_tokens"]["used"]

    def configure_optimizers(self) -> OptimizerLRScheduler:
        optim = self.config.optim
        optimizer = make_optimizer(self.encoder, optim, fused=self.device.type == "cuda")
        factor = warmup_then_decay(optim.warmup_steps, optim.steps, optim.warmup)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def _texts(batch: Batch) -> Layouts:
    return Layouts.concatenate([batch.queries, batch.passages])


def make_optimizer(module: nn.Module, optim: OptimConfig, *, fused: bool = False) -> torch.optim.AdamW:
    """AdamW over all trainable parameters; weight decay on those with two dimensions or more."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": optim.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=optim.learning_rate,
        betas=optim.betas,
        eps=optim.eps,
        fused=fused or None,
    )

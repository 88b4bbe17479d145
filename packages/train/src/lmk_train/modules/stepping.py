"""What every training does with a step's gradient, and what its callbacks may rely on."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from lightning.pytorch import LightningModule
from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn

from lmk_core.encoders import PooledEncoder
from lmk_train.config import AnyConfig, OptimConfig
from lmk_train.gradcache import Pass
from lmk_train.gradcache.processes import same_weights
from lmk_train.modules.divergence import DivergenceCheck, DivergenceError
from lmk_train.modules.faults import RowBatch, described, everywhere, suspects
from lmk_train.modules.finite import NonFiniteError, usual_causes, what_is_not_finite
from lmk_train.modules.packing import Packing, checkpoint_activations
from lmk_train.modules.resuming import count_steps_by_hand
from lmk_train.modules.schedule import warmup_then_decay

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
    masked: int = 0
    """Pairs of equal texts that were left out."""
    signals: tuple[int, ...] = ()
    """Of each of :data:`lmk_train.ranks.signals.SIGNALS`, how many processes have been sent it."""


class SteppedModule(LightningModule, ABC):
    """A training that optimizes by hand.

    Gradients in chunks, their sum over the processes of the default process group (whether or not something wraps the
    module in DDP, which is left idle), one clip, one check, one step. All processes compute the same numbers and stop
    in the same step.

    Args:
        encoder: The pooled encoder that is trained.
        config: The training.
    """

    engine: Any
    """Computes the gradients: a subclass' own :class:`lmk_train.gradcache.engine.ChunkedEngine`."""

    def __init__(self, encoder: PooledEncoder, config: AnyConfig) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.config = config
        runtime = config.runtime
        self.packing = Packing(encoder, asked=runtime.packed)
        if runtime.activation_checkpointing:
            checkpoint_activations(encoder.encoder)
        self.divergence = DivergenceCheck(runtime.divergence)
        self.report: StepReport | None = None
        """Of the last step."""
        self.events: list[dict[str, Any]] = []
        """What happened since someone looked; each has a ``kind`` and a ``step``."""
        self.signals: Callable[[], tuple[int, ...]] = tuple
        """What this process was told meanwhile, to be added up with the step's other numbers: it costs no exchange."""

    @property
    @abstractmethod
    def trained(self) -> nn.Module:
        """Everything that has weights."""

    def own_metrics(self, reports: Sequence[StepReport]) -> dict[str, float]:  # noqa: ARG002
        """What is recorded of some steps beside what every training records."""
        return {}

    def on_fit_start(self) -> None:
        # Loaded models are in evaluation mode and Lightning keeps what it is given: without this, no dropout.
        self.train()

    def on_train_start(self) -> None:
        same_weights(self.trained)
        self.events += self.packing.events(self.trainer.global_step)

    def clip(self) -> Float[Tensor, ""]:
        """Clips the gradient; its norm before that."""
        largest = self.config.optim.gradient_clip
        return nn.utils.clip_grad_norm_(self.engine.parameters, math.inf if largest is None else largest)

    def take(self, batch: RowBatch, passed: Pass, report: StepReport, step: int) -> Float[Tensor, ""]:
        """Changes the weights, if the step is sound; gives its loss."""
        self.report = report
        self._check(batch, passed, report, step)
        optimizer, schedule = self.optimizers(), self.lr_schedulers()
        assert isinstance(optimizer, LightningOptimizer)
        assert isinstance(schedule, torch.optim.lr_scheduler.LRScheduler)
        optimizer.step()
        schedule.step()
        return torch.tensor(report.loss)

    def _check(self, batch: RowBatch, passed: Pass, report: StepReport, step: int) -> None:
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

    def halved(self, step: int, chunk: int, reason: str) -> None:
        """Keeps it for the record."""
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
        # On a CPU too: five times as fast there, with the weights of ModernBERT-base and with few (measured).
        optimizer = make_optimizer(self.trained, optim, fused=self.device.type in {"cuda", "cpu"})
        factor = warmup_then_decay(optim.warmup_steps, optim.steps, optim.warmup)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


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

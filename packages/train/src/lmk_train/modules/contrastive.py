"""The training step and the optimizer."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn

from lmk_core.encoders import PooledEncoder
from lmk_core.layouts import Layouts, PoolingTokenizer
from lmk_train.config import OptimConfig, TrainConfig
from lmk_train.data.collate import Batch
from lmk_train.loss.contrastive import distillation, info_nce, similarity_logits
from lmk_train.modules.finite import check_step
from lmk_train.modules.schedule import warmup_then_decay


class ContrastiveModule(LightningModule):
    """Contrastive fine-tuning of a pooled encoder.

    Args:
        encoder: Text tensors to unit vectors.
        tokenizer: Pads layouts.
        config: The training.

    Raises:
        NonFiniteError: In a step whose loss or gradient is not finite, before any weight is changed.
    """

    def __init__(self, encoder: PooledEncoder, tokenizer: PoolingTokenizer, config: TrainConfig) -> None:
        super().__init__()
        self.encoder = encoder
        self.tokenizer = tokenizer
        self.config = config
        self._loss: Tensor | None = None

    def on_fit_start(self) -> None:
        # Loaded models are in evaluation mode and Lightning keeps what it is given: without this, no dropout.
        self.train()

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        """The mean loss of a batch's queries, in float32."""
        queries, passages = self._embed(batch.queries), self._embed(batch.passages)
        settings = self.config.loss
        logits = similarity_logits(queries, passages, settings.temperature)
        if batch.teacher is None or settings.distillation == "off":
            return info_nce(logits, batch.sizes)
        return distillation(logits, batch.teacher, batch.scored, settings.teacher_temperature, sizes=batch.sizes)

    def _embed(self, layouts: Layouts) -> Float[Tensor, "texts dim"]:
        padded = self.tokenizer.pad(layouts)
        return self.encoder(
            padded["input_ids"].to(self.device),
            padded["attention_mask"].to(self.device),
            padded["pooling_mask"].to(self.device),
        )

    def training_step(self, batch: Batch, batch_idx: int) -> Float[Tensor, ""]:  # noqa: ARG002
        loss = self.loss(batch)
        self._loss = loss.detach()
        return loss

    def configure_gradient_clipping(self, optimizer: torch.optim.Optimizer, *_: Any, **__: Any) -> None:
        """Clips the gradient's norm over all parameters. Lightning calls this between backward and the step.

        Its own clipping refuses a fused optimizer under mixed precision, because a gradient scaler could still have to
        unscale the gradients; bfloat16 needs no scaler, so that they are the true ones here.
        """
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        clip = self.config.optim.gradient_clip
        norm = nn.utils.clip_grad_norm_(parameters, math.inf if clip is None else clip)
        assert self._loss is not None
        check_step(self._loss, norm, self.trainer.global_step + 1, self.config.optim)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        optimizer = make_optimizer(self.encoder, self.config.optim, fused=self.device.type == "cuda")
        factor = warmup_then_decay(self.config.optim.warmup_steps, self.config.optim.steps)
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

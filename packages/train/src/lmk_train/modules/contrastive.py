"""The training step and the optimizer."""

from __future__ import annotations

import torch
from jaxtyping import Float
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn

from lmk_core.encoders import PooledEncoder
from lmk_train.config import OptimConfig, TrainConfig
from lmk_train.data.collate import Batch
from lmk_train.loss.contrastive import distillation, info_nce, similarity_logits
from lmk_train.modules.schedule import warmup_then_decay


class NonFiniteLossError(ValueError):
    """The loss became NaN or infinite; the message names the step."""


class ContrastiveModule(LightningModule):
    """Contrastive fine-tuning of a pooled encoder.

    Args:
        encoder: Text tensors to unit vectors.
        config: The training.

    Raises:
        NonFiniteLossError: In a step whose loss is not a finite number, before its weights are changed.
    """

    def __init__(self, encoder: PooledEncoder, config: TrainConfig) -> None:
        super().__init__()
        self.encoder = encoder
        self.config = config

    def on_fit_start(self) -> None:
        # Loaded models are in evaluation mode and Lightning keeps what it is given: without this, no dropout.
        self.train()

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        """The mean loss of a batch's queries, in float32."""
        queries = self.encoder(**batch["queries"])
        passages = self.encoder(**batch["passages"])
        settings = self.config.loss
        logits = similarity_logits(queries, passages, settings.temperature)
        if batch["teacher"] is None or settings.distillation == "off":
            return info_nce(logits, batch["sizes"])
        return distillation(
            logits, batch["teacher"], batch["scored"], settings.teacher_temperature, sizes=batch["sizes"]
        )

    def training_step(self, batch: Batch, batch_idx: int) -> Float[Tensor, ""]:  # noqa: ARG002
        loss = self.loss(batch)
        if not torch.isfinite(loss):
            raise NonFiniteLossError(
                f"the loss is {loss.item()} at step {self.trainer.global_step + 1} of {self.config.optim.steps}; "
                "the weights of the step before are untouched. Usual causes: a learning rate that is too high "
                f"(optim.learning_rate is {self.config.optim.learning_rate}), gradients that are not clipped "
                f"(optim.gradient_clip is {self.config.optim.gradient_clip}), or an encoder that is faulty already"
            )
        return loss

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

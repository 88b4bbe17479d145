"""No step and no file is made of numbers that are none."""

from __future__ import annotations

import math

import torch
from torch import nn

from lmk_train.config import OptimConfig
from lmk_train.modules.faults import BatchFault


class NonFiniteError(BatchFault):
    """The loss, a gradient or a weight became NaN or infinite; the message names the step and its rows."""


def what_is_not_finite(loss: float, norm: float) -> str | None:
    """Which of a step's loss and its gradient's norm is no finite number."""
    if math.isfinite(loss) and math.isfinite(norm):
        return None
    return f"the gradient's norm is {norm}" if math.isfinite(loss) else f"the loss is {loss}"


def check_weights(module: nn.Module, step: int, optim: OptimConfig) -> None:
    """Looks at all parameters before they are written. A finite gradient can still make a weight overflow.

    Raises:
        NonFiniteError: Some of them are not finite numbers.
    """
    named = list(module.named_parameters())
    if not named or torch.stack([torch.isfinite(parameter).all() for _, parameter in named]).all():
        return
    faulty = [name for name, parameter in named if not torch.isfinite(parameter).all()]
    more = f" and {len(faulty) - 3} more" if len(faulty) > 3 else ""
    raise NonFiniteError(
        f"the weights after step {step} of {optim.steps} are not finite numbers, in {', '.join(faulty[:3])}{more}; "
        f"they were not saved. {usual_causes(optim)}"
    )


def usual_causes(optim: OptimConfig) -> str:
    """What to look at first."""
    return (
        f"Usual causes: a learning rate that is too high (optim.learning_rate is {optim.learning_rate}), gradients "
        f"that are not clipped (optim.gradient_clip is {optim.gradient_clip}), or an encoder that is faulty already"
    )

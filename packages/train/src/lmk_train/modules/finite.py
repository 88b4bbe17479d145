"""No step and no file is made of numbers that are none."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lmk_train.config import OptimConfig


class NonFiniteError(ValueError):
    """The loss, a gradient or a weight became NaN or infinite; the message names the step."""


def check_step(loss: Float[Tensor, ""], norm: Float[Tensor, ""], step: int, optim: OptimConfig) -> None:
    """Looks at a step's loss and its gradient's norm before the optimizer uses them: one wait for the device.

    Raises:
        NonFiniteError: One of the two is not a finite number.
    """
    if torch.isfinite(torch.stack([loss.float(), norm.float()])).all():
        return
    what = f"the gradient's norm is {norm.item()}" if torch.isfinite(loss) else f"the loss is {loss.item()}"
    raise NonFiniteError(f"{what} at step {step} of {optim.steps}; this step changed no weight. {_causes(optim)}")


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
        f"they were not saved. {_causes(optim)}"
    )


def _causes(optim: OptimConfig) -> str:
    return (
        f"Usual causes: a learning rate that is too high (optim.learning_rate is {optim.learning_rate}), gradients "
        f"that are not clipped (optim.gradient_clip is {optim.gradient_clip}), or an encoder that is faulty already"
    )

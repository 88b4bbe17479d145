"""The learning rate's curve."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal


def warmup_then_decay(
    warmup_steps: int, steps: int, warmup: Literal["linear", "logarithmic"] = "linear"
) -> Callable[[int], float]:
    """The factor on the learning rate by the number of steps done: a rise, then a linear fall to 0 at ``steps``.

    The first step of a linear warm-up of ``w`` steps has ``1 / w`` of the rate and its last step all of it, so that no
    step is spent at zero.

    The logarithmic one is what DeepSpeed's ``WarmupDecayLR`` does unless it is told otherwise (its warm-up is at least
    2 steps long): ``log(done + 1) / log(w)``, steep at first, and 0 in the first step. DeepSpeed's engine counts one
    step behind, so that its second step is at 0 too; that is not repeated here.

    Example:
        >>> factor = warmup_then_decay(warmup_steps=2, steps=6)
        >>> [factor(done) for done in range(7)]
        [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]
        >>> factor = warmup_then_decay(warmup_steps=4, steps=8, warmup="logarithmic")
        >>> [round(factor(done), 3) for done in range(9)]
        [0.0, 0.5, 0.792, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]
    """
    if warmup == "logarithmic" and warmup_steps:
        warmup_steps = max(2, warmup_steps)

    def factor(done: int) -> float:
        if done < warmup_steps:
            if warmup == "logarithmic":
                return math.log(done + 1) / math.log(warmup_steps)
            return (done + 1) / warmup_steps
        return max(0, steps - done) / max(1, steps - warmup_steps)

    return factor

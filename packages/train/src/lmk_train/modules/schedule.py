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

    The logarithmic one is ``log(done + 1) / log(w)``, steep at first, and 0 in the first step. It is reported as the
    default of DeepSpeed's ``WarmupDecayLR`` (microsoft/DeepSpeed#1298), and an early version of its ``lr_schedules.py``
    has this formula and no other (read at commit 0570803). No curve of DeepSpeed was measured: which step its engine's
    counter stands for, and so a shift of a step, is not known here. A warm-up of one step, for which the formula has no
    value, is taken as two.

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

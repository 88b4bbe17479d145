"""The learning rate's curve."""

from __future__ import annotations

from collections.abc import Callable


def warmup_then_decay(warmup_steps: int, steps: int) -> Callable[[int], float]:
    """The factor on the learning rate by the number of steps done: a linear rise, then a linear fall to 0 at ``steps``.

    The first step of a warm-up of ``w`` steps has ``1 / w`` of the rate and its last step all of it, so that no step is
    spent at zero.

    Example:
        >>> factor = warmup_then_decay(warmup_steps=2, steps=6)
        >>> [factor(done) for done in range(7)]
        [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]
    """

    def factor(done: int) -> float:
        if done < warmup_steps:
            return (done + 1) / warmup_steps
        return max(0, steps - done) / max(1, steps - warmup_steps)

    return factor

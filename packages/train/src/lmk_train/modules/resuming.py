"""Checkpoints of before the module optimized by hand."""

from __future__ import annotations

from typing import Any


def count_steps_by_hand(checkpoint: dict[str, Any]) -> None:
    """Moves the number of steps to where Lightning looks for it now: such a checkpoint would start at step 0 else."""
    steps = int(checkpoint["global_step"])
    progress = checkpoint["loops"]["fit_loop"]["epoch_loop.manual_optimization.optim_step_progress"]
    if progress["total"]["completed"] < steps:
        for part in ("total", "current"):
            progress[part] |= {"ready": steps, "completed": steps}

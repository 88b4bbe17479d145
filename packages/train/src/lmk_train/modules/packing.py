"""Whether a training's chunks are packed, and what became of it on the way."""

from __future__ import annotations

from typing import Any

from torch import nn

from lmk_core.encoders import PooledEncoder
from lmk_core.encoders.packed import packing_obstacle


class Packing:
    """Texts one behind the other where that was asked for and the encoder can, else padded.

    Both give the same vectors and gradients but for rounding. With dropout they draw others, so a resumed training goes
    on as it was before its checkpoint, unless the user has changed ``runtime.packed`` since.

    Args:
        encoder: the encoder that is trained.
        asked: ``runtime.packed``.
    """

    def __init__(self, encoder: PooledEncoder, *, asked: bool) -> None:
        self.asked = asked
        obstacle = packing_obstacle(encoder.encoder) if asked else None
        self.reason = obstacle
        """Why texts are padded although packing was asked for."""
        self._changed: dict[str, Any] | None = None

    @property
    def used(self) -> bool:
        return self.asked and self.reason is None

    def state(self) -> dict[str, bool]:
        """Plain values, for a checkpoint."""
        return {"asked": self.asked, "used": self.used}

    def restore(self, state: dict[str, bool] | None) -> None:
        """Goes on as before a checkpoint; those of before there was packing have no state, and were padded."""
        used = state is not None and state["used"]
        if self.used and not used and (state is None or state["asked"] == self.asked):
            self.reason = "so it was before the checkpoint, and dropout has to go on as it was"
        if self.used != used:
            self._changed = {"before": _named(used), "now": _named(self.used)}

    def events(self, step: int) -> list[dict[str, Any]]:
        """What a record should have of it at the start."""
        told: list[dict[str, Any]] = []
        if self._changed is not None:
            told.append({"kind": "packing_changed", "step": step, **self._changed})
        if self.reason is not None:
            told.append({"kind": "padded", "step": step, "reason": self.reason})
        return told


def checkpoint_activations(encoder: nn.Module) -> None:
    """Keeps of each layer its input alone, and computes the layer again on the way back.

    Raises:
        ValueError: The encoder cannot.
    """
    model: Any = encoder
    if not getattr(model, "supports_gradient_checkpointing", False):
        raise ValueError(
            f"runtime.activation_checkpointing: {type(encoder).__name__} of transformers does not support it; valid: "
            "false, and a smaller runtime.chunk_tokens for less memory"
        )
    # Its name since transformers 5.24, and the one before.
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": False})


def _named(packed: bool) -> str:
    return "packed" if packed else "padded"

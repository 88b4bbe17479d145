"""Write an encoder's weights and configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def save_encoder(encoder: Any, folder: Path) -> None:
    """As its ``save_pretrained``, and whoever may read the configuration may read the weights.

    safetensors keeps what it writes for its owner alone, which a folder that colleagues share, or a hard link of the
    weights in a store of theirs, would keep too.
    """
    encoder.save_pretrained(folder)
    mode = (folder / "config.json").stat().st_mode
    for weights in folder.glob("*.safetensors"):
        weights.chmod(mode)

"""From a pre-training to the fine-tune that starts from it: every weight, and a count that says so."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from torch import nn

from lmk_core import Embedder
from lmk_train.config import TrainConfig
from lmk_train.finished import MARKER

WEIGHTS = "WEIGHTS.json"
"""Beside the model: the digest of each of its weights."""


def note_weights(module: nn.Module, folder: Path) -> None:
    """Writes the digests of a pooled encoder's weights."""
    value = {"schema": 1, "weights": _digests(module)}
    (folder / WEIGHTS).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def refuse_unfinished(init: str) -> None:
    """Sees that ``init`` is a folder that a pre-training has filled.

    Raises:
        ValueError: it is not.
    """
    folder = Path(init)
    if not ((folder / MARKER).is_file() and (folder / WEIGHTS).is_file() and (folder / "model").is_dir()):
        raise ValueError(
            f"init: {init!r} is no folder of a finished pre-training (with model, {WEIGHTS} and {MARKER}); valid: "
            "null, or a folder that lmk_train.pretrain() has filled"
        )


def started_from(config: TrainConfig) -> tuple[Embedder, dict[str, Any]]:
    """The embedder that a fine-tune begins with, and what it has of a pre-training (nothing where there was none).

    Raises:
        ValueError: a weight of the pre-training is missing, or another.
    """
    place, revision = config.model.path, config.model.revision
    if config.init is not None:
        place, revision = str(Path(config.init) / "model"), None
    embedder = Embedder.from_pretrained(
        place,
        pooling=config.pooling,
        max_length=config.data.passage_max_length,
        device="cpu",  # Lightning moves it
        revision=revision,
    )
    if config.init is None:
        return embedder, {}
    wanted = json.loads((Path(config.init) / WEIGHTS).read_bytes())["weights"]
    found = _digests(embedder.module)
    other = sorted(name for name in wanted if found.get(name) != wanted[name])
    if other:
        shown = ", ".join(other[:3]) + (", ..." if len(other) > 3 else "")
        raise ValueError(
            f"init: {config.init}: {len(other)} of {len(wanted)} weights are not those that were pre-trained: {shown}; "
            "was it pre-trained with this pooling?"
        )
    told = {"pretraining": Path(config.init).name, "weights_loaded": len(wanted), "weights": len(found)}
    return embedder, told


def _digests(module: nn.Module) -> dict[str, str]:
    """Of each weight by its name; buffers that are computed anew are none."""
    return {
        name: hashlib.sha256(tensor.detach().cpu().float().contiguous().numpy().tobytes()).hexdigest()[:16]
        for name, tensor in module.state_dict().items()
    }

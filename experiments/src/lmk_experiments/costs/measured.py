"""How large a model is that lies here, read off the head of its weights' files: no weight is loaded."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lmk_experiments.builders import BuilderError, is_builtin_reference, locate
from lmk_experiments.grids.size import ModelSize

_EMBEDDINGS = ("embeddings", "embed_tokens", "wte", "wpe")
"""Parts of the names of tensors that are looked up, in the encoders of transformers."""
_LARGEST_HEAD = 100_000_000


def measured_size(model: str, root: Path) -> ModelSize | None:
    """The size of a model's folder, or of a built one; ``None`` where there are no safetensors to look at.

    Args:
        model: a path or a reference, as a training names it.
    """
    try:
        folder = locate(model, root) if is_builtin_reference(model) else Path(model).expanduser()
        shapes = {name: shape for file in sorted(folder.glob("*.safetensors")) for name, shape in _shapes(file)}
        dim = json.loads((folder / "config.json").read_text(encoding="utf-8"))["hidden_size"]
        looked_up = {name for name in shapes if any(part in name for part in _EMBEDDINGS) and len(shapes[name]) > 1}
        sizes = {name: math.prod(shape) for name, shape in shapes.items()}
        embeddings = sum(size for name, size in sizes.items() if name in looked_up)
        return ModelSize(parameters=sum(sizes.values()) - embeddings, embedding_parameters=embeddings, dim=dim)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error, BuilderError):
        return None  # an estimate may be missing; what is wrong with the model is told by who opens it


def _shapes(file: Path) -> Iterator[tuple[str, list[int]]]:
    with file.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        if length > _LARGEST_HEAD:
            raise ValueError(f"{file}: no safetensors")
        head: dict[str, Any] = json.loads(stream.read(length))
    for name, entry in head.items():
        if name != "__metadata__":
            yield name, entry["shape"]

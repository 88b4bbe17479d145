"""How vectors lie in files: whole, or in half the room. NumPy has no bfloat16, so its bits are kept as integers."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

Storage = Literal["float32", "float16", "bfloat16"]
STORAGES: tuple[str, ...] = get_args(Storage)
"""The types that vectors can be kept in. Scores are always computed in float32."""


def packed(vectors: np.ndarray, storage: str) -> np.ndarray:
    """Vectors [n, dim] as they are written to a file."""
    if storage == "bfloat16":
        rounded = torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float32)).to(torch.bfloat16)
        return rounded.view(torch.int16).numpy()
    return np.ascontiguousarray(vectors, dtype=storage)


def unpacked(rows: np.ndarray, storage: str) -> Float[Tensor, "rows dim"]:
    """Rows of a file as float32."""
    tensor = torch.from_numpy(np.array(rows))  # a copy: the file itself is mapped read-only
    return (tensor.view(torch.bfloat16) if storage == "bfloat16" else tensor).float()


def write_array(path: Path, array: np.ndarray) -> None:
    """Write a ``.npy`` file that is whole or not there, whenever the process or the machine stops."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Jobs on several machines, or in containers, may have one process id.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with temporary.open("wb") as file:
            np.save(file, array, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def map_array(path: Path) -> Any:
    """A ``.npy`` file mapped into memory, read-only; ``None`` where there is none, or it is none."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None

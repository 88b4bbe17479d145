"""The vectors of one corpus in files, one a shard. A shard that is there is finished: that is the whole record."""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lmk_eval.corpus.storage import map_array, packed, unpacked, write_array

PLAN = "corpus.json"
SHARD_TEXTS = 16_384
SHARD_CHARACTERS = 32_000_000
"""A shard ends with the text that reaches one of these. It is what a stop may lose, and what is sorted together."""


def shard_bounds(characters: np.ndarray, texts: int = SHARD_TEXTS, most: int = SHARD_CHARACTERS) -> list[int]:
    """Where shards of a corpus begin, and its end: ``[0, ..., rows]``.

    >>> shard_bounds(np.array([1, 1, 1, 9, 1]), texts=2, most=8)
    [0, 2, 4, 5]

    Args:
        characters: [rows] lengths of the texts.
        texts: in a shard at most.
        most: characters in a shard, its last text not counted.
    """
    bounds = [0]
    ends = np.cumsum(characters)
    while bounds[-1] < len(characters):
        start = bounds[-1]
        before = int(ends[start - 1]) if start else 0
        full = int(np.searchsorted(ends, before + most)) + 1
        bounds.append(min(start + texts, full, len(characters)))
    return bounds


class Shards:
    """Vectors [rows, dim] of a corpus below a folder.

    Several processes may write at once, each its own shards. What the vectors are of is part of where they lie, so that
    those of another model, reading or corpus are never taken for them.

    Args:
        folder: Holds the files, in a folder of their own.
        source: What the vectors are of: the model's name, revision and reading, the data's revision.
        bounds: As `shard_bounds` gives them.
        storage: The type that vectors are kept in.
    """

    def __init__(self, folder: Path, source: Mapping[str, Any], bounds: Sequence[int], storage: str) -> None:
        self.bounds = [int(bound) for bound in bounds]
        self.storage = storage
        plan = json.dumps({"source": dict(source), "bounds": self.bounds, "storage": storage}, sort_keys=True)
        self.folder = folder / hashlib.sha256(plan.encode()).hexdigest()[:16]
        if not (self.folder / PLAN).is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            temporary = self.folder / f".{PLAN}.{secrets.token_hex(6)}"
            temporary.write_text(plan, encoding="utf-8")
            temporary.replace(self.folder / PLAN)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def rows(self, shard: int) -> range:
        """The corpus's rows of a shard."""
        return range(self.bounds[shard], self.bounds[shard + 1])

    def finished(self, shard: int) -> bool:
        """Whether the vectors of a shard are all there."""
        found = map_array(self._file(shard))
        return found is not None and found.ndim == 2 and len(found) == len(self.rows(shard))

    def write(self, shard: int, vectors: np.ndarray) -> None:
        """Keep the vectors of a shard; it is finished then.

        Raises:
            ValueError: not one vector for each of its rows.
        """
        if vectors.ndim != 2 or len(vectors) != len(self.rows(shard)):
            raise ValueError(
                f"shard {shard} has {len(self.rows(shard))} rows, the vectors are of shape {vectors.shape}"
            )
        write_array(self._file(shard), packed(vectors, self.storage))

    def blocks(self, rows: int) -> Iterator[tuple[int, Float[Tensor, "rows dim"]]]:
        """All vectors in order, some at a time, as float32 with the number of the first row.

        Args:
            rows: in a block at most.
        """
        for shard in range(len(self)):
            mapped = map_array(self._file(shard))
            if mapped is None:
                raise ValueError(f"{self._file(shard)}: this shard is not finished")
            for start in range(0, len(mapped), rows):
                yield self.bounds[shard] + start, unpacked(mapped[start : start + rows], self.storage)

    def take(self, rows: Sequence[int]) -> Float[Tensor, "rows dim"]:
        """The vectors of some rows, in their order, as float32."""
        wanted = np.asarray(rows, dtype=np.int64)
        shards = np.searchsorted(self.bounds, wanted, side="right") - 1
        out: Any = None
        for shard in np.unique(shards).tolist():
            mapped, mine = map_array(self._file(shard)), shards == shard
            if mapped is None:
                raise ValueError(f"{self._file(shard)}: this shard is not finished")
            found = unpacked(mapped[wanted[mine] - self.bounds[shard]], self.storage)
            out = found.new_empty((len(wanted), found.shape[1])) if out is None else out
            out[torch.from_numpy(mine)] = found
        return torch.zeros((0, 0)) if out is None else out

    def remove(self) -> None:
        """Remove the files."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _file(self, shard: int) -> Path:
        return self.folder / f"{shard:06d}.npy"

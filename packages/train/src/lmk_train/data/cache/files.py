"""The tokenized rows of one file, mapped into memory: read from disk one row at a time, shared by all processes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lmk_core.layouts import TokenizedTexts
from lmk_train.data.errors import DataError
from lmk_train.data.reading import Findings

ROWS, META = "rows.arrow", "META.json"


@dataclass(frozen=True, slots=True, eq=False)
class TokenRow:
    """A row as token ids: the query, the positive, the negatives."""

    texts: TokenizedTexts
    keys: NDArray[np.uint64]
    """[texts] the texts' hashes."""
    scores: NDArray[np.float64] | None
    """[texts - 1] the teacher's scores of the passages."""

    @property
    def negatives(self) -> int:
        return len(self.texts) - 2


class TokenFile:
    """The rows of a folder of the cache. It can be pickled: another process maps the same file.

    The file is an Arrow stream, which ``datasets.Dataset.from_file`` opens too.

    Args:
        folder: Holds the rows and what was found when they were read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.meta: dict[str, Any] = json.loads((folder / META).read_bytes())
        self._batches: list[_Columns] = []
        with pa.memory_map(str(folder / ROWS)) as source, pa.ipc.open_stream(source) as reader:
            self._batches = [_Columns(batch, self.meta["limit"]) for batch in reader]
        self._ends = np.cumsum([len(batch) for batch in self._batches])

    def findings_of(self, path: Path) -> Findings:
        """What was found in the file, which lies at ``path`` now."""
        return findings_in(self.meta, path)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, index: int) -> TokenRow:
        which = int(np.searchsorted(self._ends, index, side="right"))
        return self._batches[which].row(index - (int(self._ends[which - 1]) if which else 0))

    def negatives(self) -> NDArray[np.int64]:
        """[rows] how many negatives each row has."""
        counts = [np.diff(batch.owners).astype(np.int64) - 2 for batch in self._batches]
        return np.concatenate(counts) if counts else np.zeros(0, dtype=np.int64)

    def __reduce__(self) -> tuple[type[TokenFile], tuple[Path]]:
        return type(self), (self.folder,)


def findings_in(meta: dict[str, Any], path: Path) -> Findings:
    """What was found in a file when it was read."""
    faults = [DataError(path, *fault) for fault in meta["faults"]]
    findings = Findings(rows=meta["rows"], scored=meta["scored"], faults=faults)
    findings.counts.update(meta["counts"])
    return findings


class _Columns:
    """Numpy views of one record batch."""

    def __init__(self, batch: pa.RecordBatch, limit: int) -> None:
        self.limit = limit
        self.owners, self.bounds, self.ids = _views(batch.column("ids"))
        self.keys = batch.column("keys").values.to_numpy()
        self.pieces = _views(batch.column("pieces"))[1:] if "pieces" in batch.schema.names else None
        scores = batch.column("scores")
        self.scored = np.asarray(scores.is_valid())
        self.score_bounds, self.scores = scores.offsets.to_numpy(), scores.values.to_numpy()

    def __len__(self) -> int:
        return len(self.owners) - 1

    def row(self, index: int) -> TokenRow:
        start, stop = int(self.owners[index]), int(self.owners[index + 1])
        ids, bounds = _slice(self.ids, self.bounds, start, stop)
        pieces, piece_bounds = (None, None) if self.pieces is None else _slice(*self.pieces[::-1], start, stop)
        texts = TokenizedTexts(
            ids,
            bounds,
            None if pieces is None else pieces.astype(np.int64),
            piece_bounds,
            limit=self.limit,
        )
        scores = None
        if self.scored[index]:
            scores = self.scores[self.score_bounds[index] : self.score_bounds[index + 1]]
        return TokenRow(texts, self.keys[start:stop], scores)


def _views(column: Any) -> tuple[NDArray, NDArray, NDArray]:
    """The owners, bounds and values of a nested column, without a copy."""
    inner = column.values
    return column.offsets.to_numpy(), inner.offsets.to_numpy(), inner.values.to_numpy()


def _slice(values: NDArray, bounds: NDArray, start: int, stop: int) -> tuple[NDArray, NDArray[np.int64]]:
    """Texts ``start`` to ``stop``: their values, and bounds that begin with 0."""
    own = bounds[start : stop + 1].astype(np.int64)
    return values[own[0] : own[-1]], own - own[0]

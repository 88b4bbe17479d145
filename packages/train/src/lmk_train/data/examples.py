"""Data sets of a configuration, and the example that a row is in one step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from lmk_core.layouts import TokenizedTexts
from lmk_train.config import DataConfig, TrainSet
from lmk_train.data.cache import TokenCache, TokenFile, TokenRow
from lmk_train.data.errors import DataError
from lmk_train.data.reading import Findings, data_files, length_bucket, stem, wants_no_in_batch
from lmk_train.data.sampling import MixedSet, Part, RowKey, draw_negatives, row_key


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """A row as one step sees it: its query and its passages, the positive first.

    There are ``1 + negatives`` passages, or the positive alone where the row has no negatives.
    """

    dataset: str
    """Its data set's name."""
    row: int
    """Its number there."""
    key: tuple[int, int]
    """What its draws depend on beside the seed: the pass, and the row's number among those of all data sets."""
    texts: TokenizedTexts
    """The query and the passages."""
    text_keys: NDArray[np.uint64]
    """[texts] their hashes."""
    scores: tuple[float, ...] | None
    """The teacher's scores of the passages."""


class TrainingSet:
    """The rows of one data set, tokenized, file after file.

    With ``batch_sizes`` shorter texts' files stand before longer ones', so that each length is one range of rows.

    Raises:
        DataError: A file is faulty, or no length has a batch size for it.
    """

    def __init__(self, entry: TrainSet, name: str, cache: TokenCache, *, negatives: int, batch_size: int) -> None:
        self.name = name
        self.negatives = negatives if entry.negatives is None else entry.negatives
        self.entry = entry
        self.files: list[TokenFile] = []
        self.findings = Findings()
        self.parts: list[Part] = []
        files = [file for path in entry.paths for file in data_files(path)]
        for size, group in _by_length(files, entry, batch_size):
            start = sum(map(len, self.files))
            for file in group:
                self._add(file, cache)
            self.parts.append(Part(start, sum(map(len, self.files)), size))
        self._ends = np.cumsum([len(file) for file in self.files])

    def _add(self, file: Path, cache: TokenCache) -> None:
        tokens = cache.open(file)
        self.files.append(tokens)
        self.findings.merge(tokens.findings_of(file))
        self.findings.counts.update({"no_in_batch_neg": 1} if wants_no_in_batch(file) else {})
        available = tokens.negatives()
        few = int(((available > 0) & (available < self.negatives)).sum())
        self.findings.counts.update({"few_negatives": few} if few else {})

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, row: int) -> TokenRow:
        which = int(np.searchsorted(self._ends, row, side="right"))
        return self.files[which][row - (int(self._ends[which - 1]) if which else 0)]

    def mixed(self, *, spread: bool) -> MixedSet:
        """How a mixture takes it.

        Raises:
            DataError: It can't fill a batch.
        """
        entry = self.entry
        try:
            return MixedSet(self.parts, spread=spread, weight=entry.weight or 1, share=entry.share)
        except ValueError as error:
            size = next(part.rows for part in self.parts if part.rows < part.batch_size)
            raise DataError(", ".join(entry.paths), None, f"{error}, such as one of at most {size}") from None


def open_sets(config: DataConfig, cache: TokenCache, *, batch_size: int) -> list[TrainingSet]:
    """The data sets of a configuration.

    Raises:
        DataError: A file is faulty.
    """
    return [
        TrainingSet(entry, name, cache, negatives=config.negatives, batch_size=batch_size)
        for entry, name in zip(config.sets, set_names(config.sets), strict=True)
    ]


def set_names(entries: Sequence[TrainSet]) -> list[str]:
    """A name for each data set, none twice.

    Example:
        >>> set_names([TrainSet(path="a/en.jsonl"), TrainSet(path="b/en"), TrainSet(path="c", name="mine")])
        ['en', 'en#2', 'mine']
    """
    names: list[str] = []
    for entry in entries:
        wanted = entry.name or stem(Path(entry.paths[0]))
        same = sum(name == wanted or name.startswith(f"{wanted}#") for name in names)
        names.append(f"{wanted}#{same + 1}" if same else wanted)
    return names


class ExampleDataset(Dataset[Example]):
    """Draws the example of a :class:`RowKey`."""

    def __init__(self, sets: Sequence[TrainingSet], seed: int) -> None:
        self.sets, self.seed = list(sets), seed

    def __len__(self) -> int:
        return sum(map(len, self.sets))

    def __getitem__(self, index: RowKey) -> Example:
        one = self.sets[index.dataset]
        return draw_example(one[index.row], index, seed=self.seed, dataset=one.name, negatives=one.negatives)


def draw_example(row: TokenRow, key: RowKey, *, seed: int, dataset: str, negatives: int) -> Example:
    """Takes the positive and draws ``negatives`` negatives without replacement; scores stay with their texts."""
    number = row_key(key.dataset, key.row)
    drawn = draw_negatives(row.negatives, seed=seed, epoch=key.epoch, row=number, negatives=negatives)
    chosen = [0, 1, *(2 + place for place in drawn)]
    scores = None if row.scores is None else tuple(float(row.scores[place - 1]) for place in chosen[1:])
    return Example(dataset, key.row, (key.epoch, number), row.texts.select(chosen), row.keys[chosen], scores)


def _by_length(files: list[Path], entry: TrainSet, batch_size: int) -> list[tuple[int, list[Path]]]:
    """Groups of files whose rows share batches, shorter texts first, and how many rows make one of their batches.

    Raises:
        DataError: A file's name says no length, or one that has no batch size.
    """
    if entry.batch_sizes is None:
        return [(entry.batch_size or batch_size, files)]
    sizes = dict(entry.batch_sizes)
    groups: dict[str, list[Path]] = {}
    for file in files:
        bucket = length_bucket(file)
        if bucket not in sizes:
            found = (
                "its name says no length, as NAME_len-0-500.jsonl does" if bucket is None else f"its length is {bucket}"
            )
            raise DataError(file, None, f"{found}; batch_sizes has: {', '.join(sizes)}")
        groups.setdefault(bucket, []).append(file)
    return [(sizes[bucket], groups[bucket]) for bucket in sorted(groups, key=lambda one: int(one.split("-")[0]))]

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
from lmk_train.data.reading import Findings, data_files, length_bucket, stem
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

    With ``batch_sizes`` the files stand in the order of their lengths, so that each length is one range of rows.

    Raises:
        DataError: A file is faulty, or no length has a batch size for it.
    """

    def __init__(self, entry: TrainSet, name: str, cache: TokenCache, *, negatives: int, batch_size: int) -> None:
        self.name = name
        self.negatives = negatives if entry.negatives is None else entry.negatives
        self.entry = entry
        files = [(file, length_bucket(file)) for path in entry.paths for file in data_files(path)]
        if entry.batch_sizes is not None:
            files = _by_length(files, dict(entry.batch_sizes))
        self.files: list[TokenFile] = []
        self.findings = Findings()
        self.parts: list[Part] = []
        rows, before = 0, None
        for file, bucket in files:
            tokens = cache.open(file)
            self.files.append(tokens)
            self.findings.merge(tokens.findings_of(file))
            few = int(((tokens.negatives() < self.negatives) & (tokens.negatives() > 0)).sum())
            self.findings.counts.update({"few_negatives": few} if few else {})
            size = (entry.batch_size or batch_size) if entry.batch_sizes is None else dict(entry.batch_sizes)[bucket or ""]
            start = rows if entry.batch_sizes is not None and bucket != before else None
            rows, before = rows + len(tokens), bucket
            if self.parts and start is None:
                self.parts[-1] = Part(self.parts[-1].start, rows, size)
            else:
                self.parts.append(Part(rows - len(tokens), rows, size))
        self._ends = np.cumsum([len(file) for file in self.files])

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

    def __getitem__(self, key: RowKey) -> Example:
        one = self.sets[key.dataset]
        return draw_example(one[key.row], key, seed=self.seed, dataset=one.name, negatives=one.negatives)


def draw_example(row: TokenRow, key: RowKey, *, seed: int, dataset: str, negatives: int) -> Example:
    """Takes the positive and draws ``negatives`` negatives without replacement; scores stay with their texts."""
    number = row_key(key.dataset, key.row)
    drawn = draw_negatives(row.negatives, seed=seed, epoch=key.epoch, row=number, negatives=negatives)
    chosen = [0, 1, *(2 + place for place in drawn)]
    scores = None if row.scores is None else tuple(float(row.scores[place - 1]) for place in chosen[1:])
    return Example(dataset, key.row, (key.epoch, number), row.texts.select(chosen), row.keys[chosen], scores)


def _by_length(files: list[tuple[Path, str | None]], sizes: dict[str, int]) -> list[tuple[Path, str | None]]:
    """The files in the order of the lengths they hold.

    Raises:
        DataError: A file's name says no length, or one that has no batch size.
    """
    for file, bucket in files:
        if bucket not in sizes:
            what = f"it holds the length {bucket}" if bucket else "its name says no length, as NAME_len-0-500.jsonl does"
            raise DataError(file, None, f"{what}; batch_sizes has: {', '.join(sizes)}")
    return sorted(files, key=lambda one: int(str(one[1]).split("-")[0]))

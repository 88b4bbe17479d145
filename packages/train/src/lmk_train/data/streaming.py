"""Batches of data that is read in order and never kept: for sources larger than the disk."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from torch.utils.data import IterableDataset, get_worker_info

from lmk_train.config import TrainConfig, TrainSet
from lmk_train.data.cache import TokenRow, tokenize_row
from lmk_train.data.cache.building import used_scores
from lmk_train.data.collate import Batch, Collator
from lmk_train.data.errors import DataError
from lmk_train.data.examples import draw_example, set_names
from lmk_train.data.reading import Findings, Row, data_files, is_remote, read_remote_rows, read_rows
from lmk_train.data.sampling import RowKey, share

_STREAM = 2**32 - 2
"""The key of a stream's draws."""


class StreamedBatches(IterableDataset[Batch]):
    """One process's share of the batches ``start`` to the last, from files that are read again and again.

    A pass reads a data set's files in sorted order through a buffer of ``data.stream_buffer`` rows, from which rows are
    drawn by (seed, pass); what is left of a pass after its last full batch is not used. With several data sets, that of
    a step is drawn from (seed, step) by their shares. The number of the step is the whole state: a resumed training
    reads again, without tokenizing, what was read before. Every process and worker reads all and tokenizes its own.
    """

    def __init__(
        self, config: TrainConfig, collator: Collator, *, start: int = 0, rank: int = 0, world_size: int = 1
    ) -> None:
        self.config, self.collator = config, collator
        self.start, self.rank, self.world_size = start, rank, world_size
        self.max_length = max(config.data.query_max_length, config.data.passage_max_length)
        self.sets = config.data.sets
        self.names = set_names(self.sets)
        for entry in self.sets:
            size = self._batch_size(entry)
            if size < world_size:
                raise DataError(entry.paths[0], None, f"a batch of {size} rows is too small for {world_size} processes")

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        mine, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        streams = [self._stream(place, entry) for place, entry in enumerate(self.sets)]
        for number in range(self.config.optim.steps):
            place = self._chosen(number)
            rows = list(islice(streams[place], self._batch_size(self.sets[place])))
            # A loader takes turns between its workers, beginning with the first batch that is not skipped.
            if number >= self.start and (number - self.start) % workers == mine:
                yield self._batch(place, rows[share(len(rows), self.rank, self.world_size)])

    def _batch(self, place: int, rows: list[tuple[int, int, Row]]) -> Batch:
        entry = self.sets[place]
        negatives = self.config.data.negatives if entry.negatives is None else entry.negatives
        examples = []
        for epoch, number, row in rows:
            texts, keys = tokenize_row(row, self.collator.tokenizer, self.max_length)
            scores = used_scores(row)
            tokens = TokenRow(texts, keys, None if scores is None else np.array(scores))
            key = RowKey(place, epoch, number)
            name = self.names[place]
            examples.append(draw_example(tokens, key, seed=self.config.seed, dataset=name, negatives=negatives))
        return self.collator(examples)

    def _chosen(self, step: int) -> int:
        if len(self.sets) == 1:
            return 0
        shares = np.array([entry.share for entry in self.sets], dtype=np.float64)
        drawn = np.random.RandomState([self.config.seed, step, _STREAM]).random_sample()
        return int(np.searchsorted(np.cumsum(shares / shares.sum()), drawn, side="right").clip(max=len(shares) - 1))

    def _batch_size(self, entry: TrainSet) -> int:
        return entry.batch_size or self.config.optim.batch_size

    def _stream(self, place: int, entry: TrainSet) -> Iterator[tuple[int, int, Row]]:
        """``(pass, row, the row)`` without end, full batches of each pass."""
        size = self._batch_size(entry)
        epoch = 0
        while True:
            given = 0
            rows = self._shuffled(place, entry, epoch)
            while len(batch := list(islice(rows, size))) == size:
                yield from ((epoch, number, row) for number, row in batch)
                given += 1
            if not given:
                problem = f"{len(batch)} rows can't fill a batch of {size}; give more rows or a smaller batch"
                raise DataError(", ".join(entry.paths), None, problem)
            epoch += 1

    def _shuffled(self, place: int, entry: TrainSet, epoch: int) -> Iterator[tuple[int, Row]]:
        """A pass over the files through the buffer."""
        room = self.config.data.stream_buffer
        assert room is not None
        draws = np.random.RandomState([self.config.seed, epoch, _STREAM, place])
        buffer: list[tuple[int, Row]] = []
        for one in self._read(entry):
            if len(buffer) < room:
                buffer.append(one)
                continue
            drawn = int(draws.randint(room))
            yield buffer[drawn]
            buffer[drawn] = one
        yield from (buffer[drawn] for drawn in draws.permutation(len(buffer)))

    def _read(self, entry: TrainSet) -> Iterator[tuple[int, Row]]:
        data = self.config.data
        number = 0
        for source in (source for path in entry.paths for source in ([path] if is_remote(path) else data_files(path))):
            findings = Findings()
            for _, row in self._rows(source, findings):
                if findings.faulty and not data.max_faulty:
                    raise findings.refusal(data.max_faulty, None)
                yield number, row
                number += 1
            findings.check(source, data.max_faulty)

    def _rows(self, source: str | Path, findings: Findings) -> Iterator[tuple[int, Row]]:
        prompt = self.config.data.prompt
        if isinstance(source, str):
            return read_remote_rows(source, findings, prompt=prompt)
        return read_rows(source, findings, prompt=prompt)

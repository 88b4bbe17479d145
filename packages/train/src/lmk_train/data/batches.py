"""Which rows make which batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from torch.utils.data import Dataset, Sampler

from lmk_train.data.draws import Example, draw_example, permutation
from lmk_train.data.errors import DataError
from lmk_train.data.rows import Rows

RowKey = tuple[int, int]
"""``(epoch, row)``: what a batch is made of, and all that the draws need beside the seed."""


class BatchOrder(Sampler[list[RowKey]]):
    """Batches ``start`` to ``steps`` of an endless sequence that depends on the seed alone.

    Each epoch is a permutation of all rows cut into full batches; what is left over waits for the next epoch's
    permutation. Batch ``n`` is a pure function of ``n``, so a resumed training goes on exactly where it was.

    Args:
        rows: How many rows there are.
        batch_size: Rows of a batch.
        seed: The training's seed.
        steps: Where the sequence ends.
        start: Batches that were already used.

    Raises:
        ValueError: There are fewer rows than a batch needs.

    Example:
        >>> order = BatchOrder(rows=5, batch_size=2, seed=0, steps=4)
        >>> [len(batch) for batch in order], [batch[0][0] for batch in order]
        ([2, 2, 2, 2], [0, 0, 1, 1])
        >>> list(BatchOrder(rows=5, batch_size=2, seed=0, steps=4, start=3)) == list(order)[3:]
        True
    """

    def __init__(self, rows: int, batch_size: int, seed: int, *, steps: int, start: int = 0) -> None:
        if rows < batch_size:
            raise ValueError(f"{rows} rows can't fill a batch of {batch_size}; give more rows or a smaller batch")
        self.rows, self.batch_size, self.seed = rows, batch_size, seed
        self.steps, self.start = steps, start
        self._epoch, self._permutation = -1, permutation(0, 0, 0)

    @property
    def batches_per_epoch(self) -> int:
        return self.rows // self.batch_size

    def batch(self, number: int) -> list[RowKey]:
        """The rows of batch ``number``, from 0."""
        epoch, place = divmod(number, self.batches_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._permutation = epoch, permutation(self.rows, self.seed, epoch)
        chosen = self._permutation[place * self.batch_size : (place + 1) * self.batch_size]
        return [(epoch, int(row)) for row in chosen]

    def __iter__(self) -> Iterator[list[RowKey]]:
        return (self.batch(number) for number in range(self.start, self.steps))

    def __len__(self) -> int:
        # The whole training's length, not what is left: Lightning counts the batches of earlier runs itself.
        return self.steps


class ExampleDataset(Dataset[Example]):
    """Draws the example of an ``(epoch, row)`` key.

    Raises:
        DataError: See :class:`lmk_train.data.rows.RowFile`; or all files together can't fill a batch.
    """

    def __init__(self, paths: Sequence[str | Path], *, negatives: int, seed: int, batch_size: int = 1) -> None:
        self.rows = Rows(paths)
        self.negatives, self.seed = negatives, seed
        if len(self.rows) < batch_size:
            raise DataError(
                ", ".join(str(path) for path in paths),
                None,
                f"{len(self.rows)} rows can't fill a batch of {batch_size}; give more rows, "
                f"or an optim.batch_size of at most {len(self.rows)}",
            )

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: RowKey) -> Example:
        epoch, row = index
        return draw_example(self.rows[row], seed=self.seed, epoch=epoch, index=row, negatives=self.negatives)

"""`Layout`, one text ready for the encoder, and `Layouts`, many of them in a few flat arrays. Numpy only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from numpy.typing import NDArray

from lmk_core.texts.ragged import Ints, checked_indices, ranges, row_sums, to_bounds


@dataclass(frozen=True)
class Layout:
    """One text, ready for the encoder."""

    input_ids: list[int]
    """Token ids, special tokens included, without padding."""
    pooled: list[int]
    """Positions in ``input_ids`` that are pooled, ascending. At least one."""
    spans: list[tuple[int, int]] | None = None
    """Landmarks only, and only when asked for: the characters (start, end) of the text that each landmark closes."""

    def __len__(self) -> int:
        return len(self.input_ids)


@dataclass(frozen=True, eq=False)
class Layouts(Sequence[Layout]):
    """Many texts, ready for the encoder: a sequence of `Layout`, held in flat arrays. It can be pickled."""

    ids: NDArray[np.int32]
    """[all tokens] the ids of all the texts, special tokens included, without padding."""
    bounds: Ints
    """[texts + 1] where each text begins and ends in ``ids``."""
    pooled: NDArray[np.int32]
    """[all pooled] the pooled positions inside each own text, ascending; at least one for each text."""
    pooled_bounds: Ints
    """[texts + 1] where each text's positions begin and end in ``pooled``."""
    spans: NDArray[np.int32] | None = None
    """[all pooled, 2] landmarks only, and only when asked for: the characters (start, end) that each one closes."""

    @classmethod
    def from_list(cls, layouts: Iterable[Layout]) -> Layouts:
        """The same layouts in flat arrays. Spans are kept where every layout has them."""
        layouts = list(layouts)
        spans = None
        if layouts and all(layout.spans is not None for layout in layouts):
            pairs = [pair for layout in layouts for pair in layout.spans or []]
            spans = np.array(pairs, dtype=np.int32).reshape(-1, 2)
        return cls(
            np.array([token for layout in layouts for token in layout.input_ids], dtype=np.int32),
            to_bounds(np.array([len(layout.input_ids) for layout in layouts], dtype=np.int64)),
            np.array([position for layout in layouts for position in layout.pooled], dtype=np.int32),
            to_bounds(np.array([len(layout.pooled) for layout in layouts], dtype=np.int64)),
            spans,
        )

    @classmethod
    def concatenate(cls, parts: Iterable[Layouts]) -> Layouts:
        """All the layouts of all the parts, in order. Spans are kept where every part has them."""
        parts = list(parts)
        if not parts:
            return cls.from_list([])
        spans = [part.spans for part in parts if part.spans is not None]
        return cls(
            np.concatenate([part.ids for part in parts]),
            to_bounds(np.concatenate([np.diff(part.bounds) for part in parts])),
            np.concatenate([part.pooled for part in parts]),
            to_bounds(np.concatenate([np.diff(part.pooled_bounds) for part in parts])),
            np.concatenate(spans) if len(spans) == len(parts) else None,
        )

    @property
    def lengths(self) -> Ints:
        """[texts] the tokens of each text, special ones included."""
        return np.diff(self.bounds)

    def select(self, indices: Sequence[int] | Ints) -> Layouts:
        """Some of the layouts, in the order given.

        Raises:
            IndexError: if an index is out of range.
        """
        rows = checked_indices(indices, len(self))
        lengths, counts = np.diff(self.bounds)[rows], np.diff(self.pooled_bounds)[rows]
        kept = ranges(self.pooled_bounds[rows], counts)
        return Layouts(
            self.ids[ranges(self.bounds[rows], lengths)],
            to_bounds(lengths),
            self.pooled[kept],
            to_bounds(counts),
            None if self.spans is None else self.spans[kept],
        )

    def pooled_from(self, starts: Ints) -> Layouts:
        """The same layouts, pooled from these positions on only [texts]; the last one of each text always stays."""
        counts = np.diff(self.pooled_bounds)
        kept = self.pooled >= np.repeat(starts, counts)
        kept[self.pooled_bounds[1:] - 1] = True
        counts = row_sums(kept, self.pooled_bounds)
        spans = None if self.spans is None else self.spans[kept]
        return replace(self, pooled=self.pooled[kept], pooled_bounds=to_bounds(counts), spans=spans)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @overload
    def __getitem__(self, index: int) -> Layout: ...
    @overload
    def __getitem__(self, index: slice) -> Layouts: ...
    def __getitem__(self, index: int | slice) -> Layout | Layouts:
        """One layout, or for a slice some of them."""
        if isinstance(index, slice):
            return self.select(np.arange(len(self))[index])
        (row,) = checked_indices([index], len(self))
        pooled = slice(self.pooled_bounds[row], self.pooled_bounds[row + 1])
        spans = None if self.spans is None else [(int(start), int(end)) for start, end in self.spans[pooled]]
        return Layout(self.ids[self.bounds[row] : self.bounds[row + 1]].tolist(), self.pooled[pooled].tolist(), spans)

    def __eq__(self, other: object) -> bool:
        """Whether ``other`` is a sequence of equal layouts."""
        if not isinstance(other, (Layouts, list, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None

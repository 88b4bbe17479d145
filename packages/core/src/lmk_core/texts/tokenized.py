"""`TokenizedTexts`: the plain ids of many texts, from which layouts of any granularity are made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lmk_core.texts.ragged import Ints, checked_indices, ranges, to_bounds


@dataclass(frozen=True, eq=False)
class TokenizedTexts:
    """Texts as plain ids, one behind the other, without special tokens. It can be pickled."""

    ids: NDArray[np.int32]
    """[all tokens] the ids of all the texts, prompts included."""
    bounds: Ints
    """[texts + 1] where each text begins and ends in ``ids``."""
    pieces: Ints | None = None
    """[all pieces] where each sentence ends, in tokens of its own text; only when tokenized sentence by sentence."""
    piece_bounds: Ints | None = None
    """[texts + 1] where each text's sentences begin and end in ``pieces``."""
    offsets: NDArray[np.int32] | None = None
    """[all tokens, 2] the characters (start, end) of each token in its own text, which does not count its prompt.
    The characters of a pair are those of its two texts joined. Only when asked for."""
    limit: int | None = None
    """How many tokens of a text (or of a sentence) were kept at least, where it has so many; None if all."""
    seconds: Ints | None = None
    """[texts] the tokens of a pair's first text, -1 for a text that is no pair; None where there is no pair."""
    unpooled: Ints | None = None
    """[texts] the tokens of the prompt, when they are to be left out of the pooling."""

    @classmethod
    def concatenate(cls, parts: Iterable[TokenizedTexts]) -> TokenizedTexts:
        """All the texts of all the parts, in order. Offsets are kept where every part has them.

        Raises:
            ValueError: some parts were tokenized sentence by sentence and others were not.
        """
        parts = list(parts)
        if not parts:
            return cls(np.zeros(0, dtype=np.int32), to_bounds(np.zeros(0, dtype=np.int64)))
        pieces = [(part.pieces, part.piece_bounds) for part in parts if part.pieces is not None]
        if pieces and len(pieces) < len(parts):
            raise ValueError("texts with sentences and texts without cannot be put together")
        offsets = [part.offsets for part in parts if part.offsets is not None]
        limits = [part.limit for part in parts if part.limit is not None]
        return cls(
            np.concatenate([part.ids for part in parts]),
            _one_behind_the_other([part.bounds for part in parts]),
            np.concatenate([ends for ends, _ in pieces]) if pieces else None,
            _one_behind_the_other([bounds for _, bounds in pieces if bounds is not None]) if pieces else None,
            np.concatenate(offsets) if len(offsets) == len(parts) else None,
            min(limits) if limits else None,
            _filled([part.seconds for part in parts], parts, -1),
            _filled([part.unpooled for part in parts], parts, 0),
        )

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, index: int) -> NDArray[np.int32]:
        """The ids of one text."""
        (row,) = checked_indices([index], len(self))
        return self.ids[self.bounds[row] : self.bounds[row + 1]]

    @property
    def lengths(self) -> Ints:
        """[texts] the tokens of each text."""
        return np.diff(self.bounds)

    def select(self, indices: Sequence[int] | Ints) -> TokenizedTexts:
        """Some of the texts, in the order given.

        Raises:
            IndexError: if an index is out of range.
        """
        rows = checked_indices(indices, len(self))
        lengths = self.lengths[rows]
        kept = ranges(self.bounds[rows], lengths)
        pieces, piece_bounds = self.pieces, self.piece_bounds
        if pieces is not None and piece_bounds is not None:
            counts = np.diff(piece_bounds)[rows]
            pieces, piece_bounds = pieces[ranges(piece_bounds[rows], counts)], to_bounds(counts)
        return replace(
            self,
            ids=self.ids[kept],
            bounds=to_bounds(lengths),
            pieces=pieces,
            piece_bounds=piece_bounds,
            offsets=None if self.offsets is None else self.offsets[kept],
            seconds=None if self.seconds is None else self.seconds[rows],
            unpooled=None if self.unpooled is None else self.unpooled[rows],
        )

    def parts(self) -> tuple[Ints, Ints]:
        """What a chunk may not reach across: sentences, else the two texts of a pair, else texts.

        Returns the lengths of all the parts [parts] and where each text's parts begin and end [texts + 1].
        """
        if self.pieces is not None and self.piece_bounds is not None:
            lengths = np.diff(self.pieces, prepend=0)
            firsts = self.piece_bounds[:-1]
            lengths[firsts] = self.pieces[firsts]
            return lengths, self.piece_bounds
        if self.seconds is None:
            return self.lengths, np.arange(len(self) + 1)
        firsts = np.where(self.seconds < 0, self.lengths, self.seconds)
        both = np.stack([firsts, self.lengths - firsts], axis=1)
        return both.reshape(-1), 2 * np.arange(len(self) + 1)


def _one_behind_the_other(bounds: Sequence[Ints]) -> Ints:
    """The bounds of rows of several arrays that were concatenated."""
    return to_bounds(np.concatenate([np.diff(one) for one in bounds]))


def _filled(values: Sequence[Ints | None], parts: Sequence[TokenizedTexts], absent: int) -> Ints | None:
    """One value a text, ``absent`` for those of parts that have none; None where no part has any."""
    if all(value is None for value in values):
        return None
    return np.concatenate(
        [
            np.full(len(part), absent, dtype=np.int64) if value is None else value
            for value, part in zip(values, parts, strict=True)
        ]
    )

"""Equal texts of different rows: passages that would be contrasted although they are the answer, or counted twice.

Texts are compared by their 64-bit keys. Among 20,000 texts of a step two different ones have an equal key about once in
a hundred billion steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor


@dataclass(frozen=True)
class TextKeys:
    """The keys of a process' own texts, and those of all processes."""

    own_queries: Int[Tensor, " rows"]
    own_passages: Int[Tensor, "rows group"]
    """Each row's own passages, the positive first; a slot that isn't there repeats the positive."""
    queries: Int[Tensor, " all_rows"]
    passages: Int[Tensor, " columns"]
    positives: Int[Tensor, " all_rows"]
    """The column of each row's positive."""
    first_row: int
    """The place of the own rows among all."""

    def passages_left_out(self, rows: slice) -> Bool[Tensor, "block columns"]:
        """Which columns each of the own ``rows`` does not count.

        Those are columns of another row that hold one of the row's own passages (its positive is an answer there too,
        a negative is counted once), the positive of another row with an equal query, and a second copy of the positive
        among the row's own.
        """
        own = self.own_passages[rows]
        equal = torch.zeros(len(own), len(self.passages), dtype=torch.bool, device=own.device)
        for slot in range(own.shape[1]):
            equal |= own[:, slot, None] == self.passages
        equal[:, self.positives] |= self.own_queries[rows, None] == self.queries
        first = self.positives[self.first_row + rows.start : self.first_row + rows.stop]
        slots = torch.arange(own.shape[1], device=own.device)
        # Padded slots repeat the positive's key and may point into the next row's group: only real ones are its own.
        is_own = (slots < self._sizes(rows)[:, None]).nonzero(as_tuple=True)
        equal[is_own[0], first[is_own[0]] + is_own[1]] = (own[is_own] == own[is_own[0], 0]) & (is_own[1] > 0)
        return equal

    def queries_left_out(self, rows: slice) -> Bool[Tensor, "block all_rows"]:
        """For the way back, from a row's positive to all queries: the other rows with an equal query or positive."""
        equal = self.own_queries[rows, None] == self.queries
        equal |= self.own_passages[rows, :1] == self.passages[self.positives]
        own = torch.arange(rows.start, rows.stop, device=equal.device)
        equal[own - rows.start, self.first_row + own] = False
        return equal

    def _sizes(self, rows: slice) -> Int[Tensor, " block"]:
        ends = torch.cat([self.positives[1:], self.positives.new_tensor([len(self.passages)])])
        return (ends - self.positives)[self.first_row + rows.start : self.first_row + rows.stop]


def own_groups(keys: Int[Tensor, " columns"], sizes: Int[Tensor, " rows"]) -> Int[Tensor, "rows group"]:
    """The own passages' keys as rows; a slot that isn't there repeats the positive.

    Example:
        >>> own_groups(torch.tensor([5, 6, 7, 8]), torch.tensor([3, 1])).tolist()
        [[5, 6, 7], [8, 8, 8]]
    """
    first = (sizes.cumsum(0) - sizes)[:, None]
    slots = torch.arange(int(sizes.max()), device=keys.device)
    return keys[torch.where(slots < sizes[:, None], first + slots, first)]

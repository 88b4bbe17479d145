"""Drawing one of several chunk sizes without global randomness."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b


def draw_granularity(choices: Sequence[int], *key: int) -> int:
    """Draw one of ``choices`` uniformly, determined by the integers of ``key`` alone.

    The usual key is (seed, epoch, row, slot): a resumed run, another number of workers or of processes, and a second
    pass over a batch all see the same tokens. The order of ``choices`` matters.

    Raises:
        ValueError: if there is nothing to choose from.
    """
    if not choices:
        raise ValueError("draw_granularity needs at least one size to choose from")
    digest = blake2b(",".join(str(int(part)) for part in key).encode(), digest_size=8).digest()
    return choices[int.from_bytes(digest, "big") % len(choices)]

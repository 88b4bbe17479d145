"""Documents drawn by a seed among those that are long enough. Plain Python."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

_READ_AT_ONCE = 64
Enough = Callable[[Sequence[str]], Sequence[bool]]
"""Which of some texts are long enough."""
Measure = Callable[[Sequence[str]], Sequence[int]]
"""How long some texts are, in tokens or in chunks."""


@dataclass(frozen=True)
class Drawn:
    """Texts that are long enough, and what there was to draw from.

    Attributes:
        seen: texts that were gone through.
        longest: the length of the longest one that was measured.
    """

    texts: list[str]
    seen: int
    longest: int


def draw_long(
    texts: Iterable[str], measure: Measure, least: int, limit: int, seed: int | None, told: Callable[[int], None]
) -> Drawn:
    """As ``draw``, of texts of at least ``least``, remembering what to say where there is none."""
    seen = longest = 0

    def counted() -> Iterator[str]:
        nonlocal seen
        for text in texts:
            seen += 1
            yield text

    def enough(some: Sequence[str]) -> list[bool]:
        nonlocal longest
        lengths = measure(some)
        longest = max(longest, *lengths)
        return [length >= least for length in lengths]

    found = draw(counted(), enough, limit, seed, told)
    return Drawn(found, seen, longest)


def draw(texts: Iterable[str], enough: Enough, limit: int, seed: int | None, told: Callable[[int], None]) -> list[str]:
    """Up to ``limit`` texts among those that are long enough.

    A text is drawn by a digest of seed and text: the order of the texts, and how they are cut into files, does not
    matter, and no text is drawn twice. Only texts that would be drawn are looked at for their length, so that a large
    corpus is tokenized in small part; no more than ``limit`` texts and a batch are held.

    Args:
        texts: gone through once; with a seed to their end.
        enough: is asked of batches.
        limit: at least 1.
        seed: of the draw; None takes the first texts that are long enough instead.
        told: is told how many are found, again and again.

    Returns:
        In the order of their digests; the first ones in their own order.
    """
    rest = iter(texts)
    if seed is None:
        first: list[str] = []
        while len(first) < limit and (some := list(islice(rest, _READ_AT_ONCE))):
            first += _held(some, enough)
            told(min(len(first), limit))
        return first[:limit]
    drawn: list[tuple[int, str]] = []
    held: set[int] = set()
    batch: list[tuple[int, str]] = []
    for text in rest:
        key = _digest(text, seed)
        if len(drawn) < limit or key < -drawn[0][0]:
            batch.append((key, text))
        if len(batch) == _READ_AT_ONCE:
            _take(batch, enough, drawn, held, limit)
            batch = []
            told(len(drawn))
    _take(batch, enough, drawn, held, limit)
    told(len(drawn))
    return [text for _, text in sorted(drawn, reverse=True)]


def _take(
    batch: Sequence[tuple[int, str]], enough: Enough, drawn: list[tuple[int, str]], held: set[int], limit: int
) -> None:
    """Put those of a batch that are long enough on the heap, whose root has the largest digest, and let that go."""
    keys = dict(batch)
    fresh = [(key, text) for key, text in keys.items() if key not in held]
    for (key, text), is_long in zip(fresh, enough([text for _, text in fresh]) if fresh else (), strict=True):
        if not is_long:
            continue
        heapq.heappush(drawn, (-key, text))
        held.add(key)
        if len(drawn) > limit:
            held.discard(-heapq.heappop(drawn)[0])


def _held(texts: Sequence[str], enough: Enough) -> list[str]:
    return [text for text, is_long in zip(texts, enough(texts), strict=True) if is_long]


def _digest(text: str, seed: int) -> int:
    found = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, key=str(seed).encode())
    return int.from_bytes(found.digest(), "big")

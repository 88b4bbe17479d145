"""Which group a query belongs to: by the place of its evidence, by the length of its document. No torch, no mteb."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lmk_eval.analyses.errors import AnalysisError
from lmk_eval.analyses.figures.words import token_span
from lmk_eval.tasks.folder import FolderData

MOST_GROUPS = 24
"""Different values of a metadata key that still make a plot."""
_FEWEST = 128


@dataclass(frozen=True)
class Groups:
    """Groups in their order, and the queries of each."""

    labels: tuple[str, ...]
    members: tuple[tuple[str, ...], ...]
    source: str
    """Where the groups are from, in words."""


def position_groups(data: FolderData, key: str | None, bins: int) -> Groups | None:
    """Queries by where in the document their evidence stands.

    Args:
        data: the split.
        key: of the queries' metadata. Fractions (0 begin, 1 end) are put into ``bins`` bins, other values are groups
            themselves. None looks for the query's own text in its relevant document.
        bins: of equal width.

    Returns:
        None where no key is given and no query's text stands in its document.

    Raises:
        AnalysisError: if no query has the key, or it has too many different values.
    """
    if key is None:
        found = {query: place for query in data.queries if (place := _place_of(data, query)) is not None}
        if not found:
            return None
        return _by_fraction(found, bins, f"the place of the query's own text in its document ({len(found)} queries)")
    values = {query: one.metadata[key] for query, one in data.queries.items() if one.metadata.get(key) is not None}
    if not values:
        known = sorted({name for one in data.queries.values() for name in one.metadata})
        raise AnalysisError(
            f"position_key: no query of the split has the metadata key {key!r}; found: {', '.join(known) or 'none'}"
        )
    numbers = {query: float(value) for query, value in values.items() if _is_number(value)}
    if len(numbers) == len(values) and all(0 <= value <= 1 for value in numbers.values()) and _split(numbers):
        return _by_fraction(numbers, bins, f"the metadata key {key!r}")
    return _by_value({query: _word(value) for query, value in values.items()}, key)


def length_groups(lengths: Mapping[str, int]) -> Groups:
    """Queries by the tokens of their relevant document, in groups that double.

    Args:
        lengths: query id to tokens.
    """
    longest = max(lengths.values())
    edges = [0, _FEWEST]
    while edges[-1] < longest:
        edges.append(2 * edges[-1])
    members = [
        tuple(query for query, length in lengths.items() if low < max(length, 1) <= high)
        for low, high in pairwise(edges)
    ]
    labels = [token_span(low, high) for low, high in pairwise(edges)]
    return _groups(labels, members, "tokens of the longest relevant document")


def longest_relevant(data: FolderData, query: str) -> str:
    """The text of a query's longest relevant document, its title before it."""
    held = [data.documents[document] for document, score in data.relevant[query].items() if score > 0]
    return max((f"{title} {text}".strip() for title, text in held), key=len)


def _place_of(data: FolderData, query: str) -> float | None:
    """Where the query's text stands in its one relevant document, from 0 to 1."""
    held = [document for document, score in data.relevant[query].items() if score > 0]
    if len(held) != 1:
        return None
    document = " ".join(longest_relevant(data, query).split())
    wanted = " ".join(data.queries[query].text.split())
    start = document.find(wanted) if wanted else -1
    return None if start < 0 else (start + len(wanted) / 2) / len(document)


def _split(numbers: Mapping[str, float]) -> bool:
    """Whether there is a value between 0 and 1: 0 and 1 alone are rather names than fractions."""
    return any(0 < value < 1 for value in numbers.values())


def _by_fraction(places: Mapping[str, float], bins: int, source: str) -> Groups:
    if bins < 1:
        raise AnalysisError(f"bins: {bins}; valid: 1 or more")
    members: list[tuple[str, ...]] = []
    labels: list[str] = []
    for number in range(bins):
        members.append(tuple(query for query, place in places.items() if min(int(place * bins), bins - 1) == number))
        labels.append(f"{number / bins:.3g}–{(number + 1) / bins:.3g}")
    return _groups(labels, members, source)


def _by_value(values: Mapping[str, str], key: str) -> Groups:
    from lmk_eval.tasks.groups import sorted_values

    labels = sorted_values(set(values.values()))
    if len(labels) > MOST_GROUPS:
        raise AnalysisError(
            f"position_key: {key!r} has {len(labels)} different values; valid: up to {MOST_GROUPS}, or fractions "
            "from 0 to 1"
        )
    members = [tuple(query for query, value in values.items() if value == label) for label in labels]
    return _groups(labels, members, f"the metadata key {key!r}")


def _groups(labels: Sequence[str], members: Sequence[tuple[str, ...]], source: str) -> Groups:
    """Without groups that nobody is in."""
    held = [(label, own) for label, own in zip(labels, members, strict=True) if own]
    return Groups(tuple(label for label, _ in held), tuple(own for _, own in held), source)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)

"""Docstring and function pairs: which ones are kept, how modules are split, what the hard negatives are."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lmk_experiments.builders.sources import Function, first_paragraph

Split = Literal["train", "validation", "evaluation"]

QUERY_WORDS = (5, 60)
BODY_CHARACTERS = (80, 6000)

_GENERIC = re.compile(
    r"^(see |same as |alias |deprecated|returns? self|not implemented|overrid|implement(s|ation of) \w+\.?$"
    r"|this (method|function) is (deprecated|not )|dispatch to |abstract |internal |auto-?generated"
    r"|initiali[sz]e self)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A query, which is the first paragraph of a docstring, and the function it described."""

    query: str
    function: Function


def digest(text: str) -> int:
    """A number that depends on nothing but the text, to shuffle and split by."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def split_of(module: str, *, validation: float, evaluation: float) -> Split:
    """The split a module belongs to, from its dotted name alone, so that new packages move no module."""
    place = digest(f"split {module}") / 2**64
    if place < evaluation:
        return "evaluation"
    return "validation" if place < evaluation + validation else "train"


def drop_copies(functions: Iterable[Function]) -> list[Function]:
    """The functions whose body didn't occur before; a body of a few characters isn't called a copy."""
    seen: set[str] = set()
    kept = []
    for function in functions:
        body = function.body
        if len(body) >= BODY_CHARACTERS[0]:
            if body in seen:
                continue
            seen.add(body)
        kept.append(function)
    return kept


def find_pairs(functions: Iterable[Function]) -> list[Pair]:
    """The functions with a docstring that says what they do; a query that two functions share is dropped for both."""
    pairs = [pair for function in functions if (pair := _pair(function)) is not None]
    times = Counter(_plain(pair.query) for pair in pairs)
    return [pair for pair in pairs if times[_plain(pair.query)] == 1]


def _pair(function: Function) -> Pair | None:
    if not function.docstring or not BODY_CHARACTERS[0] <= len(function.body) <= BODY_CHARACTERS[1]:
        return None
    words = first_paragraph(function.docstring).split()
    query = " ".join(words[: QUERY_WORDS[1]])
    letters = sum(character.isalpha() for character in query)
    if len(words) < QUERY_WORDS[0] or letters < 0.7 * len(query) - len(words) or _GENERIC.match(query):
        return None
    return Pair(query, function)


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def training_rows(
    pairs: Iterable[Pair], functions: Mapping[str, list[Function]], *, negatives: int, characters: int
) -> list[dict[str, Any]]:
    """Rows of the FlagEmbedding form, shuffled; the negatives are other functions of the positive's module.

    Args:
        functions: by module, of the same split; where a module has too few, those of its package fill the row, then
            any.
        characters: passages are cut here; more than a training reads would only make a larger file.
    """
    members = (one for group in functions.values() for one in group if len(one.body) >= BODY_CHARACTERS[0])
    around: dict[str, list[str]] = defaultdict(list)  # by module, by package, and all of them by ""
    for function in sorted(members, key=lambda function: digest(f"negative {function.id}")):
        for place in {function.module, function.module.partition(".")[0], ""}:
            around[place].append(function.code[:characters])
    rows = []
    for pair in sorted(pairs, key=lambda pair: digest(f"row {pair.function.id}")):
        module, positive = pair.function.module, pair.function.code[:characters]
        chosen: dict[str, None] = {}  # a set that keeps its order
        for place in (module, module.partition(".")[0], ""):
            if len(chosen) < negatives:
                start = digest(pair.function.id) % len(around[place])
                chosen |= dict.fromkeys(_others(positive, around[place], start, negatives))
        rows.append({"query": pair.query, "pos": [positive], "neg": list(chosen)[:negatives]})
    return rows


def _others(positive: str, drawn: list[str], start: int, count: int) -> list[str]:
    """At most ``count`` texts of ``drawn`` from ``start`` on and round again, without the positive."""
    window = [drawn[(start + step) % len(drawn)] for step in range(min(len(drawn), count + 1))]
    return [text for text in window if text != positive][:count]

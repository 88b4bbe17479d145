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
        functions: by module, of the same split; where a module has too few, those of its package fill the row.
        characters: passages are cut here; more than a training reads would only make a larger file.
    """
    by_module: dict[str, list[Function]] = {}
    by_package: dict[str, list[Function]] = defaultdict(list)
    for module, members in functions.items():
        long_enough = [function for function in members if len(function.body) >= BODY_CHARACTERS[0]]
        by_module[module] = sorted(long_enough, key=lambda function: digest(f"negative {function.id}"))
        by_package[module.partition(".")[0]] += by_module[module]
    rows = []
    for pair in sorted(pairs, key=lambda pair: digest(f"row {pair.function.id}")):
        positive = pair.function
        chosen = _others(positive, by_module[positive.module], negatives)
        if len(chosen) < negatives:
            chosen += _others(positive, by_package[positive.module.partition(".")[0]], negatives - len(chosen))
        texts = [function.code[:characters] for function in chosen]
        rows.append({"query": pair.query, "pos": [positive.code[:characters]], "neg": texts})
    return rows


def _others(positive: Function, drawn: list[Function], count: int) -> list[Function]:
    """The ``count`` functions that come in ``drawn`` from a place on that depends on the positive."""
    start = digest(positive.id) % len(drawn)
    window = [drawn[(start + step) % len(drawn)] for step in range(min(len(drawn), count + 1))]
    return [function for function in window if function.id != positive.id][:count]

"""Documents of one length after another that ask the same questions: the evidence stays, what surrounds it grows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmk_experiments.builders.pairs import Pair, digest
from lmk_experiments.builders.retrieval import write_beir
from lmk_experiments.builders.sources import Function

if TYPE_CHECKING:
    from tokenizers import Tokenizer

QUARTERS = 4
FULL = 0.95
"""Modules that don't fill the longest document to this share are left out: quarters would not mean the same in all."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of code and its tokens; the tokenizer joins nothing across lines, so that counts add up."""

    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A module that has questions: in each quarter of its documents one function is asked for, or none.

    Attributes:
        evidence: the pairs by quarter, 0 to 3.
        others: the module's other functions in a drawn order, as lines; none of them is asked for.
    """

    module: str
    evidence: Mapping[int, Pair]
    others: tuple[tuple[Line, ...], ...]


def count_lines(functions: Iterable[Function], tokenizer: Tokenizer) -> dict[str, tuple[Line, ...]]:
    """Each function's lines with their tokens, by the function's id; special tokens are not counted."""
    members = list(functions)
    texts = [text for function in members for text in function.code.split("\n")]
    encoded = iter(tokenizer.encode_batch(texts, add_special_tokens=False))
    return {
        function.id: tuple(Line(text, len(next(encoded).ids)) for text in function.code.split("\n"))
        for function in members
    }


def asked_modules(
    modules: Mapping[str, Sequence[Function]],
    pairs: Iterable[Pair],
    lines: Mapping[str, tuple[Line, ...]],
    *,
    shortest: int,
    longest: int,
    least: int,
    count: int,
) -> list[Asked]:
    """At most ``count`` modules, chosen by a draw, whose functions fill the longest document without any repeated.

    Args:
        lines: of every function, see `count_lines`.
        shortest: tokens of the shortest document; a function that is asked for fits in its quarter.
        longest: tokens of the longest document.
        least: a module is asked for this many functions at least.
    """
    by_module: dict[str, list[Pair]] = {}
    for pair in sorted(pairs, key=lambda pair: digest(f"ask {pair.function.id}")):
        if tokens_of(lines[pair.function.id]) <= shortest // QUARTERS:
            by_module.setdefault(pair.function.module, []).append(pair)
    found: list[Asked] = []
    for module in sorted(by_module, key=lambda module: digest(f"long {module}")):
        chosen = by_module[module][:QUARTERS]
        if len(found) == count:
            break
        if len(chosen) < least:
            continue
        # From a drawn quarter on: with fewer questions than quarters no quarter is asked more than another.
        first = digest(f"quarter {module}") % QUARTERS
        evidence = {(first + place) % QUARTERS: pair for place, pair in enumerate(chosen)}
        taken = {pair.function.id for pair in chosen}
        others = [one for one in modules[module] if one.id not in taken]
        others.sort(key=lambda one: digest(f"around {one.id}"))
        asked = Asked(module, evidence, tuple(lines[one.id] for one in others))
        if sum(map(tokens_of, _parts(asked, lines, longest))) >= FULL * longest:
            found.append(asked)
    return found


def tokens_of(lines: Iterable[Line]) -> int:
    """The tokens of some lines together."""
    return sum(line.tokens for line in lines)


def document(asked: Asked, lines: Mapping[str, tuple[Line, ...]], tokens: int) -> str:
    """The module's document of at most ``tokens`` tokens: in each quarter its evidence, and functions around it.

    The functions around are taken one after another and put before and after the evidence by a draw; the one that ends
    a quarter is cut at a line, and goes on nowhere. A quarter is short of its tokens by less than a line, and the next
    one makes up for it, so that places stay true.
    """
    return "\n\n".join("\n".join(line.text for line in part) for part in _parts(asked, lines, tokens))


def _parts(asked: Asked, lines: Mapping[str, tuple[Line, ...]], tokens: int) -> list[tuple[Line, ...]]:
    others = iter(asked.others)
    placed: list[tuple[Line, ...]] = []
    filled = 0
    for quarter in range(QUARTERS):
        pair = asked.evidence.get(quarter)
        own = () if pair is None else lines[pair.function.id]
        room = tokens * (quarter + 1) // QUARTERS - filled - tokens_of(own)
        around: list[tuple[Line, ...]] = []
        while room > 0 and (other := next(others, None)) is not None:
            kept = _fitting(other, room)
            if kept:
                around.append(kept)
            room -= tokens_of(kept)
            if len(kept) < len(other):
                break
        # Where the evidence stands among them says nothing but the quarter: before the first, between two, or last.
        place = digest(f"place {tokens} {asked.module} {quarter}") % (len(around) + 1)
        parts = [*around[:place], own, *around[place:]] if own else around
        placed += parts
        filled += sum(map(tokens_of, parts))
    return placed


def _fitting(lines: Sequence[Line], room: int) -> tuple[Line, ...]:
    """The first lines that fit in ``room`` tokens together."""
    kept: list[Line] = []
    for line in lines:
        room -= line.tokens
        if room < 0:
            break
        kept.append(line)
    return tuple(kept)


def write_places(
    folder: Path, modules: Sequence[Asked], lines: Mapping[str, tuple[Line, ...]], *, tokens: int
) -> dict[str, int]:
    """Find the module that holds a function, in documents of ``tokens`` tokens.

    Returns:
        The number of queries by quarter, "1" to "4".
    """
    queries: list[dict[str, Any]] = []
    counts = dict.fromkeys("1234", 0)
    for asked in modules:
        for quarter, pair in sorted(asked.evidence.items()):
            name = str(quarter + 1)
            counts[name] += 1
            metadata = {"quarter": name, "module": asked.module, "function": pair.function.name}
            query = {"_id": f"q:{pair.function.id}", "text": pair.query, "metadata": metadata, "answer": asked.module}
            queries.append(query)
    corpus = ({"_id": one.module, "title": "", "text": document(one, lines, tokens)} for one in modules)
    write_beir(folder, corpus, queries)
    return counts

"""Queries that share no word with their passage: a docstring without the words of the function."""

from __future__ import annotations

import re

from lmk_experiments.builders.pairs import Pair

_LISTED = (
    "a all an and any are as at be been by can for from given had has have if in into is it its no not of on or per"
    " than that the then this to use used using via was were when which will with"
)
MEANINGLESS = frozenset(_LISTED.split())
"""Words that say nothing of what a function does; they stay in a query where its passage doesn't hold them."""

_NAME_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[a-z]+")
_ENDINGS = ("ations", "ation", "ings", "ing", "ies", "ers", "ion", "es", "ed", "er", "or", "s", "e", "y")
_STEM_LETTERS = 3


def words_of(text: str) -> list[str]:
    """The words of prose or code in lower case; names are split at ``camelCase``, ``snake_case`` and digits.

    >>> words_of("self.readHTTPFile_names2(x)")
    ['self', 'read', 'http', 'file', 'names', 'x']
    """
    return _WORD.findall(_NAME_BOUNDARY.sub(" ", text).lower())


def stem(word: str) -> str:
    """A word without its ending: forms of one word become equal, now and then those of two.

    >>> stem("parsing"), stem("parser"), stem("parses"), stem("entries"), stem("entry")
    ('pars', 'pars', 'pars', 'entr', 'entr')
    """
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM_LETTERS:
            return word[: -len(ending)]
    return word


def without_shared_words(query: str, passage: str) -> str:
    """The query without every word of which some form stands in the passage, in a name, a comment or a string.

    >>> without_shared_words("Read the names of files.", "def load(path): return readFile(path)")
    'the names of'
    """
    taken = {stem(word) for word in words_of(passage)}
    return " ".join(part for part in query.split() if not any(stem(word) in taken for word in words_of(part)))


def content_words(text: str) -> int:
    """How many different words of three letters or more say something."""
    return len({word for word in words_of(text) if len(word) >= _STEM_LETTERS} - MEANINGLESS)


def unshared(pair: Pair, *, words: int) -> Pair | None:
    """The pair with a query that shares no word with its function.

    Args:
        words: content words that must be left; with fewer there is no such pair, and None is returned.
    """
    query = without_shared_words(pair.query, pair.function.code)
    return Pair(query, pair.function) if content_words(query) >= words else None

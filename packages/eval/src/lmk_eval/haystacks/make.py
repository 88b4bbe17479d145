"""Long documents with one sentence to find, cut from any text: passkeys and needles as LongEmbed describes them.

For each length there are as many documents as LongEmbed has (100), each a piece of the text with one sentence put in at
a random place, and half as many queries, each about the sentence of one document. The wording is ours.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lmk_eval.haystacks import words

Kind = Literal["passkey", "needle"]
DOCUMENTS = 100
QUERIES = 50
CHARACTERS_A_TOKEN = 3.5
"""Of LongEmbed's own documents: 3.4 to 3.6, by MTEB's statistics of the passkey task."""
RECIPE = 1
"""Raised when the same text would give other documents."""
_ENDS = ".!?。！？"
_LOOK = 400
"""How far behind a random place the end of a sentence is looked for, in characters."""


@dataclass(frozen=True)
class Haystack:
    """The documents and queries of one length."""

    documents: Mapping[str, str]
    """Document id to text."""
    queries: Mapping[str, str]
    """Query id to question."""
    relevant: Mapping[str, str]
    """Query id to the id of the one document that answers it."""
    depths: Mapping[str, int]
    """Query id to the quarter of the document, 1 to 4, where the answer stands."""


def make_haystack(
    text: str, kind: Kind, length: int, characters_a_token: float = CHARACTERS_A_TOKEN, documents: int = DOCUMENTS
) -> Haystack:
    """Documents of about ``length`` tokens. The same arguments give the same documents, on every machine.

    Args:
        text: long, in any language; where it is shorter than a document it is repeated.
        kind: what is hidden.
        length: in tokens of ``characters_a_token`` characters, so that it is the same task for every model.
        characters_a_token: as above.
        documents: how many; every second one is asked for.

    Raises:
        ValueError: if there is no text, or the documents are too short for what is hidden.
    """
    draw = random.Random(f"{kind} {length} {RECIPE}")  # noqa: S311 - not for secrets
    characters = int(length * characters_a_token)
    text = " ".join(text.split())
    if not text:
        raise ValueError("there is no text to hide anything in")
    text += " " + text * (characters // len(text) + 1)
    pairs = [f"{first} {last}" for first in words.FIRST_NAMES for last in words.LAST_NAMES]
    names = draw.sample(pairs, documents)
    held, questions, depths = {}, {}, {}
    for number, name in enumerate(names):
        sentence, question = _hidden(kind, name, draw)
        if len(sentence) + 2 > characters:
            raise ValueError(f"{length} tokens of {characters_a_token} characters do not hold: {sentence}")
        held[f"d{number}"], place = _document(text, sentence, characters, draw)
        if number % 2 == 0:
            questions[f"q{number}"] = question
            depths[f"q{number}"] = min(int(4 * place), 3) + 1
    return Haystack(held, questions, {query: f"d{query[1:]}" for query in questions}, depths)


def _hidden(kind: Kind, name: str, draw: random.Random) -> tuple[str, str]:
    """A sentence about somebody, and the question for it."""
    if kind == "passkey":
        key = str(draw.randrange(10_000, 100_000))
        return words.PASSKEY.format(name=name, key=key), words.PASSKEY_QUESTION.format(name=name)
    sentence, question = draw.choice(words.FACTS)
    filled = {
        "name": name,
        "colour": draw.choice(words.COLOURS),
        "thing": draw.choice(words.THINGS),
        "place": draw.choice(words.PLACES),
    }
    return sentence.format(**filled), question.format(**filled)


def _document(text: str, sentence: str, characters: int, draw: random.Random) -> tuple[str, float]:
    """A piece of the text of this length with the sentence in it, and where it stands (0 to 1)."""
    room = characters - len(sentence) - 2
    start = draw.randrange(len(text) - room + 1)
    hay = text[start : start + room]
    place = _after_a_sentence(hay, draw.randrange(room + 1))
    before, after = hay[:place].rstrip(), hay[place:].lstrip()
    return " ".join(part for part in (before, sentence, after) if part), place / max(room, 1)


def _after_a_sentence(text: str, place: int) -> int:
    """The end of the sentence at ``place``; else of the word there, else ``place`` itself."""
    window = text[place : place + _LOOK]
    ends = [window.find(end) for end in _ENDS if end in window]
    if ends:
        return place + min(ends) + 1
    space = window.find(" ")
    return place + max(space, 0)

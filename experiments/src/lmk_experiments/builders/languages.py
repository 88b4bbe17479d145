"""Which language a published file of BGE-M3's data is in: one file a language is how the paper's mixture names them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from lmk_train.data import DataError

LANGUAGES = {
    "ar": "arabic",
    "bn": "bengali",
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fa": "farsi",
    "fi": "finnish",
    "fr": "french",
    "hi": "hindi",
    "id": "indonesian",
    "it": "italian",
    "ja": "japanese",
    "ko": "korean",
    "pt": "portuguese",
    "ru": "russian",
    "sw": "swahili",
    "te": "telugu",
    "th": "thai",
    "zh": "chinese",
}
"""The 19 languages of the mixture: those of MIRACL's, Mr.TyDi's and MLDR's training sets."""

DATA_SETS = {
    "en": ("msmarco", "nq", "hotpotqa", "triviaqa", "trivia", "squad", "coliee", "pubmedqa", "nli"),
    "zh": ("dureader", "mmarco-zh", "t2ranking", "law-gpt", "lawgpt", "cmedqav2", "nli-zh", "lecardv2"),
}
"""Data sets that are in one language."""

BY_ROW = "*"
"""In place of a file's language: each row says its own, under `language` or `lang`."""

_OTHER_NAMES = {"persian": "fa", "farsi": "fa"}


def assigned(files: Mapping[Path, tuple[str, ...]], patterns: list[str] | tuple[str, ...]) -> dict[Path, str]:
    """The language of each file: by the first pattern that its path matches, by its name or a folder's, or by row.

    Args:
        files: each with its name and those of its folders, as far as they say something.
        patterns: ``PATTERN=CODE``.

    Raises:
        ValueError: a pattern is none, or names another language.
    """
    wanted = [_pattern(text) for text in patterns]
    found = {}
    for file, parts in files.items():
        match = next(
            (code for pattern, code in wanted if fnmatch(str(file), pattern) or fnmatch(file.name, pattern)), None
        )
        found[file] = match or _by_name(parts) or BY_ROW
    return found


def language_of(record: Any, file: Path, number: int) -> str:
    """The language that a row says it is in.

    Raises:
        DataError: it says none of the mixture's.
    """
    said = next((record[key] for key in ("language", "lang") if isinstance(record.get(key), str)), None)
    code = None if said is None else _code(said)
    if code is None:
        found = (
            "neither its path nor its rows say its language" if said is None else f"the language {said!r} is not known"
        )
        known = ", ".join(LANGUAGES)
        raise DataError(
            file, number, f"{found}; say it with --language PATTERN=CODE, as '*miracl_ar*=ar'; valid: {known}"
        )
    return code


def _pattern(text: str) -> tuple[str, str]:
    pattern, equals, code = text.rpartition("=")
    if not equals or not pattern or (code not in LANGUAGES and code != BY_ROW):
        known = ", ".join(LANGUAGES)
        raise ValueError(f"--language {text}: PATTERN=CODE is expected, as '*miracl_ar*=ar'; valid codes: {known}")
    return pattern, code


def _by_name(parts: tuple[str, ...]) -> str | None:
    """The language that the file's name says, or else the nearest folder's."""
    for part in reversed(parts):
        name = part.lower()
        for code, data_sets in DATA_SETS.items():
            # The longer name first: nli-zh is not nli.
            if any(name.startswith(one) and not name[len(one) :][:1].isalnum() for one in data_sets) and not (
                code == "en" and re.match(r"(nli|mmarco)[-_]zh", name)
            ):
                return code
        codes = {code for word in re.split(r"[^a-z0-9]+", name) if (code := _code(word))}
        if len(codes) == 1:
            return codes.pop()
    return None


def _code(word: str) -> str | None:
    word = word.lower()
    if word in LANGUAGES:
        return word
    by_name = {**{name: code for code, name in LANGUAGES.items()}, **_OTHER_NAMES}
    return by_name.get(word)

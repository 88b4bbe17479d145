"""Splitting a text into sentences before it is tokenized, losing nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

SentenceSplitter = Callable[[str], list[str]]


class SentenceSplitterError(ValueError):
    """There is no splitter, or a splitter returned what is not in the text."""


@dataclass(frozen=True)
class SentencexSplitter:
    """The splitter of the `sentencex` package, for one language. It can be pickled, for workers that load data."""

    language: str = "en"
    """An ISO 639-1 code; `sentencex` knows many, and takes a similar language for one it does not."""

    def __post_init__(self) -> None:
        _segment()

    def __call__(self, text: str) -> list[str]:
        """The sentences of ``text``."""
        return list(_segment()(self.language, text))


@dataclass(frozen=True)
class UnsavedSplitter:
    """Stands for a splitter that was somebody's own function when the model was saved, which no file can hold."""

    model: str
    """The model's folder or name, for the message."""

    def __call__(self, text: str) -> list[str]:  # noqa: ARG002
        """Split nothing.

        Raises:
            SentenceSplitterError: always.
        """
        raise SentenceSplitterError(
            f"{self.model}: was saved with a sentence splitter of its own, and the sentences of another one would give "
            "other vectors; pass that function: Embedder.from_pretrained(..., sentence_splitter=...)"
        )


def splitter_to_text(splitter: SentenceSplitter) -> str:
    """How a saved model names its splitter: ``sentencex:<language>``, or ``custom`` for any other function."""
    return f"sentencex:{splitter.language}" if isinstance(splitter, SentencexSplitter) else "custom"


def splitter_from_text(text: str, model: str) -> SentenceSplitter:
    """The splitter that `splitter_to_text` named; for ``custom`` one that raises when it is used.

    Raises:
        SentenceSplitterError: if the text names no splitter, or `sentencex` is not installed.
    """
    if text == "custom":
        return UnsavedSplitter(model)
    kind, _, language = text.partition(":")
    if kind != "sentencex" or not language:
        raise SentenceSplitterError(
            f"{model}: sentence_splitter: {text!r}; valid: sentencex:<language>, such as sentencex:en, or custom"
        )
    return SentencexSplitter(language)


def _segment() -> Callable[[str, str], Iterable[str]]:
    try:
        from sentencex import segment  # ty: ignore[missing-module-member]
    except ImportError as error:
        raise SentenceSplitterError(
            "granularity 'sentence' needs a sentence splitter: pip install 'lmk-core[sentences]', "
            "or pass sentence_splitter=, a function from a text to its sentences"
        ) from error
    return segment


def sentence_pieces(text: str, splitter: SentenceSplitter) -> list[tuple[int, int]]:
    """Cut ``text`` into consecutive pieces (start, end), one for each sentence.

    The pieces cover the text: the white space between two sentences belongs to the second one, as most tokenizers
    join it to the following word, and a sentence of white space alone is no piece of its own. A splitter may strip
    its sentences, but not change them. There is always at least one piece.

    Raises:
        SentenceSplitterError: if the splitter returns something that does not follow in the text.
    """
    ends, position = [], 0
    for sentence in splitter(text):
        core = sentence.strip()
        if not core:
            continue
        found = text.find(core, position)
        if found < 0 or text[position:found].strip():
            raise SentenceSplitterError(
                f"the sentence splitter returned {core[:60]!r}, which does not follow at character {position} of the "
                "text; it may strip sentences, but not change, drop or reorder them"
            )
        position = found + len(core)
        ends.append(position)
    if not ends:
        return [(0, len(text))]
    if text[position:].strip():
        ends.append(len(text))
    ends[-1] = len(text)
    return list(zip([0, *ends[:-1]], ends, strict=True))

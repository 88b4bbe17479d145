"""From what a user gives (texts, pairs, prompts) to `TokenizedTexts`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmk_core.texts.ragged import Ints, to_bounds
from lmk_core.texts.tokenized import TokenizedTexts
from lmk_core.texts.tokenizing import tokenize_texts

Text = str | tuple[str, str] | list[str]
"""A text, or a pair of texts that become one vector."""
PiecesOf = Callable[[str], list[tuple[int, int]]]
"""Cuts a text into consecutive pieces (start, end), at least one."""


def read_texts(
    tokenizer: Any,
    texts: list[Text],
    *,
    limit: int | None,
    with_offsets: bool = False,
    pieces_of: PiecesOf | None = None,
    prompts: list[str] | None = None,
    include_prompt: bool = True,
) -> TokenizedTexts:
    """Tokenize texts, and pairs of texts, in one call of the tokenizer.

    Args:
        tokenizer: a tokenizer of transformers.
        texts: texts, and pairs of texts.
        limit: how many tokens of a text are kept at most.
        with_offsets: also give the characters of each token.
        pieces_of: cuts each text into pieces that are tokenized alone; without it a text is one piece.
        prompts: a prefix of each text; of a pair's first one.
        include_prompt: whether the prompts' tokens may be pooled.
    """
    plain = texts if prompts is None else [_prefixed(*both) for both in zip(prompts, texts, strict=True)]
    whole = [text for text in plain if isinstance(text, str)]
    if pieces_of is None and len(whole) == len(plain):
        ids, lengths, offsets = tokenize_texts(tokenizer, whole, limit, with_offsets)
        read = TokenizedTexts(ids, to_bounds(lengths), offsets=offsets, limit=limit)
    else:
        read = _read_pieces(tokenizer, plain, limit, with_offsets, pieces_of)
    if prompts is None:
        return read
    if read.offsets is not None:
        shift = np.repeat(np.array([len(prompt) for prompt in prompts], dtype=np.int32), read.lengths)
        read = replace(read, offsets=np.maximum(read.offsets - shift[:, None], 0))
    return read if include_prompt else replace(read, unpooled=_prompt_tokens(tokenizer, prompts, limit))


def _prefixed(prompt: str, text: Text) -> Text:
    return prompt + text if isinstance(text, str) else (prompt + text[0], text[1])


def _prompt_tokens(tokenizer: Any, prompts: list[str], limit: int | None) -> Ints:
    """[texts] the tokens of each prompt alone, which is how Sentence Transformers counts them."""
    different = list(dict.fromkeys(prompts))
    _, lengths, _ = tokenize_texts(tokenizer, different, limit)
    found = dict(zip(different, lengths.tolist(), strict=True))
    return np.array([found[prompt] for prompt in prompts], dtype=np.int64)


def _read_pieces(
    tokenizer: Any, texts: list[Text], limit: int | None, with_offsets: bool, pieces_of: PiecesOf | None
) -> TokenizedTexts:
    """Each piece is tokenized alone, all of them in one call; a text's pieces stand one behind the other."""
    cut = pieces_of or (lambda text: [(0, len(text))])
    pieces = [[(part, cut(part)) for part in ([text] if isinstance(text, str) else text)] for text in texts]
    flat = [part[start:end] for parts in pieces for part, spans in parts for start, end in spans]
    # Which of a pair's texts is cut depends on which one is longer, so pairs are kept whole.
    ids, lengths, offsets = tokenize_texts(tokenizer, flat, limit if pieces_of else None, with_offsets)
    piece_bounds = to_bounds(np.array([sum(len(spans) for _, spans in parts) for parts in pieces], dtype=np.int64))
    token_bounds = to_bounds(lengths)
    bounds = token_bounds[piece_bounds]
    if offsets is not None:
        offsets = offsets + np.repeat(_piece_starts(pieces), lengths)[:, None]
    seconds = None
    if any(len(parts) == 2 for parts in pieces):
        firsts = np.array([len(parts[0][1]) if len(parts) == 2 else -1 for parts in pieces], dtype=np.int64)
        where = token_bounds[piece_bounds[:-1] + np.maximum(firsts, 0)] - bounds[:-1]
        seconds = np.where(firsts < 0, -1, where)
    read = TokenizedTexts(ids, bounds, offsets=offsets, limit=limit, seconds=seconds)
    if pieces_of is None:
        return read
    ends = token_bounds[1:] - np.repeat(bounds[:-1], np.diff(piece_bounds))
    return replace(read, pieces=ends, piece_bounds=piece_bounds)


def _piece_starts(pieces: Sequence[Sequence[tuple[str, list[tuple[int, int]]]]]) -> NDArray[np.int32]:
    """[pieces] where each begins, in characters of its own text, a pair's two texts counted as one."""
    starts = []
    for parts in pieces:
        before = 0
        for part, spans in parts:
            starts += [before + start for start, _ in spans]
            before += len(part)
    return np.array(starts, dtype=np.int32)


def checked_texts_and_pairs(texts: Sequence[Any]) -> list[Text]:
    """The texts and pairs as a list.

    Raises:
        TypeError: if they are one string, or one of them is neither a string nor two strings.
    """
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"texts: expected a list of strings, found one {type(texts).__name__}; pass [text]")
    texts = list(texts)
    for index, text in enumerate(texts):
        check_text(text, index)
    return texts


def check_text(text: object, index: int) -> None:
    """Refuse what is neither a text nor a pair of texts.

    Raises:
        TypeError: with its index.
    """
    if isinstance(text, str):
        return
    if not isinstance(text, (tuple, list)) or len(text) != 2 or not all(isinstance(part, str) for part in text):
        raise TypeError(f"texts[{index}]: expected a string or a pair of strings, found {_described(text)}")


def _described(text: object) -> str:
    name = type(text).__name__
    if not isinstance(text, (tuple, list)):
        return name
    return f"a {name} of " + (" and ".join(type(part).__name__ for part in text) if len(text) == 2 else str(len(text)))


def checked_prompts(prompt: str | Sequence[Any] | None, num_texts: int) -> list[str] | None:
    """One prompt for each text; None where there is none at all.

    Raises:
        TypeError: if a prompt is no string.
        ValueError: if there are more or fewer prompts than texts.
    """
    if prompt is None or isinstance(prompt, str):
        return [prompt] * num_texts if prompt else None
    prompts = list(prompt)
    if len(prompts) != num_texts:
        raise ValueError(f"prompt: {len(prompts)} prompts for {num_texts} texts; give one, or one for each text")
    for index, own in enumerate(prompts):
        if not isinstance(own, str):
            raise TypeError(f"prompt[{index}]: expected a string, found {type(own).__name__}")
    return prompts if any(prompts) else None

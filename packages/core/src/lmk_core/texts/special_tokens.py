"""The special tokens a layout uses, taken from the tokenizer (never from a model's config, which may be wrong)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class SpecialTokensError(ValueError):
    """A tokenizer that lacks a special token the layout cannot do without."""


@dataclass(frozen=True)
class SpecialTokens:
    """Ids of the special tokens of a layout."""

    first: int | None
    """CLS, or BOS where there is no CLS; None where there is neither: then a layout starts with the text."""
    landmark: int
    """SEP, or EOS where there is no SEP: ends a plain text, and is the landmark."""
    pad: int
    """PAD, or EOS, or 0. Its id never decides what is attended or pooled."""
    between: int = 1
    """How many SEP stand between the two texts of a pair: one, or two as XLM-RoBERTa has it."""

    @classmethod
    def from_tokenizer(cls, tokenizer: Any) -> SpecialTokens:
        """Take the ids from a tokenizer of transformers.

        Raises:
            SpecialTokensError: if the tokenizer has neither SEP nor EOS, or one of its special tokens is named but is
                not in its vocabulary.
        """
        landmark = _first_known(tokenizer, "sep_token", "eos_token")
        if landmark is None:
            raise SpecialTokensError(
                f"the tokenizer {_name(tokenizer)!r} has neither a SEP nor an EOS token, so it has no landmark; "
                "set tokenizer.sep_token (or pass sep_token= when loading it)"
            )
        pad = _first_known(tokenizer, "pad_token", "eos_token")
        added = tokenizer.num_special_tokens_to_add(True) - tokenizer.num_special_tokens_to_add(False)
        return cls(
            first=_first_known(tokenizer, "cls_token", "bos_token"),
            landmark=landmark,
            pad=0 if pad is None else pad,
            between=min(max(added, 1), 2),
        )


def _first_known(tokenizer: Any, *names: str) -> int | None:
    for name in names:
        token, number = getattr(tokenizer, name), getattr(tokenizer, f"{name}_id")
        if token is None:
            continue
        if number is None or (number == tokenizer.unk_token_id and token != tokenizer.unk_token):
            raise SpecialTokensError(
                f"the tokenizer {_name(tokenizer)!r}: {name}: {token!r} is not in its vocabulary; "
                f"set tokenizer.{name} to a token that is (or pass {name}= when loading it)"
            )
        return number
    return None


def _name(tokenizer: Any) -> str:
    return getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__

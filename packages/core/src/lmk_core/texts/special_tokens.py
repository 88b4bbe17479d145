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

    @classmethod
    def from_tokenizer(cls, tokenizer: Any) -> SpecialTokens:
        """Take the ids from a tokenizer of transformers.

        Raises:
            SpecialTokensError: if the tokenizer has neither SEP nor EOS.
        """
        landmark = _first_known(tokenizer.sep_token_id, tokenizer.eos_token_id)
        if landmark is None:
            name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
            raise SpecialTokensError(
                f"the tokenizer {name!r} has neither a SEP nor an EOS token, so it has no landmark; "
                "set tokenizer.sep_token (or pass sep_token= when loading it)"
            )
        first = _first_known(tokenizer.cls_token_id, tokenizer.bos_token_id)
        pad = _first_known(tokenizer.pad_token_id, tokenizer.eos_token_id, 0)
        return cls(first, landmark, 0 if pad is None else pad)


def _first_known(*ids: int | None) -> int | None:
    return next((token for token in ids if token is not None), None)

"""Passkey and needle tasks made from any long text, at any length. Making them imports neither mteb nor torch."""

from typing import TYPE_CHECKING

from lmk_eval._lazy import lazy_exports
from lmk_eval.haystacks.make import Haystack, make_haystack

if TYPE_CHECKING:
    from lmk_eval.haystacks.task import LocalHaystack

__all__ = ["Haystack", "LocalHaystack", "make_haystack"]

__getattr__, __dir__ = lazy_exports(__name__, {"LocalHaystack": "lmk_eval.haystacks.task"})

"""How MTEB sees an embedding model: `EmbedderEncoder` around anything that encodes texts."""

from typing import TYPE_CHECKING

from lmk_eval._lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_eval.encoders.adapter import EmbedderEncoder, TextEncoder

__all__ = ["EmbedderEncoder", "TextEncoder"]

__getattr__, __dir__ = lazy_exports(
    __name__, {"EmbedderEncoder": "lmk_eval.encoders.adapter", "TextEncoder": "lmk_eval.encoders.adapter"}
)

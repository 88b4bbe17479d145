"""How MTEB sees an embedding model: `EmbedderEncoder` around anything that encodes texts."""

from typing import TYPE_CHECKING

from lmk_eval._lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_eval.encoders.adapter import EmbedderEncoder, Store
    from lmk_eval.encoders.encoding import TextEncoder
    from lmk_eval.encoders.prompts import PromptError, Prompts

__all__ = ["EmbedderEncoder", "PromptError", "Prompts", "Store", "TextEncoder"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "EmbedderEncoder": "lmk_eval.encoders.adapter",
        "PromptError": "lmk_eval.encoders.prompts",
        "Prompts": "lmk_eval.encoders.prompts",
        "Store": "lmk_eval.encoders.adapter",
        "TextEncoder": "lmk_eval.encoders.encoding",
    },
)

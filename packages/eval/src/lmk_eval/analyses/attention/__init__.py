"""Figure 2: where in a document the pooling tokens look."""

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_eval.analyses.attention.profile import analyse_attention
    from lmk_eval.analyses.attention.rows import attention_rows, mean_attention

__all__ = ["analyse_attention", "attention_rows", "mean_attention"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "analyse_attention": "lmk_eval.analyses.attention.profile",
        "attention_rows": "lmk_eval.analyses.attention.rows",
        "mean_attention": "lmk_eval.analyses.attention.rows",
    },
)

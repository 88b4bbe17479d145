"""Rows on disk to batches of tensors, every draw a function of the seed, the epoch and the row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_train.data.batches import BatchOrder, ExampleDataset
    from lmk_train.data.collate import Batch, Collator
    from lmk_train.data.draws import Example, draw_example
    from lmk_train.data.errors import DataError
    from lmk_train.data.module import ContrastiveData
    from lmk_train.data.rows import Row, RowFile, Rows

__all__ = [
    "Batch",
    "BatchOrder",
    "Collator",
    "ContrastiveData",
    "DataError",
    "Example",
    "ExampleDataset",
    "Row",
    "RowFile",
    "Rows",
    "draw_example",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Batch": ".collate",
        "BatchOrder": ".batches",
        "Collator": ".collate",
        "ContrastiveData": ".module",
        "DataError": ".errors",
        "Example": ".draws",
        "ExampleDataset": ".batches",
        "Row": ".rows",
        "RowFile": ".rows",
        "Rows": ".rows",
        "draw_example": ".draws",
    },
)

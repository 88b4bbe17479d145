"""Rows on disk to batches, every draw a function of the seed, the epoch and the row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_train.data.collate import Batch, Collator
    from lmk_train.data.errors import DataError
    from lmk_train.data.examples import Example, ExampleDataset, TrainingSet
    from lmk_train.data.module import ContrastiveData
    from lmk_train.data.reading import Findings, Row, Rows
    from lmk_train.data.sampling import BatchOrder, RowKey

__all__ = [
    "Batch",
    "BatchOrder",
    "Collator",
    "ContrastiveData",
    "DataError",
    "Example",
    "ExampleDataset",
    "Findings",
    "Row",
    "RowKey",
    "Rows",
    "TrainingSet",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Batch": ".collate",
        "BatchOrder": ".sampling",
        "Collator": ".collate",
        "ContrastiveData": ".module",
        "DataError": ".errors",
        "Example": ".examples",
        "ExampleDataset": ".examples",
        "Findings": ".reading",
        "Row": ".reading",
        "RowKey": ".sampling",
        "Rows": ".reading",
        "TrainingSet": ".examples",
    },
)

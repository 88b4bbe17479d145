"""Published data by name: ``data:msmarco-passage`` in a config. A plan needs only its declaration, a run its files."""

from lmk_experiments.datasets.declared import DataSet, MeanTokens, load_data_set
from lmk_experiments.datasets.references import (
    DATA_VARIABLE,
    MANIFEST,
    PREFIX,
    DataSetMissing,
    data_files,
    data_identity,
    data_path,
    is_data_reference,
    mirrors_folder,
    parse_reference,
)

__all__ = [
    "DATA_VARIABLE",
    "MANIFEST",
    "PREFIX",
    "DataSet",
    "DataSetMissing",
    "MeanTokens",
    "data_files",
    "data_identity",
    "data_path",
    "is_data_reference",
    "load_data_set",
    "mirrors_folder",
    "parse_reference",
]

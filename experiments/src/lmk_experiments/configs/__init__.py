"""YAML files with errors that name the file, the line, the key and the valid values."""

from lmk_experiments.configs.document import Document, Layers, load_document, parse_assignment
from lmk_experiments.configs.errors import ConfigError, Problem, explain, suggest
from lmk_experiments.configs.shipped import find_file, shipped_folder, shipped_names
from lmk_experiments.configs.validation import validate

__all__ = [
    "ConfigError",
    "Document",
    "Layers",
    "Problem",
    "explain",
    "find_file",
    "load_document",
    "parse_assignment",
    "shipped_folder",
    "shipped_names",
    "suggest",
    "validate",
]

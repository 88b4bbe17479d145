"""YAML files with errors that name the file, the line, the key and the valid values."""

from lmk_experiments.configs.document import Document, Layers, load_document, parse_assignment
from lmk_experiments.configs.errors import ConfigError, Problem, explain, in_yaml, suggest, without_key
from lmk_experiments.configs.reading import YamlError, read_yaml
from lmk_experiments.configs.section import Section
from lmk_experiments.configs.shipped import find_file, shipped_folder, shipped_names
from lmk_experiments.configs.validation import REQUIRED, validate

__all__ = [
    "REQUIRED",
    "ConfigError",
    "Document",
    "Layers",
    "Problem",
    "Section",
    "YamlError",
    "explain",
    "find_file",
    "in_yaml",
    "load_document",
    "parse_assignment",
    "read_yaml",
    "shipped_folder",
    "shipped_names",
    "suggest",
    "validate",
    "without_key",
]

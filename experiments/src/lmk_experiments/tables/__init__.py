"""A grid's results as a table. Importing this package imports neither torch nor mlflow."""

from lmk_experiments.tables.collect import collect, default_spec, grid_spec, grid_table
from lmk_experiments.tables.markdown import render_markdown
from lmk_experiments.tables.source import Origin, Source, load_source
from lmk_experiments.tables.spec import Column, Row, TableSpec, TableSpecError
from lmk_experiments.tables.table import Table, TableCell, TableRow, disagreements

__all__ = [
    "Column",
    "Origin",
    "Row",
    "Source",
    "Table",
    "TableCell",
    "TableRow",
    "TableSpec",
    "TableSpecError",
    "collect",
    "default_spec",
    "disagreements",
    "grid_spec",
    "grid_table",
    "load_source",
    "render_markdown",
]

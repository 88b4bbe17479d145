"""A grid's results as a table. Importing this package imports neither torch nor mlflow."""

from lmk_experiments.tables.collect import assemble, collect, grid_table, published_table
from lmk_experiments.tables.formats import FORMATS, render, render_markdown
from lmk_experiments.tables.given import default_spec, grid_spec, has_baseline
from lmk_experiments.tables.per_task import published_task_tables, task_tables
from lmk_experiments.tables.published import Published, load_published
from lmk_experiments.tables.significance import Comparing
from lmk_experiments.tables.source import Origin, Source, load_source
from lmk_experiments.tables.spec import Column, LabelColumn, Row, TableSpec, TableSpecError
from lmk_experiments.tables.table import Comparison, Significance, Table, TableCell, TableRow, disagreements

__all__ = [
    "FORMATS",
    "Column",
    "Comparing",
    "Comparison",
    "LabelColumn",
    "Origin",
    "Published",
    "Row",
    "Significance",
    "Source",
    "Table",
    "TableCell",
    "TableRow",
    "TableSpec",
    "TableSpecError",
    "assemble",
    "collect",
    "default_spec",
    "disagreements",
    "grid_spec",
    "grid_table",
    "has_baseline",
    "load_published",
    "load_source",
    "published_table",
    "published_task_tables",
    "render",
    "render_markdown",
    "task_tables",
]

"""What a table shows: its columns, its rows and its notes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from lmk_experiments.configs import Section, explain


class TableSpecError(ValueError):
    """A table asks for what is not there; ``key`` is the place in its spec, the message lists what is valid."""

    def __init__(self, message: str, key: str | None = None) -> None:
        self.key = key
        super().__init__(message)


class Column(Section):
    """One column: a score of a suite, or the mean of other columns."""

    title: str = Field(min_length=1)
    """What stands above the column."""
    group: str | tuple[str, ...] | None = None
    """A header that spans neighbouring columns of the same group; several from the outermost to the innermost."""
    detail: str | None = None
    """A second line under the title, such as the number of tasks."""
    unit: str | None = None
    """A last line under the title: what is measured, such as `NDCG@10`."""
    suite: str | None = None
    """The suite whose scores are shown."""
    task: str | tuple[str, ...] | None = None
    """One task of the suite; several tasks or none (all of them) give their mean."""
    metric: str = "main_score"
    """The metric of the task; `main_score` is the one the task names itself."""
    mean_of: tuple[str, ...] | None = None
    """Titles of other columns (or `group/title`); the column is their mean, without `suite`, `task` and `metric`."""
    published: str | None = None
    """Only of a mean: what the file of published numbers calls it in `suite`; without, its published columns' mean."""
    digits: int = Field(default=1, ge=0, le=10)
    """Digits after the point."""
    scale: float = Field(default=100.0, allow_inf_nan=False)
    """What the score is multiplied by; a mean of columns is not multiplied again."""
    best: Literal["max", "min", "none"] = "max"
    """Which end of the column is marked as best."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The spanning headers above the title, from the outermost to the innermost."""
        return (self.group,) if isinstance(self.group, str) else self.group or ()

    @property
    def name(self) -> str:
        """`group/title`, or the title where there is no group."""
        return "/".join((*self.groups, self.title))

    @model_validator(mode="after")
    def _score_or_mean(self) -> Column:
        if (self.suite is None) == (self.mean_of is None):
            raise TableSpecError(f"column {self.name!r} needs `suite` or `mean_of`, and not both")
        if self.mean_of is not None:
            extra = sorted(self.model_fields_set & {"task", "metric", "scale"})
            if extra:
                raise TableSpecError(f"column {self.name!r} is a mean of columns, so it has no `{extra[0]}`", extra[0])
            if not self.mean_of:
                raise TableSpecError(f"column {self.name!r} is the mean of no column", "mean_of")
        elif self.published is not None:
            raise TableSpecError(f"column {self.name!r} is no mean, so it has no `published`", "published")
        if self.task == ():
            raise TableSpecError(f"column {self.name!r} lists no task; leave `task` out for all of them", "task")
        return self


class LabelColumn(Section):
    """One of the columns on the left that say what a row is."""

    title: str = Field(min_length=1)
    """What stands above the column."""
    group: str | None = None
    """A header that spans neighbouring label columns of the same group."""


class Row(Section):
    """One row, by its name in the grid."""

    row: str
    """The row's name in the grid."""
    title: str | None = None
    """What stands in the first column instead of the name."""
    labels: tuple[str, ...] | None = None
    """What stands in the label columns; of a shorter list the last one spans the columns that are left."""
    rule: bool = False
    """Whether a line is drawn above this row; equal labels are not merged across it."""
    baseline: bool | None = None
    """Whether the others' differences are taken from this row; the grid says so by default."""


def _as_row(value: Any) -> Any:
    return {"row": value} if isinstance(value, str) else value


class TableSpec(Section):
    """A table over the rows of a grid. The baseline is the grid's own."""

    title: str | None = None
    """The table's heading; the grid's title by default."""
    columns: tuple[Column, ...] = Field(min_length=1)
    """The columns, from left to right."""
    rows: tuple[Annotated[Row, BeforeValidator(_as_row)], ...] | None = None
    """The rows to show, in this order; all rows of the grid in its order by default. A name alone will do."""
    labels: tuple[LabelColumn, ...] = ()
    """The label columns; every row then has `labels`. One column with the rows' names by default."""
    pivot: str | None = None
    """Title of the label column whose values become columns: rows that agree in the other labels are one line."""
    within: str | None = None
    """Title of the label column whose values are compared apart: best, second and differences count within each."""
    differences: bool = False
    """Whether the difference to the baseline stands beside each value."""
    notes: tuple[str, ...] = ()
    """Sentences under the table."""

    @model_validator(mode="after")
    def _names_fit(self) -> TableSpec:
        names = [column.name for column in self.columns]
        double = next((name for name in names if names.count(name) > 1), None)
        if double is not None:
            raise TableSpecError(f"two columns are called {double!r}; give one another title or group", "columns")
        for column in self.columns:
            for name in column.mean_of or ():
                self.averaged(name)
        rows = [row.row for row in self.rows or ()]
        twice = next((row for row in rows if rows.count(row) > 1), None)
        if twice is not None:
            raise TableSpecError(f"row {twice!r} is listed twice", "rows")
        return self

    @model_validator(mode="after")
    def _labels_fit(self) -> TableSpec:
        titles = [label.title for label in self.labels]
        for index, row in enumerate(self.rows or ()):
            found = len(row.labels or ())
            if (found == 0) != (not titles) or found > len(titles):
                wanted = f"1 to {len(titles)} labels" if titles else "no labels, for the table has no label columns"
                raise TableSpecError(f"rows[{index}]: row {row.row!r} has {found} labels, must have {wanted}", "rows")
        if titles and self.rows is None:
            raise TableSpecError("label columns need `rows`, each with its labels", "labels")
        for key, title in (("pivot", self.pivot), ("within", self.within)):
            if title is not None and titles.count(title) != 1:
                problem = "is the title of several label columns" if title in titles else "is no label column"
                raise TableSpecError(f"{key}: {title!r} {problem}; {explain(title, titles)}", key)
        return self

    def label_index(self, title: str) -> int:
        """The place of the label column called ``title``."""
        return [label.title for label in self.labels].index(title)

    def averaged(self, name: str) -> int:
        """The index of the column that a ``mean_of`` calls ``name``.

        Raises:
            TableSpecError: there is no such column of scores, or two have this title.
        """
        scores = {index: column for index, column in enumerate(self.columns) if column.mean_of is None}
        found = [index for index, column in scores.items() if name in (column.name, column.title)]
        exact = [index for index in found if scores[index].name == name]
        if len(exact or found) == 1:
            return (exact or found)[0]
        valid = [column.name for column in scores.values()]
        problem = "is the title of several columns" if found else "is no column of scores"
        raise TableSpecError(f"mean_of: {name!r} {problem}; {explain(name, valid)}", "columns")

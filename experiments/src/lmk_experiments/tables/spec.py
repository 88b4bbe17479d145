"""What a table shows: its columns, its rows and its notes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from lmk_experiments.configs import explain


class TableSpecError(ValueError):
    """A table asks for what is not there; ``key`` is the place in its spec, the message lists what is valid."""

    def __init__(self, message: str, key: str | None = None) -> None:
        self.key = key
        super().__init__(message)


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Column(_Section):
    """One column: a score of a suite, or the mean of other columns."""

    title: str = Field(min_length=1)
    """What stands above the column."""
    group: str | None = None
    """A header that spans neighbouring columns of the same group."""
    suite: str | None = None
    """The suite whose scores are shown."""
    task: str | tuple[str, ...] | None = None
    """One task of the suite; several tasks or none (all of them) give their mean."""
    metric: str = "main_score"
    """The metric of the task; `main_score` is the one the task names itself."""
    mean_of: tuple[str, ...] | None = None
    """Titles of other columns (or `group/title`); the column is their mean, without `suite`, `task` and `metric`."""
    digits: int = Field(default=1, ge=0, le=10)
    """Digits after the point."""
    scale: float = Field(default=100.0, allow_inf_nan=False)
    """What the score is multiplied by; a mean of columns is not multiplied again."""
    best: Literal["max", "min", "none"] = "max"
    """Which end of the column is marked as best."""

    @property
    def name(self) -> str:
        """`group/title`, or the title where there is no group."""
        return self.title if self.group is None else f"{self.group}/{self.title}"

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
        if self.task == ():
            raise TableSpecError(f"column {self.name!r} lists no task; leave `task` out for all of them", "task")
        return self


class Row(_Section):
    """One row, by its name in the grid."""

    row: str
    """The row's name in the grid."""
    title: str | None = None
    """What stands in the first column instead of the name."""


def _as_row(value: Any) -> Any:
    return {"row": value} if isinstance(value, str) else value


class TableSpec(_Section):
    """A table over the rows of a grid. The baseline is the grid's own."""

    title: str | None = None
    """The table's heading; the grid's title by default."""
    columns: tuple[Column, ...] = Field(min_length=1)
    """The columns, from left to right."""
    rows: tuple[Annotated[Row, BeforeValidator(_as_row)], ...] | None = None
    """The rows to show, in this order; all rows of the grid in its order by default. A name alone will do."""
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

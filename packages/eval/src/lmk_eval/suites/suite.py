"""A suite: the tasks that are evaluated together and share one folder of results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lmk_eval.suites.names import SuiteError, check_keys, check_name
from lmk_eval.suites.task import Task


class Suite(BaseModel):
    """A named list of tasks. Frozen; unknown keys, no tasks, and two tasks of one name are errors.

    The suite's figure is the mean of its tasks' main scores, and a task's the mean over its splits and subsets.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str
    """A safe part of a path."""
    title: str | None = Field(default=None, json_schema_extra={"identity": "transient"})
    """How tables and reports call the suite; the name unless said."""
    source: str | None = Field(default=None, json_schema_extra={"identity": "transient"})
    """Where the paper says what the suite is."""
    assumed: str | None = Field(default=None, json_schema_extra={"identity": "transient"})
    """What the source leaves open, how it was decided, and why."""
    tasks: tuple[Task, ...]
    """At least one task; each name once (upper and lower case are the same name)."""

    @classmethod
    def from_folder(
        cls, name: str, folder: str | Path, *, split: str | None = None, group_by: str | None = None
    ) -> Suite:
        """A suite of one task, both called `name`, on a local folder in the BEIR layout."""
        return cls(name=name, tasks=(Task(name=name, folder=str(folder), split=split, group_by=group_by),))

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            check_keys(data, cls.model_fields, f"suite {data.get('name', '')!r}")
        return data

    @model_validator(mode="after")
    def _check(self) -> Suite:
        check_name(self.name, "suite name")
        if not self.tasks:
            raise SuiteError(f"suite {self.name!r} has no tasks; give at least one")
        seen: set[str] = set()
        for task in self.tasks:
            # File systems that ignore case would give "Wiki" and "wiki" one file.
            if task.name.casefold() in seen:
                raise SuiteError(f"suite {self.name!r} has two tasks named {task.name!r}; each name may stand once")
            seen.add(task.name.casefold())
        return self

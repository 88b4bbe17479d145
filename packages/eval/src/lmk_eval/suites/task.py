"""One task of a suite: a local folder in the BEIR layout, or a task of MTEB by its name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lmk_eval.suites.names import SuiteError, check_keys, check_name

MTEB_GROUPS = ("split", "subset")
METRICS = ("ndcg_at_10", "precision_at_1", "recall_at_10", "recall_at_100", "mrr_at_10", "f1", "accuracy")
"""The metrics that a task can be reported by."""


class Task(BaseModel):
    """One task: exactly one of `folder` and `mteb` says where its data is."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str
    """How scores and files of this task are named; a safe part of a path."""
    folder: str | None = Field(default=None, json_schema_extra={"identity": "content"})
    """A folder with `corpus.jsonl`, `queries.jsonl` and `qrels/<split>.tsv` (the BEIR layout)."""
    mteb: str | None = None
    """The name of a task of MTEB, such as `NFCorpus`."""
    split: str | None = None
    """The split to score. A folder's is `test` unless said; a task of MTEB runs all of its own unless said."""
    subsets: tuple[str, ...] | None = None
    """Only for `mteb`: the subsets (languages, most often) to score. All of them unless said."""
    metric: str | None = Field(default=None, json_schema_extra={"identity_absent": None})
    """The metric that is the task's `main_score`; the one MTEB names unless said."""
    group_by: str | None = None
    """Scores are also given by group: of a key of the queries' `metadata`, or for `mteb` by `split` or `subset`."""

    @property
    def kind(self) -> Literal["folder", "mteb"]:
        """Where the data is: in a local `folder`, or with `mteb`."""
        return "folder" if self.folder is not None else "mteb"

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        check_keys(data, cls.model_fields, f"task {data.get('name', '')!r}")
        filled = dict(data)
        if isinstance(filled.get("folder"), os.PathLike):
            filled["folder"] = os.fspath(filled["folder"])
        if filled.get("folder") is not None and filled.get("split") is None:
            filled["split"] = "test"
        return filled

    @model_validator(mode="after")
    def _check(self) -> Task:
        check_name(self.name, "task name")
        where = f"task {self.name!r}"
        if (self.folder is None) == (self.mteb is None):
            found = "neither" if self.folder is None else "both"
            raise SuiteError(f"{where} has {found} of the keys folder, mteb: give exactly one")
        if self.folder == "" or self.mteb == "":
            raise SuiteError(f"{where}: {self.kind} is empty")
        if self.split is not None:
            check_name(self.split, f"{where}: split")
        if self.subsets is not None and (self.kind == "folder" or not self.subsets):
            raise SuiteError(f"{where}: subsets is a non-empty list, and only for a task of MTEB")
        if self.metric is not None and self.metric not in METRICS:
            raise SuiteError(f"{where}: metric is {self.metric!r}; valid: {', '.join(METRICS)}")
        if self.group_by is not None and self.kind == "mteb" and self.group_by not in MTEB_GROUPS:
            raise SuiteError(
                f"{where}: group_by is {self.group_by!r}; valid for a task of MTEB: {', '.join(MTEB_GROUPS)}"
            )
        if self.group_by == "":
            raise SuiteError(f"{where}: group_by is empty; give a key of the queries' metadata")
        return self

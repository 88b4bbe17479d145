"""One task of a suite: a task of MTEB by its name, or one made of the user's own files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lmk_eval.suites.names import SuiteError, check_keys, check_name

_GROUPS = {"mteb": ("split", "subset"), "labels": (), "passkey": ("split", "depth"), "needle": ("split", "depth")}
LOCAL_KINDS = ("folder", "labels", "passkey", "needle")
"""The keys that name the user's own files, and so the kinds of local tasks."""
KINDS = (*LOCAL_KINDS, "mteb")
HAYSTACKS = ("passkey", "needle")
LENGTHS = tuple(256 * 2**power for power in range(8))
"""Of LongEmbed: 256 to 32,768 tokens."""
METRICS = ("ndcg_at_10", "precision_at_1", "recall_at_10", "recall_at_100", "mrr_at_10", "f1", "accuracy")
"""The metrics that a task can be reported by."""


_OWN_FILES: dict[str, Any] = {"identity": "content", "identity_absent": None}


class Task(BaseModel):
    """One task: exactly one of `folder`, `labels`, `passkey`, `needle` and `mteb` says where its data is."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str
    """How scores and files of this task are named; a safe part of a path."""
    folder: str | None = Field(default=None, json_schema_extra={"identity": "content"})
    """A folder with `corpus.jsonl`, `queries.jsonl` and `qrels/<split>.tsv` (the BEIR layout)."""
    labels: str | None = Field(default=None, json_schema_extra=_OWN_FILES)
    """Multilabel classification: a folder with `train.jsonl` and `<split>.jsonl`."""
    passkey: str | None = Field(default=None, json_schema_extra=_OWN_FILES)
    """A file of long text: documents cut from it hide one sentence each with a passkey, and queries ask for it."""
    needle: str | None = Field(default=None, json_schema_extra=_OWN_FILES)
    """The same with everyday facts instead of passkeys."""
    lengths: tuple[int, ...] | None = Field(default=None, json_schema_extra={"identity_absent": None})
    """Only for `passkey` and `needle`: lengths of the documents in tokens, a split each; 256 to 32,768 unless said."""
    characters_a_token: float | None = Field(default=None, json_schema_extra={"identity_absent": None})
    """Only for `passkey` and `needle`: characters that count as a token, the same for every model; 3.5 unless said."""
    mteb: str | None = None
    """The name of a task of MTEB, such as `NFCorpus`."""
    split: str | None = None
    """The split to score. Own files' is `test` unless said; a task of MTEB runs all of its own unless said."""
    subsets: tuple[str, ...] | None = None
    """Only for `mteb`: the subsets (languages, most often) to score. All of them unless said."""
    metric: str | None = Field(default=None, json_schema_extra={"identity_absent": None})
    """The metric that is the task's `main_score`; the one MTEB names unless said."""
    group_by: str | None = None
    """Scores are also given by group: of a key of the queries' `metadata`, or by `split` or `subset` (`mteb`), or by
    `split` or `depth` (`passkey`, `needle`)."""

    @property
    def kind(self) -> Literal["folder", "labels", "passkey", "needle", "mteb"]:
        """Which of the keys says where the data is."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def local(self) -> str | None:
        """The path of the user's own files; None for a task of MTEB."""
        return next((getattr(self, kind) for kind in LOCAL_KINDS if getattr(self, kind) is not None), None)

    def moved(self, path: str) -> Task:
        """The same task with its own files elsewhere."""
        return self.model_copy(update={self.kind: path})

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        check_keys(data, cls.model_fields, f"task {data.get('name', '')!r}")
        filled = dict(data)
        for kind in LOCAL_KINDS:
            if isinstance(filled.get(kind), os.PathLike):
                filled[kind] = os.fspath(filled[kind])
        if filled.get("split") is None and any(filled.get(kind) is not None for kind in ("folder", "labels")):
            filled["split"] = "test"
        if filled.get("metric") is None and any(filled.get(kind) is not None for kind in HAYSTACKS):
            filled["metric"] = "precision_at_1"
        return filled

    @model_validator(mode="after")
    def _check(self) -> Task:
        check_name(self.name, "task name")
        where = f"task {self.name!r}"
        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            found = "none" if not given else " and ".join(given)
            raise SuiteError(f"{where} has {found} of the keys {', '.join(KINDS)}: give exactly one")
        if getattr(self, self.kind) == "":
            raise SuiteError(f"{where}: {self.kind} is empty")
        if self.split is not None:
            check_name(self.split, f"{where}: split")
        if self.subsets is not None and (self.kind != "mteb" or not self.subsets):
            raise SuiteError(f"{where}: subsets is a non-empty list, and only for a task of MTEB")
        self._check_haystack(where)
        if self.metric is not None and self.metric not in METRICS:
            raise SuiteError(f"{where}: metric is {self.metric!r}; valid: {', '.join(METRICS)}")
        valid = _GROUPS.get(self.kind)
        if self.group_by is not None and valid is not None and self.group_by not in valid:
            of = "a task of MTEB" if self.kind == "mteb" else f"{self.kind}"
            raise SuiteError(f"{where}: group_by is {self.group_by!r}; valid for {of}: {', '.join(valid) or 'none'}")
        if self.group_by == "":
            raise SuiteError(f"{where}: group_by is empty; give a key of the queries' metadata")
        return self

    def _check_haystack(self, where: str) -> None:
        if self.kind not in HAYSTACKS:
            for key in ("lengths", "characters_a_token"):
                if getattr(self, key) is not None:
                    raise SuiteError(f"{where}: {key} is only for {' and '.join(HAYSTACKS)}")
            return
        if self.split is not None:
            raise SuiteError(f"{where}: {self.kind} has no split; lengths says which documents there are")
        if self.lengths is not None and (
            not self.lengths or min(self.lengths) < 64 or len(set(self.lengths)) < len(self.lengths)
        ):
            raise SuiteError(f"{where}: lengths is {list(self.lengths)}; different numbers of at least 64 are valid")
        if self.characters_a_token is not None and not 0.5 <= self.characters_a_token <= 20:
            raise SuiteError(f"{where}: characters_a_token is {self.characters_a_token}; 0.5 to 20 are valid")

"""A retrieval task on a local folder, run by MTEB like any of its own. Needs no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from mteb.abstasks import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from mteb.abstasks.task_metadata import TaskMetadata

from lmk_eval.suites import check_name
from lmk_eval.tasks.folder import Query, fingerprint, read_folder, read_queries
from lmk_eval.tasks.groups import group_scores, per_query_scores, query_groups
from lmk_eval.tasks.large import LARGE_BYTES, map_corpus


class OwnFiles:
    """What tasks on the user's own files have in common: each instance is a task of its own, described by itself.

    Stands before MTEB's class among the bases. `metadata` is a property, since MTEB drops what an instance has under
    that name when it unloads data.
    """

    _metadata: TaskMetadata

    @property
    def metadata(self) -> TaskMetadata:
        """The description of this task, with a fingerprint of what it is made of as the revision."""
        return self._metadata


class LocalRetrieval(OwnFiles, AbsTaskRetrieval):  # ty: ignore[incompatible-property-override]
    """Retrieval on a folder in the BEIR layout.

    The fingerprint of the data is the task's dataset revision. The main score is nDCG@10. With `group_by`, scores are
    also given for each value of that key of the queries' metadata.

    Args:
        name: The task's name; a safe part of a path. MTEB knows the task as `local.<name>`.
        folder: Holds `corpus.jsonl`, `queries.jsonl` and `qrels/<split>.tsv`.
        split: Which judgements to use.
        group_by: A key of the queries' `metadata`.

    Raises:
        TaskDataError: if a file is missing (here), or can't be read (in `load_data`).
    """

    def __init__(
        self, name: str, folder: str | Path, split: str = "test", group_by: str | None = None, **kwargs: Any
    ) -> None:
        self.folder = Path(folder)
        self.group_by = group_by
        self.groups: dict[str, str] = {}
        revision = fingerprint(self.folder, split)
        self._metadata = local_metadata(name, revision, [split], group_by, "A local folder in the BEIR layout")
        super().__init__(**kwargs)

    def load_data(self, num_proc: int | None = None, **_: Any) -> None:
        """Read and check the folder.

        Raises:
            TaskDataError: naming file, line and key of what can't be read.
        """
        if self.data_loaded:
            return
        (split,) = self.eval_splits
        data, queries = folder_data(self.folder, split)
        if self.group_by is not None:
            self.groups = query_groups(queries, self.group_by, str(self.folder / "queries.jsonl"))
        self.dataset = {"default": {split: data}}
        self.dataset_transform(num_proc=num_proc)
        self.data_loaded = True

    def task_specific_scores(self, scores: dict[str, dict[str, float]], *_: Any, **__: Any) -> dict[str, Any]:
        """MTEB's hook: each query's scores, and the means of MTEB's per-query scores by group."""
        added: dict[str, Any] = per_query_scores(scores)
        if self.group_by is not None:
            added.update(group_scores(scores, self.groups, self.group_by))
        return added


def folder_data(folder: Path, split: str) -> tuple[RetrievalSplitData, Mapping[str, Query]]:
    """One split of a folder as MTEB wants it, and its queries. A large corpus stays on disk.

    Raises:
        TaskDataError: naming file, line and key of what can't be read.
    """
    revision = fingerprint(folder, split)
    documents: Dataset | Mapping[str, tuple[str, str]]
    if (folder / "corpus.jsonl").stat().st_size >= LARGE_BYTES:
        asked = read_queries(folder, split)
        documents, queries, relevant = (
            map_corpus(folder / "corpus.jsonl", revision, asked),
            asked.queries,
            asked.relevant,
        )
    else:
        data = read_folder(folder, split)
        documents, queries, relevant = data.documents, data.queries, data.relevant
    return split_data(documents, {key: query.text for key, query in queries.items()}, relevant), queries


def split_data(
    documents: Dataset | Mapping[str, tuple[str, str]],
    queries: Mapping[str, str],
    relevant: Mapping[str, Mapping[str, int]],
) -> RetrievalSplitData:
    """One split as MTEB wants it, from id to (title, text), id to text, and query id to document id to score."""
    if not isinstance(documents, Dataset):
        titles, texts = ([pair[place] for pair in documents.values()] for place in (0, 1))
        documents = Dataset.from_dict({"id": list(documents), "title": titles, "text": texts})
    return {
        "corpus": documents,
        "queries": Dataset.from_dict({"id": list(queries), "text": list(queries.values())}),
        "relevant_docs": {query: dict(scores) for query, scores in relevant.items()},
        "top_ranked": None,
    }


def local_metadata(
    name: str, revision: str, splits: Sequence[str], group_by: str | None, description: str, *, labels: bool = False
) -> TaskMetadata:
    """The description of a task on the user's own files, a retrieval or (``labels``) a multilabel classification."""
    check_name(name, "task name")
    # The groups are part of what a result file holds, so they are part of what it is a result of.
    if group_by is not None:
        revision = f"{revision}+{group_by}"
    return TaskMetadata(
        # MTEB names a result file by the task alone. None of its own names begins so: the two never share a file.
        name=f"local.{name}",
        type="MultilabelClassification" if labels else "Retrieval",
        category="t2c" if labels else "t2t",
        modalities=["text"],
        eval_splits=list(splits),
        eval_langs=["und-Zyyy"],  # undetermined language and script: own files may hold any
        main_score="f1" if labels else "ndcg_at_10",
        dataset={"path": f"local/{name}", "revision": revision},
        description=description,
    )

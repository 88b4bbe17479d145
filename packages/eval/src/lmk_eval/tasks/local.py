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
from lmk_eval.tasks.folder import fingerprint, read_folder
from lmk_eval.tasks.groups import group_scores, per_query_scores, query_groups


class LocalRetrieval(AbsTaskRetrieval):
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

    # A property, since every folder is a task of its own and MTEB drops an instance's `metadata` when it unloads data.
    @property
    def metadata(self) -> TaskMetadata:  # ty: ignore[incompatible-property-override]
        """The description of this folder, with the fingerprint of its data as the revision."""
        return self._metadata

    def load_data(self, num_proc: int | None = None, **_: Any) -> None:
        """Read and check the folder.

        Raises:
            TaskDataError: naming file, line and key of what can't be read.
        """
        if self.data_loaded:
            return
        (split,) = self.eval_splits
        data = read_folder(self.folder, split)
        if self.group_by is not None:
            self.groups = query_groups(data, self.group_by, str(self.folder / "queries.jsonl"))
        queries = {key: query.text for key, query in data.queries.items()}
        self.dataset = {"default": {split: split_data(data.documents, queries, data.relevant)}}
        self.dataset_transform(num_proc=num_proc)
        self.data_loaded = True

    def task_specific_scores(self, scores: dict[str, dict[str, float]], *_: Any, **__: Any) -> dict[str, Any]:
        """MTEB's hook: each query's scores, and the means of MTEB's per-query scores by group."""
        added: dict[str, Any] = per_query_scores(scores)
        if self.group_by is not None:
            added.update(group_scores(scores, self.groups, self.group_by))
        return added


def split_data(
    documents: Mapping[str, tuple[str, str]], queries: Mapping[str, str], relevant: Mapping[str, Mapping[str, int]]
) -> RetrievalSplitData:
    """One split as MTEB wants it, from id to (title, text), id to text, and query id to document id to score."""
    corpus = {
        "id": list(documents),
        "title": [title for title, _ in documents.values()],
        "text": [text for _, text in documents.values()],
    }
    return {
        "corpus": Dataset.from_dict(corpus),
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

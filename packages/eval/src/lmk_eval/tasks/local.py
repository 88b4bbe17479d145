"""A retrieval task on a local folder, run by MTEB like any of its own. Needs no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datasets import Dataset
from mteb.abstasks import AbsTaskRetrieval
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
        self._metadata = _metadata(check_name(name, "task name"), fingerprint(self.folder, split), split, group_by)
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
        corpus = {
            "id": list(data.documents),
            "title": [title for title, _ in data.documents.values()],
            "text": [text for _, text in data.documents.values()],
        }
        queries = {"id": list(data.queries), "text": [query.text for query in data.queries.values()]}
        self.dataset = {
            "default": {
                split: {
                    "corpus": Dataset.from_dict(corpus),
                    "queries": Dataset.from_dict(queries),
                    "relevant_docs": {query: dict(scores) for query, scores in data.relevant.items()},
                    "top_ranked": None,
                }
            }
        }
        self.dataset_transform(num_proc=num_proc)
        self.data_loaded = True

    def task_specific_scores(self, scores: dict[str, dict[str, float]], *_: Any, **__: Any) -> dict[str, Any]:
        """MTEB's hook: each query's nDCG@10, and the means of MTEB's per-query scores by group."""
        added: dict[str, Any] = per_query_scores(scores)
        if self.group_by is not None:
            added.update(group_scores(scores, self.groups, self.group_by))
        return added


def _metadata(name: str, revision: str, split: str, group_by: str | None) -> TaskMetadata:
    # MTEB names a result file by the task alone. None of its own names begins so: the two never share a file.
    known_as = f"local.{name}"
    # The groups are part of what a result file holds, so they are part of what it is a result of.
    if group_by is not None:
        revision = f"{revision}+{group_by}"
    return TaskMetadata(
        name=known_as,
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=[split],
        eval_langs=["und-Zyyy"],  # undetermined language and script: a folder may hold any
        main_score="ndcg_at_10",
        dataset={"path": f"local/{name}", "revision": revision},
        description="A local folder in the BEIR layout",
    )

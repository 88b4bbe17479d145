"""The documents of a task, for those who want its texts and no scores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lmk_eval.suites import Task
from lmk_eval.tasks.folder import TaskDataError
from lmk_eval.tasks.opening import load_task, open_task


def task_documents(task: Task, mirrors: Path | None = None) -> Iterator[str]:
    """Every document of a retrieval task, its title before it: of each of its parts, subsets and splits.

    Args:
        task: as a suite has it.
        mirrors: a folder with the data of tasks of MTEB, see `redirect`.

    Raises:
        TaskDataError: MTEB has no such task, split or subset, or the task has no documents.
        DataMissing: its data is not on this machine and can't be fetched from here.
    """
    for part in open_task(task, mirrors):
        load_task(part)
        held: Any = getattr(part, "dataset", None)
        if not isinstance(held, dict) or not all(_is_retrieval(split) for split in held.values()):
            raise TaskDataError(f"{part.metadata.name} has no corpus of documents; name a retrieval task")
        for subset in held.values():
            for split in subset.values():
                for row in split["corpus"]:
                    title, text = row.get("title") or "", row["text"]
                    yield f"{title} {text}".strip() if title else text
        part.unload_data()


def _is_retrieval(splits: Any) -> bool:
    return all(isinstance(split, dict) and "corpus" in split for split in splits.values())

"""Write ``sizes.json`` anew from the statistics of the installed MTEB: ``python -m lmk_eval.suites.measure``.

Needs no network. The only module of this folder that imports mteb, and only when it runs.
"""

from __future__ import annotations

import json
from typing import Any

from lmk_eval.suites.shipped import shipped_suite, shipped_suites
from lmk_eval.suites.sizes import SIZES_FILE, WHOLE


def measure(name: str) -> dict[str, dict[str, list[int]]]:
    """Split to subset to (documents, their characters, queries, their characters) of a task of MTEB; imports mteb."""
    import mteb

    task: Any = mteb.get_task(name)
    if task.is_aggregate:
        parts = [measure(part.metadata.name)["test"][WHOLE] for part in task.metadata.tasks]
        return {"test": {WHOLE: [sum(column) for column in zip(*parts, strict=True)]}}
    statistics = task.metadata.descriptive_stats or {}
    found = {}
    for split in task.eval_splits:
        if split in statistics:
            subsets = statistics[split].get("hf_subset_descriptive_stats") or {WHOLE: statistics[split]}
            found[split] = {subset: _numbers(values) for subset, values in subsets.items()}
    return found


def _numbers(values: dict[str, Any]) -> list[int]:
    if "documents_text_statistics" not in values:
        return [values["num_samples"], values["text_statistics"]["total_text_length"], 0, 0]
    documents, queries = values["documents_text_statistics"], values["queries_text_statistics"]
    asked = round(queries["total_text_length"] / queries["average_text_length"])
    held = round(documents["total_text_length"] / documents["average_text_length"])
    return [held, documents["total_text_length"], asked, queries["total_text_length"]]


def _write() -> None:
    names = sorted({str(task.mteb) for suite in shipped_suites() for task in shipped_suite(suite).tasks})
    lines = [f"{json.dumps(name)}: {json.dumps(measure(name))}" for name in names]
    SIZES_FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    _write()

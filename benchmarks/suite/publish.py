"""The last run's file, and everything that is generated from it: two READMEs between markers, and the plot."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite import tables
from suite.parts import Part
from suite.plot import plot

RESULTS = "benchmarks/results.jsonl"
PLOT = "benchmarks/results.svg"


@dataclass(frozen=True)
class Run:
    """All of a run: its conditions and what came of each benchmark. No conditions: there was none yet."""

    conditions: dict[str, Any]
    parts: list[Part]


def read_run(file: Path) -> Run:
    """A run as `run_text` has it."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
    conditions = next((line["run"] for line in lines if "run" in line), {})
    heads = [line["part"] for line in lines if "part" in line]
    results: dict[str, list[Any]] = {head["name"]: [] for head in heads}
    for line in lines:
        if "of" in line:
            results[line["of"]].append(line["result"])
    return Run(conditions, [Part.from_json({**head, "results": results[head["name"]]}) for head in heads])


def run_text(run: Run) -> str:
    """A line for the run, one for each benchmark, one for each result."""
    lines: list[dict[str, Any]] = [{"run": run.conditions}]
    for part in run.parts:
        head = part.to_json()
        lines += [{"of": part.name, "result": result} for result in head.pop("results")]
        lines.append({"part": head})
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def blocks(run: Run) -> dict[str, dict[str, str]]:
    """What stands between the markers: file to name to text."""
    parts, conditions = run.parts, run.conditions
    return {
        "benchmarks/README.md": {
            "run": tables.conditions_text(conditions),
            "table": tables.main_table(parts),
            "limits": tables.limits_text(),
            "rates": tables.rates_table(parts),
            "missing": tables.missing_table(parts),
            "times": tables.times_table(parts),
        },
        "README.md": {"short": tables.short_table(parts, conditions)},
    }


def publish(run: Run, root: Path) -> list[Path]:
    """Writes the run's file, the plot and the marked parts of the READMEs; the files that it wrote.

    Raises:
        ValueError: a README has no place for a part; nothing was written then.
    """
    texts = {RESULTS: run_text(run), PLOT: plot(run.parts)}
    for name, marked in blocks(run).items():
        texts[name] = (root / name).read_text(encoding="utf-8")
        for mark, content in marked.items():
            texts[name] = filled(texts[name], mark, content, name)
    # Only now: an error above must not leave files of two runs.
    for name, text in texts.items():
        (root / name).write_text(text, encoding="utf-8")
    return [root / name for name in texts]


def filled(text: str, mark: str, content: str, name: str) -> str:
    """``text`` with ``content`` between the markers of ``mark``."""
    pattern = _pattern(mark)
    if not pattern.search(text):
        raise ValueError(f"{name}: no <!-- bench: {mark} --> ... <!-- bench: end --> here")
    return pattern.sub(lambda found: f"{found[1]}\n{content}\n{found[3]}", text, count=1)


def between(text: str, mark: str) -> str | None:
    """What stands between the markers of ``mark``."""
    found = _pattern(mark).search(text)
    return None if found is None else found[2].strip("\n")


def outside(text: str) -> str:
    """``text`` without everything that is generated."""
    return re.sub(r"<!-- bench: (?!end)\w+ -->.*?<!-- bench: end -->", "", text, flags=re.DOTALL)


def _pattern(mark: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- bench: {mark} -->)\n(.*?)(<!-- bench: end -->)", re.DOTALL)

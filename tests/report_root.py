"""A root with the records of a grid of two seeds, half done, with hostile texts everywhere; and a page as read."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from lmk_eval.evaluation.per_query import write_per_query
from lmk_experiments.records import (
    ElsewhereRecord,
    GridRecord,
    RowRecord,
    TrainingRecord,
    evaluation_cell,
    training_cell,
    write_json,
)

HOSTILE = '<script>alert("row")</script>'
NOTE = "ValueError: <script>fetch('https://evil.test/')</script> & <img src=https://evil.test/x onerror=alert(1)>"
LENGTHS = (512, 1024, 2048)
QUERIES = 40
SUITE = {
    "name": "long",
    "title": "Long <b>documents</b>",
    "tasks": [{"name": f"modules-{length}", "mteb": f"M{length}", "group_by": "quarter"} for length in LENGTHS],
}
START = 1_800_000_000.0


VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """The tags of a page, its texts by the tag around them, and its tables as lists of texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: dict[str, list[str]] = {}
        self.lines: list[list[str]] = []
        self.feed(text)
        assert self.open == [], "every tag is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.lines.append([])
        elif tag in ("td", "th"):
            self.lines[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)
        if self.open and {"td", "th"} & set(self.open):
            self.lines[-1][-1] += data

    def line(self, *start: str) -> list[str]:
        return next(line for line in self.lines if line[: len(start)] == list(start))


@dataclass
class ReportRoot:
    """Writes cells one after another; a cell's number is its identity."""

    path: Path
    number: int = 0

    def identity(self) -> str:
        self.number += 1
        return f"{self.number:012x}"

    def events(self, folder: Path, *listed: dict) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "events.jsonl").open("a") as file:
            for one in listed:
                file.write(json.dumps(one) + "\n")

    def train(self, row: str, seed: int, *, done: bool = True, device: str = "NVIDIA H100") -> str:
        """Two attempts of an hour and of two hours, with eight GPUs."""
        cell = training_cell(self.path, self.identity())
        cell.create("training", {"pooling": {"kind": row}, "seed": seed, "note": HOSTILE})
        where = {"pid": 7, "host": "node1", "user": "ann", "code": "/home/ann/lmk", "commit": "0123456789abcdef"}
        began = START + self.number * 20_000
        started = {"event": "start", "device": device, "processes": 8, "torch": "2.13.0"}
        self.events(
            cell.folder,
            {"time": began, "event": "attempt", "job": f"{self.number}_0", **where},
            {"time": began + 60, **started},
            {"time": began + 3600, "event": "preempted", "step": 200, "signal": "SIGUSR2"},
            {"time": began + 7200, "event": "attempt", "job": f"{self.number}_0", **where},
            {"time": began + 7260, **started},
        )
        draw = random.Random(self.number)
        lines = [
            {
                "step": step,
                "time": began + 60 + step,
                "values": {"train/loss": 4 / (1 + step / 100) + draw.random() / 5, "train/learning_rate": 1e-4 * step},
            }
            for step in range(10, 410, 10)
        ]
        lines.append({"step": 400, "time": began + 9000, "values": {"validation/ndcg_at_10": 0.5 + draw.random() / 9}})
        (cell.folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        if done:
            self.events(cell.folder, {"time": began + 14_400, "event": "done"})
            cell.finish(7200.0, model="model", metrics={})
        else:
            self.events(cell.folder, {"time": began + 14_400, "event": "failed", "reason": NOTE})
        write_json(cell.folder / "mlflow.json", {"uri": "https://mlflow.test", "run_id": f"{self.number:032x}"})
        return cell.id

    def evaluate(self, training: str, better: float, *, done: bool = True, seed: int = 0) -> str:
        cell = evaluation_cell(self.path, self.identity())
        if not done:
            return cell.id
        config = {"training": training, "pooling": {}, "max_length": 64, "suite": SUITE}
        cell.create("evaluation", config)
        began = START + self.number * 20_000
        self.events(
            cell.folder,
            {"time": began, "event": "attempt", "pid": 8, "host": "node2", "user": "ann", "code": "/home/ann/lmk"},
            {"time": began + 10, "event": "start", "device": "NVIDIA H100", "processes": 1, "torch": "2.13.0"},
            {"time": began + 1800, "event": "done"},
        )
        scores = {}
        for at, length in enumerate(LENGTHS):
            ease, own = random.Random(length), random.Random(1000 * seed + self.number)
            values = {
                f"q{i}": round(min(1.0, ease.random() * 0.6 + own.random() * 0.2 + better - at / 20), 6)
                for i in range(QUERIES)
            }
            mean = round(sum(values.values()) / QUERIES, 6)
            quarters = {f"ndcg_at_10[quarter={q}]": round(mean - q / 50, 6) for q in range(1, 5)}
            scores[f"modules-{length}"] = {"main_score": mean, "ndcg_at_10": mean, **quarters}
            write_per_query(cell.folder, f"modules-{length}", {"ndcg_at_10": values})
        cell.finish(1800.0, scores=scores)
        return cell.id


def write_report_root(path: Path, rows: int = 4) -> ReportRoot:
    """The grid ``study``: a baseline, a hostile row, more rows, the last of them failed, and a row from elsewhere."""
    root = ReportRoot(path)
    names = ["cls", HOSTILE, *(f"a-row-with-a-rather-long-name-{index}" for index in range(rows - 2))]
    trainings, records = [], []
    for place, row in enumerate(names):
        failed = place == rows - 1
        for seed in range(2):
            training = root.train(row, seed, done=not failed)
            trainings.append(TrainingRecord(training, row, seed))
            evaluation = root.evaluate(training, place / 10, done=not failed, seed=seed)
            records.append(RowRecord(row, seed, training, {}, row == "cls", {"long": evaluation}))
    column = {"suite": "long", "group": "Tokens a document & more"}
    table = {
        "columns": [
            {**column, "title": f"{length:,}", "task": f"modules-{length}", "metric": "ndcg_at_10"}
            for length in LENGTHS
        ]
        + [{"title": "Avg. <i>all</i>", "mean_of": [f"{length:,}" for length in LENGTHS]}],
        "notes": [f"A note with {HOSTILE}"],
    }
    elsewhere = ElsewhereRecord(
        "bge-m3",
        "/data/results/bge-m3",
        {"long": {"modules-512": {"main_score": 0.9, "ndcg_at_10": 0.9}}},
        {"long": ["modules-1024", "modules-2048"]},
    )
    GridRecord("study", f"A study of {HOSTILE}", trainings, records, table, "study.yaml", [elsewhere]).save(path)
    return root

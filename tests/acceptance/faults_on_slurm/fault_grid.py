"""A recorded grid of light cells, with one real training where that is asked for; and what it must come to."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import yaml
from safetensors.torch import load_file

from lmk_experiments.builders import build
from lmk_experiments.grids import load_grid_file, make_plan
from lmk_experiments.profiles import Profile
from lmk_experiments.records import Cell, GridRecord, RowRecord, TrainingRecord, evaluation_cell, training_cell
from lmk_experiments.records.atomic import read_lines
from lmk_experiments.records.shapes import NUMBER, TEXT
from lmk_experiments.submit.grid import Submission, submit_cells
from lmk_experiments.submit.snapshot import Snapshot
from lmk_slurm import Job, Resources

NAME = "faults"
ROWS = 8
REAL = "real"
_PRESET = {
    "model": {"path": "built:quickstart-tiny/model"},
    # Untrained, CLS gives nearly equal vectors, whose gradients are mostly rounding: AdamW would enlarge it.
    "pooling": {"kind": "mean"},
    "data": {
        "train": ["built:quickstart-tiny/train.jsonl"],
        "negatives": 1,
        "query_max_length": 32,
        "passage_max_length": 32,
    },
    "precision": "fp32",
}


@dataclass(frozen=True)
class Shape:
    """How long cells take and where they go."""

    steps: int = 16
    pace: float = 0.5
    hours: float = 0.25
    partition: str = "main"
    memory_gb: float = 1.0
    real: bool = False
    real_steps: int = 30
    real_pace: float = 0.4
    real_ranks: bool = False
    """Two nodes with two tasks each, instead of one process."""
    do: dict[str, str] | None = None
    """Row to what goes wrong in its training."""
    bytes: int = 16
    signal_seconds: int = 30
    node: str | None = None
    """The only node that jobs go to."""


class FaultGrid:
    """Eight trainings and eight evaluations, and the real training where the shape has one."""

    def __init__(self, root: Path, shape: Shape) -> None:
        self.root, self.shape = root, shape
        self.profile = Profile.model_validate(
            {
                "profile": "faults",
                "partition": shape.partition,
                "memory_gb": shape.memory_gb,
                "max_memory_gb": 64,
                "max_array": 4,
                "signal_seconds": shape.signal_seconds,
                "sync": {"enabled": False},
                "offline": True,
                "sbatch": {} if shape.node is None else {"nodelist": shape.node},
                "environment": {"OMP_NUM_THREADS": "1", "LMK_PACE": str(shape.real_pace)},
            }
        )
        rows = [f"row{number}" for number in range(ROWS)]
        self.trainings = {row: training_cell(root, f"{number:012x}") for number, row in enumerate(rows, 0xA000)}
        self.evaluations = {row: evaluation_cell(root, f"{number:012x}") for number, row in enumerate(rows, 0xE000)}
        for number, row in enumerate(rows):
            wrong = (shape.do or {}).get(row, "")
            light = {"steps": shape.steps, "pace": shape.pace, "bytes": shape.bytes, "do": wrong}
            self.trainings[row].create("training", light)
            reading = {"training": self.trainings[row].id, "score": 0.25 + number / 16, "pace": shape.pace}
            self.evaluations[row].create("evaluation", reading)
        if shape.real:
            self.trainings[REAL] = real_cell(root, shape.real_steps)
        read = [
            RowRecord(row, 0, self.trainings[row].id, {}, False, {"suite": cell.id})
            for row, cell in self.evaluations.items()
        ]
        named = [TrainingRecord(cell.id, row, 0) for row, cell in self.trainings.items()]
        self.record = GridRecord(NAME, "", named, read)
        self.record.save(root)

    @property
    def cells(self) -> list[Cell]:
        return [*self.trainings.values(), *self.evaluations.values()]

    def jobs(self) -> list[Job]:
        needs = Resources(cpus=1, memory_gb=self.shape.memory_gb, hours=self.shape.hours, gpus=1)
        jobs = []
        for row, cell in self.trainings.items():
            name = "train_slowly" if row == REAL else "train"
            one = needs
            if row == REAL:
                one = replace(needs, memory_gb=8)
                one = replace(one, nodes=2, tasks=2, gpus=2) if self.shape.real_ranks else one
            jobs.append(_job(f"train {row}", name, cell, one))
        for row, cell in self.evaluations.items():
            jobs.append(_job(f"evaluate {row}", "evaluate", cell, replace(needs, gpus=0), after=(f"train {row}",)))
        return jobs

    def submit(self) -> Submission:
        return submit_cells(self.jobs(), self.record, self.root, self.profile, Snapshot(None, None))

    def table(self) -> str:
        """``lmk table``, from the records."""
        command = [sys.executable, "-m", "lmk_experiments.cli.main", "table", NAME, "--from", "records"]
        said = subprocess.run([*command, "--root", str(self.root)], capture_output=True, text=True, check=False)
        return said.stdout + said.stderr

    def weights(self) -> Path | None:
        """The real training's weights; ``None`` without one."""
        return self.trainings[REAL].folder / "model" / "model.safetensors" if self.shape.real else None

    def wrong(self) -> list[str]:
        """What is not as it must be in the end: every cell done exactly once, by one process at a time."""
        found = []
        for cell in self.cells:
            ends = [event["event"] for event in cell.events()].count("done")
            if cell.done() is None or ends != 1:
                found.append(f"{cell.id}: {ends} times done")
            found += [f"{cell.id}: {text}" for text in _overlaps(cell.folder)]
            found += [f"{cell.id}: left {path.name}" for path in cell.folder.glob("claim.json")]
        return found


def differ(one: Path | None, other: Path | None) -> str:
    """Whether two trainings' weights differ in any byte."""
    if one is None or other is None:
        return ""
    if not one.exists():
        return "no weights"
    same = hashlib.sha256(one.read_bytes()).digest() == hashlib.sha256(other.read_bytes()).digest()
    return "" if same else "other weights"


def far(one: Path | None, other: Path | None, most: float) -> str:
    """Whether two trainings' weights differ by more than ``most`` somewhere."""
    if one is None or other is None or not one.exists():
        return "no weights to compare"
    ours, theirs = load_file(one), load_file(other)
    if ours.keys() != theirs.keys():
        return "weights of other names"
    largest = max(float((ours[name] - theirs[name]).abs().max()) for name in ours)
    return "" if largest <= most else f"weights {largest:.1e} away from those of one process"


def real_cell(root: Path, steps: int) -> Cell:
    """The cell of a real training on the smallest built data, which is made where it is not there yet."""
    folder = root / "grid-file"
    folder.mkdir(parents=True, exist_ok=True)
    preset = {
        **_PRESET,
        "optim": {"steps": steps, "batch_size": 8, "learning_rate": 0.001, "eps": 1e-6},
        "runtime": {"threads": 1, "log_every": 5, "checkpoint_every": 5},
    }
    tasks = [{"name": "functions", "folder": "built:quickstart-tiny/eval/short"}]
    grid = {
        "grid": "one",
        "base": ["preset.yaml"],
        "train": [{"row": REAL}],
        "evaluate": {"suites": [{"name": "short", "tasks": tasks}], "max_length": 32},
    }
    (folder / "preset.yaml").write_text(yaml.safe_dump(preset))
    (folder / "one.yaml").write_text(yaml.safe_dump(grid))
    build("quickstart-tiny", root, report=lambda _: None)
    [planned] = make_plan(load_grid_file(str(folder / "one.yaml"), ()), root).trainings
    assert planned.id is not None
    return training_cell(root, planned.id).create("training", planned.config.model_dump(mode="json"))


def _job(name: str, function: str, cell: Cell, needs: Resources, after: tuple[str, ...] = ()) -> Job:
    done, logs = (cell.folder / "DONE.json",), cell.folder / "logs"
    return Job(name, f"fault_cells:{function}", str(cell.folder), logs, after=after, done=done, resources=needs)


def _overlaps(folder: Path) -> list[str]:
    """Whether two processes worked on a cell at the same time: the times of one would lie among another's."""
    lines = read_lines(folder / "journal.jsonl", {"time": NUMBER, "who": TEXT})
    turns: list[str] = []
    for line in lines:
        if not turns or turns[-1] != line["who"]:
            turns.append(line["who"])
    return [f"{turns.count(who)} turns of {who}" for who in dict.fromkeys(turns) if turns.count(who) > 1]


def main() -> None:
    """Submit the grid that is in ``argv[1]``, as another process or person does."""
    import pickle

    grid = pickle.loads(Path(sys.argv[1]).read_bytes())
    result = grid.submit()
    print(len(result.sent), len(result.active), len(result.adopted), os.getpid(), flush=True)


if __name__ == "__main__":
    main()

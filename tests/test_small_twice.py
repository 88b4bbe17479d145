"""A training of the small replication's data, run twice: the same weights and the same scores, bit for bit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from lmk_eval import read_per_query
from lmk_experiments.builders import build
from lmk_experiments.cli.run_grid import prepare
from lmk_experiments.jobs.evaluate import run_evaluations
from lmk_experiments.jobs.train import run_training
from lmk_experiments.records import evaluation_cell, training_cell

GRID = """
grid: twice
base: [presets/small]
seeds: [{seed}]
train:
  - row: lmk-var
    pooling: {{kind: landmark, granularity: [8, 16, 32, 64]}}
    model: {{path: built:small-tiny/model}}
    data: {{train: [built:small-tiny/train.jsonl], validation: null}}
    optim: {{steps: 6, batch_size: 16, warmup_steps: 2}}
evaluate:
  suites: [{{name: long, tasks: [{{name: modules-256, folder: built:small-tiny/eval/long-256, group_by: quarter}}]}}]
  max_length: 512
  views: [{{of: lmk-var, pooling: {{granularity: 16}}}}]
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("small-tiny", tmp_path_factory.mktemp("runs"))


def run(folder: Path, built: Path, seed: int) -> tuple[str, bytes, dict[str, float]]:
    """The training's id, the bytes of its weights, and the scores by query."""
    root = folder / "runs"
    shutil.copytree(built, root / "built" / built.name)
    (folder / "twice.yaml").write_text(GRID.format(seed=seed))
    _, record = prepare(str(folder / "twice.yaml"), root, ())
    cell = training_cell(root, record.trainings[0].id)
    run_training(str(cell.folder))
    evaluation = evaluation_cell(root, record.rows[0].evaluations["long"])
    run_evaluations(str(evaluation.folder))
    [weights] = (cell.folder / "model").rglob("model.safetensors")
    return cell.id, weights.read_bytes(), read_per_query(evaluation.folder, "modules-256", "ndcg_at_10")


def test_twice_is_the_same_and_another_seed_is_not(built: Path, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = []
        for name, seed in (("one", 0), ("two", 0), ("other", 1)):
            (tmp_path / name).mkdir()
            found.append(run(tmp_path / name, built, seed))
    finally:
        torch.set_num_threads(threads)
    one, two, other = found
    assert one == two
    assert one[0] != other[0]
    assert one[1] != other[1]
    assert len(one[2]) > 10

"""Killed and preempted at many steps, on one and two ranks, with and without workers: the losses and the weights are
those of the undisturbed training, bit for bit."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from safetensors.torch import load_file

from lmk_train.ranks.launch import CHILD

sys.path.append(str(Path(__file__).parent))  # the forks import it by its name
from killed_trainings import Kill, Start, start, step_of_srun
from rank_trainings import SERVER

KILL, TERM, USR2 = signal.SIGKILL, signal.SIGTERM, signal.SIGUSR2


def heard(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "heard.jsonl").read_text().splitlines()]


def losses(folder: Path) -> list[tuple[int, float]]:
    """All that were recorded: a step that was done twice is there twice, with equal values."""
    return sorted({(line["step"], line["values"]["train/loss"]) for line in heard(folder) if "values" in line})


def events(folder: Path, *kinds: str) -> list[tuple[str, int]]:
    return [(line["event"], line["step"]) for line in heard(folder) if line.get("event") in kinds]


def assert_same(left: Path, right: Path) -> None:
    ours, theirs = (load_file(folder / "model/model.safetensors") for folder in (left, right))
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []


@pytest.fixture
def config(make_config):
    """20 steps of 8 rows, an epoch has 8: with dropout, drawn granularities, and chunks."""
    return make_config(
        pooling={"kind": "landmark", "granularity": [2, 4, 8]},
        optim__steps=20,
        optim__learning_rate=1e-3,
        runtime={"accelerator": "cpu", "log_every": 1, "checkpoint_every": 3, "chunk_tokens": 128},
    )


def test_one_process(config, tmp_path):
    """Killed at a random step, then told by each signal, data workers too."""
    start(1, config, tmp_path / "whole", Start())
    step = random.randrange(4, 10)
    print(f"killed at step {step}")
    starts = [Start(Kill(KILL, step, 0), 2), Start(Kill(USR2, 11), 2), Start(Kill(TERM, 14), 0), Start(None, 1)]
    assert [start(1, config, tmp_path / "run", one) for one in starts] == [[-KILL], [128 + USR2], [128 + TERM], [0]]
    told = events(tmp_path / "run", "resumed", "preempted")
    first = (step - 1) // 3 * 3  # it is heard before it is saved
    assert told == [("resumed", first), ("preempted", 11), ("resumed", 11), ("preempted", 14), ("resumed", 14)]
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")
    assert_same(tmp_path / "run", tmp_path / "whole")


def test_two_ranks(config, tmp_path):
    """One of them killed, one of them told, and both told."""
    start(2, config, tmp_path / "whole", Start())
    starts = [Start(Kill(KILL, 7, 1), 0), Start(Kill(USR2, 10, 1), 2), Start(Kill(TERM, 14), 2), Start(None, 0)]
    codes = [start(2, config, tmp_path / "run", one) for one in starts]
    assert codes == [[3, -KILL], [128 + USR2] * 2, [128 + TERM] * 2, [0, 0]]
    told = events(tmp_path / "run", "resumed", "preempted")
    kinds, steps = zip(*told, strict=True)
    assert kinds == ("resumed", "preempted", "resumed", "preempted", "resumed")
    assert steps[0] == 6
    # The signal comes while a step's numbers are added up, or behind that: then the next one's say it.
    assert steps[1] in (10, 11)
    assert steps[3] in (14, 15)
    assert steps[1:3] == (steps[1],) * 2
    assert steps[3:] == (steps[3],) * 2
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")
    assert_same(tmp_path / "run", tmp_path / "whole")


def run_step_of_srun(config: Any, folder: Path, kill: signal.Signals) -> list[int]:
    """Two tasks, both with submitit's handlers, of which the first signals both at step 3; their exit codes."""
    values = config.model_copy(update={"runtime": config.runtime.model_copy(update={"devices": 2})}).model_dump_json()
    step = {"STEP_NUM_TASKS": 2, "STEP_NUM_NODES": 1, "STEP_TASKS_PER_NODE": "2", "STEP_NODELIST": "127.0.0.1"}
    common = {**step, "NODEID": 0, "JOB_ID": 4711, "STEP_ID": 0}
    tasks = []
    folder.mkdir(exist_ok=True)
    for rank in range(2):
        names = {f"SLURM_{name}": str(value) for name, value in {**common, "PROCID": rank, "LOCALID": rank}.items()}
        environment = {**names, "KILLED": "" if rank else kill.name}
        tasks.append(SERVER.Process(target=step_of_srun, args=(environment, values, str(folder))))
        tasks[-1].start()
        (folder / f"pid-{rank}").write_text(str(tasks[-1].pid))
    for task in tasks:
        task.join(120)
    return [task.exitcode for task in tasks]


def test_a_step_of_srun_is_queued_again_once(config, tmp_path):
    """The first one's handler exits: the other must not end before it has."""
    assert run_step_of_srun(config, tmp_path, USR2) == [99, 128 + USR2]
    assert (tmp_path / "handled").read_text() == "SIGUSR2\n"
    [(_, saved)] = events(tmp_path, "preempted")
    assert saved in (3, 4)
    assert not events(tmp_path, "rank_failed")


def test_a_step_of_srun_goes_on_where_the_handler_returns(config, tmp_path):
    """All its tasks together, with what they would have come to anyway."""
    start(2, config, tmp_path / "whole", Start())
    assert run_step_of_srun(config, tmp_path / "run", TERM) == [0, 0]
    told = events(tmp_path / "run", "preempted")
    assert told
    assert {step for _, step in told} <= {3, 4}
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")
    assert_same(tmp_path / "run", tmp_path / "whole")


SCRIPT = """
import sys
from pathlib import Path
from lmk_train import train
from lmk_train.config import TrainConfig
from rank_trainings import FileRecorder
train(TrainConfig.model_validate_json(sys.argv[1]), Path(sys.argv[2]), FileRecorder(Path(sys.argv[2]) / "heard.jsonl"))
"""


def test_ranks_that_a_process_started_stop_with_it(config, tmp_path):
    """The caller alone is told, then a rank alone: either way all save, and the caller ends as it was told."""
    runtime = config.runtime.model_copy(update={"devices": 2, "checkpoint_every": None})
    values = config.model_copy(
        update={"runtime": runtime, "optim": config.optim.model_copy(update={"steps": 100_000})}
    ).model_dump_json()
    script = f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n{SCRIPT}"
    for number in (TERM, USR2):
        begun = len(heard(tmp_path)) if (tmp_path / "heard.jsonl").exists() else 0
        caller = subprocess.Popen([sys.executable, "-c", script, values, str(tmp_path)], stderr=subprocess.PIPE)
        try:
            deadline = time.monotonic() + 120
            while not (tmp_path / "heard.jsonl").exists() or len(heard(tmp_path)) < begun + 4:
                assert time.monotonic() < deadline
                assert caller.poll() is None, caller.stderr.read().decode()
                time.sleep(0.05)
            ranks = [child for child in psutil.Process(caller.pid).children() if CHILD in child.cmdline()]
            assert len(ranks) == 2
            (psutil.Process(caller.pid) if number == TERM else ranks[1]).send_signal(number)
            assert caller.wait(60) == 128 + number
        finally:
            caller.kill()
            caller.communicate()
    kinds = [kind for kind, _ in events(tmp_path, "preempted", "resumed", "rank_failed")]
    assert kinds == ["preempted", "resumed", "preempted"]
    assert len(losses(tmp_path)) == losses(tmp_path)[-1][0], "no step twice with two losses, none left out"

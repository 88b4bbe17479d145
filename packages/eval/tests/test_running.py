"""How `evaluate` behaves: models, names, failures, the network, global state."""

from __future__ import annotations

import logging
import random
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from lmk_core import Embedder, PoolingConfig, PoolingConfigError
from lmk_eval import EvaluationError, Suite, Task


def test_a_vector_that_is_not_finite(run, toy_folder, make_oracle, tmp_path):
    model = make_oracle()
    model.vectors["where is of"] = model.vectors["where is of"] * np.nan
    with pytest.raises(EvaluationError, match=r"task 'toy': .*1 of 5 vectors hold NaN or infinity.*'where is of'"):
        run(model, Suite.from_folder("toy", toy_folder), tmp_path / "out")


def test_out_of_memory_keeps_its_type(run, toy_folder, make_oracle, tmp_path, monkeypatch):
    model = make_oracle()

    def fail(*args, **kwargs):
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(model, "encode", fail)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        run(model, Suite.from_folder("toy", toy_folder), tmp_path / "out")
    assert caught.value.__notes__ == ["in task 'toy'"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"revision": "a/b"}, "revision 'a/b'"),
        ({"revision": ".."}, "revision"),
        ({"name": "a/../b"}, "model name '..'"),
    ],
)
def test_names_are_checked(run, toy_folder, make_oracle, tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        run(make_oracle(), Suite.from_folder("toy", toy_folder), tmp_path / "out", **changes)


def test_missing_data_is_told_before_anything_is_encoded(run, toy_folder, make_oracle, tmp_path):
    model = make_oracle()
    tasks = (Task(name="toy", folder=str(toy_folder)), Task(name="dev", folder=str(toy_folder), split="dev"))
    with pytest.raises(EvaluationError, match=r"task 'dev': .*splits in the folder: test"):
        run(model, Suite(name="two", tasks=tasks), tmp_path / "out")
    assert not model.calls


def test_a_real_model_in_two_readings(run, tiny_model, toy_folder, tmp_path, remembering, monkeypatch):
    """From a folder, with sockets blocked; the reading is part of where results are kept."""

    def blocked(self, address):
        raise AssertionError(f"asked for {address}")

    monkeypatch.setattr(socket.socket, "connect", blocked)
    suite, out = Suite.from_folder("toy", toy_folder), tmp_path / "out"
    saved = Embedder.from_pretrained(tiny_model, "landmark", 4, 64).save_pretrained(tmp_path / "model")
    own = run(saved, suite, out, recorder=remembering)
    mean = PoolingConfig("mean")
    other = run(saved, suite, out, pooling=mean)
    assert own != other
    assert len(list((out / "results").rglob("local.toy.json"))) == 2
    embedder = Embedder.from_pretrained(saved)
    assert run(embedder, suite, tmp_path / "again") == own
    assert run(embedder.with_pooling(mean), suite, tmp_path / "again") == other
    assert run(tiny_model, suite, tmp_path / "plain", pooling=mean) == other
    assert run(tiny_model, suite, tmp_path / "plain", pooling=PoolingConfig("landmark", granularity=4)) == own
    assert remembering.steps == [(12, 17, "text"), (17, 17, "text")]
    with pytest.raises(ValueError, match="no saved pooling"):
        run(tiny_model, suite, tmp_path / "plain")


def test_random_latents_are_never_read(run, tiny_model, toy_folder, tmp_path):
    suite, latent = Suite.from_folder("toy", toy_folder), PoolingConfig("latent_attention", num_latents=4)
    with pytest.raises(PoolingConfigError, match="has no trained latents") as caught:
        run(tiny_model, suite, tmp_path / "out", pooling=latent)
    assert caught.value.key == "kind"
    saved = Embedder.from_pretrained(tiny_model, "mean").save_pretrained(tmp_path / "mean")
    with pytest.raises(PoolingConfigError, match="no trained latents"):
        run(saved, suite, tmp_path / "out", pooling=latent)
    assert not list((tmp_path / "out").rglob("*.json"))
    trained = Embedder.from_pretrained(tiny_model, latent).save_pretrained(tmp_path / "latent")
    own = run(trained, suite, tmp_path / "out")
    assert run(trained, suite, tmp_path / "again", pooling=latent) == own


def test_what_a_recorder_raises_ends_the_evaluation(run, toy_folder, make_oracle, tmp_path, remembering, monkeypatch):
    def full(*args, **fields):
        raise OSError("disk full")

    monkeypatch.setattr(remembering, "event", full)
    with pytest.raises(EvaluationError, match="task 'toy': OSError: disk full"):
        run(make_oracle(), Suite.from_folder("toy", toy_folder), tmp_path / "out", recorder=remembering)


def test_leaves_no_global_state(run, toy_folder, make_oracle, tmp_path, capfd):
    from datasets.utils import are_progress_bars_disabled

    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    wanted = [random.random(), np.random.rand(), torch.rand(1).item()]
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    level = logging.getLogger("mteb").level
    run(make_oracle(), Suite.from_folder("toy", toy_folder), tmp_path / "out")
    assert [random.random(), np.random.rand(), torch.rand(1).item()] == wanted
    assert logging.getLogger("mteb").level == level
    assert not are_progress_bars_disabled()
    assert capfd.readouterr() == ("", "")


def test_a_fresh_process_says_nothing(run, toy_folder, tiny_model, tmp_path):
    code = (
        "import sys; from pathlib import Path\n"
        "from lmk_core import PoolingConfig; from lmk_eval import Suite, evaluate\n"
        "suite = Suite.from_folder('toy', sys.argv[2])\n"
        "evaluate(sys.argv[1], suite, folder=Path(sys.argv[3]), name='m', revision='r', max_length=64,\n"
        "         pooling=PoolingConfig('mean'))"
    )
    arguments = [sys.executable, "-c", code, str(tiny_model), str(toy_folder), str(tmp_path / "out")]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert Path(tmp_path / "out" / "per_query" / "toy.json.gz").is_file()


@pytest.mark.parametrize("package", ["lmk_eval", "lmk_eval.evaluation", "lmk_eval.tasks", "lmk_eval.encoders"])
def test_what_is_imported_late_is_listed(package):
    code = (
        f"import sys, {package} as package\n"
        "missing = set(package.__all__) - set(dir(package))\n"
        "assert not missing, missing\n"
        "assert not hasattr(package, 'other')\n"
        "assert not {'mteb', 'torch'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_importing_keeps_the_random_states():
    code = (
        "import random, numpy, torch\n"
        "def draw(): return random.random(), numpy.random.rand(), torch.rand(1).item()\n"
        "def seed(): random.seed(1), numpy.random.seed(1), torch.manual_seed(1)\n"
        "seed(); wanted = draw(); seed()\n"
        "from lmk_eval import evaluate\n"
        "import sys; sys.exit(0 if 'mteb' in sys.modules and draw() == wanted else 1)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

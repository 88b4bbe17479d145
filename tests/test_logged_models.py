"""A trained model out of MLflow, in a process that knows nothing but MLflow and lmk-core."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlflow_server import mlflow_server

from lmk_core import Embedder
from lmk_experiments.mirror import sync
from lmk_experiments.records import load_grid, training_cell

TEXTS = ["def add(a, b): return a + b", "", "The coast of Norway is long. " * 12, "ünïcode [SEP] </s>"]
READER = """
import json, sys, warnings
import numpy as np, pandas as pd, mlflow, mlflow.pyfunc
warnings.simplefilter("error", UserWarning)
address, uri, out, texts = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
mlflow.set_tracking_uri(address)
model = mlflow.pyfunc.load_model(uri)
given = {
    "list": (texts, None), "series": (pd.Series(texts, index=range(5, 5 + len(texts))), None),
    "frame": (pd.DataFrame({"text": texts, "number": range(len(texts))}), None), "array": (np.array(texts), None),
    "one": (texts[0], None), "short": (texts, {"max_length": 8}), "granularity": (texts, {"granularity": 4}),
    "dim": (texts, {"dim": 4}), "named": (texts, {"prompt_name": "query"}), "prompt": (texts, {"prompt": "find: "}),
}
np.savez(out, **{name: model.predict(data, params=params) for name, (data, params) in given.items()})
bad = {
    "numbers": ([1, 2], None), "nothing": (["a", None], None), "length": (texts, {"max_length": "long"}),
    "name": (texts, {"prompt_name": "title"}), "huge": (texts, {"dim": 10**6}),
}
errors = {}
for name, (data, params) in bad.items():
    try:
        model.predict(data, params=params)
    except Exception as error:
        errors[name] = str(error)
ours = sorted({name.partition(".")[0] for name in sys.modules if name.startswith("lmk_")})
print(json.dumps({"errors": errors, "ours": ours}))
"""


def read_elsewhere(address: str, uri: str, out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    command = [sys.executable, "-c", READER, address, uri, str(out), json.dumps(TEXTS)]
    environment = {**os.environ, "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=out.parent)
    assert done.returncode == 0, done.stderr
    return dict(np.load(out)), json.loads(done.stdout.splitlines()[-1])


def landmark_training(runs: Path) -> Path:
    """The folder of the mini grid's landmark model."""
    (identity,) = (one.id for one in load_grid(runs, "mini").trainings if one.row == "lmk-var")
    return training_cell(runs, identity).folder


def run_of(cell: Path) -> str:
    return json.loads((cell / "mlflow.json").read_text())["run_id"]


def expected(model: Path) -> dict[str, np.ndarray]:
    embedder = Embedder.from_pretrained(model, device="cpu")
    plain = embedder.encode(TEXTS)
    return {
        **dict.fromkeys(("list", "series", "frame", "array"), plain),
        "one": embedder.encode(TEXTS[:1]),
        "short": embedder.encode(TEXTS, max_length=8),
        "granularity": embedder.with_granularity(4).encode(TEXTS),
        "dim": embedder.encode(TEXTS, dim=4),
        "named": embedder.encode(TEXTS, prompt=embedder.prompts["query"]),
        "prompt": embedder.encode(TEXTS, prompt="find: "),
    }


def test_a_logged_model_gives_what_the_embedder_gives(finished: Path, tmp_path: Path) -> None:
    runs = finished / "runs"
    cell = landmark_training(runs)
    vectors, said = read_elsewhere(f"sqlite:///{runs / 'mlflow.db'}", f"runs:/{run_of(cell)}/model", tmp_path / "a.npz")
    wanted = expected(cell / "model")
    assert vectors.keys() == wanted.keys()
    for name, value in wanted.items():
        assert vectors[name].dtype == np.float32
        np.testing.assert_allclose(vectors[name], value, atol=1e-6, rtol=0, err_msg=name)
    # The parameters do something, or the equality above would say nothing of them.
    for name in ("short", "granularity", "prompt"):
        assert np.abs(vectors[name] - vectors["list"]).max() > 1e-3
    assert said["ours"] == ["lmk_core"]
    errors = said["errors"]
    assert "Can not safely convert int64" in errors["numbers"]
    assert re.search("row 1: (None|nan) is no text", errors["nothing"])  # pandas makes one of the other
    assert "max_length" in errors["length"]
    assert "prompt_name: 'title'; valid: document, query" in errors["name"]
    assert "valid: 1 to 32" in errors["huge"]


def test_a_server_gets_them_where_all_are_asked_for(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted in the middle of a model, the upload goes on with what is missing of it."""
    runs = tmp_path / "runs"
    shutil.copytree(finished / "runs", runs, ignore=shutil.ignore_patterns("mlflow*"))
    monkeypatch.setattr("lmk_experiments.mirror.models.place._SAY_FROM_BYTES", 0)
    said: list[str] = []

    def stop_behind_the_weights(line: str) -> None:
        said.append(line)
        if "uploading modeling_lmk.py" in line:
            raise KeyboardInterrupt

    with mlflow_server(f"sqlite:///{tmp_path / 'server.db'}", tmp_path / "artifacts") as server:
        (note,) = sync(runs, uri=server.url).notes
        assert "left out: 3 models" in note
        with pytest.raises(KeyboardInterrupt):
            sync(runs, uri=server.url, models="all", progress=stop_behind_the_weights)
        begun = sum("uploading the model of" in line for line in said)  # only the landmark model has that file
        assert 1 <= begun == sum("uploading model.safetensors" in line for line in said)
        said.clear()
        report = sync(runs, uri=server.url, models="all", progress=said.append)
        assert report.warnings == report.notes == []
        assert sum("uploading the model of" in line for line in said) == 3 - (begun - 1)
        assert sum("uploading model.safetensors" in line for line in said) == 3 - begun
        assert sync(runs, uri=server.url, models="all").writes == 0
        cell = landmark_training(runs)
        vectors, _ = read_elsewhere(server.url, f"runs:/{run_of(cell)}/model", tmp_path / "a.npz")
    np.testing.assert_allclose(vectors["list"], expected(cell / "model")["list"], atol=1e-6, rtol=0)

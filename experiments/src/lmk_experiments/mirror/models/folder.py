"""What a logged model consists of, beside the trained model itself: its description, made without loading a weight."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmk_experiments.records import read_json

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel
    from mlflow.models import ModelSignature

CODE = Path(__file__).with_name("encoder.py")
MODEL = "artifacts/model"
"""Where the trained model's own folder stands in the logged one."""
_PINNED = ("lmk-core", "torch", "transformers", "mlflow")
_EXAMPLE = ["How long is the coast of Norway?", "A landmark closes each chunk of a text."]


def requirements() -> list[str]:
    """What reading the model needs, at the versions of here; no look at what is imported.

    A build's local label (``+cpu``) is left out: indexes of packages do not have it.
    """
    return [f"{name}=={version(name).partition('+')[0]}" for name in _PINNED]


def signature(model: Path) -> ModelSignature:
    """Strings in, float32 [-1, dim] out; parameters are those of ``Embedder.encode``, ``None`` where none is given."""
    import numpy as np
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema, TensorSpec

    saved = read_json(model / "lmk_config.json") or {}
    settings = read_json(model / "config.json") or {}
    params = [
        ParamSpec("max_length", "long", saved.get("max_length")),
        ParamSpec("batch_tokens", "long", None),
        ParamSpec("dim", "long", None),
        ParamSpec("prompt", "string", None),
        ParamSpec("prompt_name", "string", None),
        ParamSpec("include_prompt", "boolean", None),
        ParamSpec("bf16", "boolean", None),
    ]
    if saved.get("pooling", {}).get("kind") == "landmark":
        params.insert(1, ParamSpec("granularity", "long", None))
    # Without a name, so that a list, an array, a series and the first column of a table all fit.
    return ModelSignature(
        inputs=Schema([ColSpec("string")]),
        outputs=Schema([TensorSpec(np.dtype(np.float32), (-1, int(settings.get("hidden_size", -1))))]),
        params=ParamSchema(params),
    )


def describe(folder: Path, model: Path, logged: LoggedModel, run_id: str, created: str) -> None:
    """Write into ``folder`` all of the logged model but ``MODEL``: nothing is pickled, and no weight is read.

    Args:
        folder: does not exist yet.
        model: the trained model's folder.
        created: when it was trained, so that a description is the same whenever it is written.
    """
    import mlflow.pyfunc
    from mlflow.models import Model

    description = Model(
        artifact_path=logged.artifact_location,
        run_id=run_id,
        model_id=logged.model_id,
        model_uuid=logged.model_id,
        utc_time_created=created,
    )
    with _no_project_files():
        mlflow.pyfunc.save_model(
            folder,
            python_model=str(CODE),
            mlflow_model=description,
            signature=signature(model),
            input_example=_EXAMPLE,
            pip_requirements=requirements(),
            model_config={"device": "auto"},
        )
    # MLflow would copy the weights twice to note this line; they are put where it points by hand.
    flavor: dict[str, Any] = description.flavors["python_function"]
    flavor["artifacts"] = {"model": {"path": MODEL, "uri": MODEL}}
    flavor["model_code_path"] = CODE.name
    description.model_size_bytes = sum(file.stat().st_size for file in files_of(model))
    description.save(str(folder / "MLmodel"))


def files_of(folder: Path) -> list[Path]:
    """Every file below ``folder``, in a fixed order."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


@contextmanager
def _no_project_files() -> Generator[None]:
    """MLflow would put the ``uv.lock`` and ``pyproject.toml`` of wherever we stand into the model."""
    before = os.environ.get("MLFLOW_UV_AUTO_DETECT")
    os.environ["MLFLOW_UV_AUTO_DETECT"] = "false"
    try:
        yield
    finally:
        if before is None:
            del os.environ["MLFLOW_UV_AUTO_DETECT"]
        else:
            os.environ["MLFLOW_UV_AUTO_DETECT"] = before

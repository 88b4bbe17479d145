"""Encodes texts with the model in this folder. MLflow runs this file when it loads the model; it needs lmk-core."""

from __future__ import annotations

import warnings
from typing import Any

import mlflow
import numpy as np

with warnings.catch_warnings(record=True):
    # MLflow asks for a type on every input, and checks those few that it knows; this model has a signature. It sets a
    # filter of its own before it says so: what is recorded is not printed.

    class TextEncoder(mlflow.pyfunc.PythonModel):
        """What ``mlflow.pyfunc.load_model`` gives: ``predict(texts, params)`` is what ``Embedder.encode`` gives."""

        def load_context(self, context: Any) -> None:
            """Open the saved model; ``load_model(..., model_config={"device": "cpu"})`` says where."""
            from lmk_core import Embedder

            device = (context.model_config or {}).get("device", "auto")
            self.embedder = Embedder.from_pretrained(
                context.artifacts["model"], device=None if device == "auto" else str(device)
            )

        def predict(self, context, model_input, params: dict[str, Any] | None = None) -> np.ndarray:  # noqa: ANN001, ARG002
            """Embed the texts of the first column: float32 [n, dim], each row of length 1.

            Args:
                context: MLflow's own.
                model_input: a table with one text a row; MLflow makes it of lists, arrays and series of strings.
                params: see the model's signature; what is ``None`` is as the model was saved.
            """
            given = {key: value for key, value in (params or {}).items() if value is not None}
            embedder = self.embedder
            granularity = given.pop("granularity", None)
            if granularity is not None:
                embedder = embedder.with_granularity(granularity)
            name = given.pop("prompt_name", None)
            if name is not None:
                if name not in embedder.prompts:
                    valid = ", ".join(sorted(embedder.prompts)) or "none, the model was saved without prompts"
                    raise ValueError(f"prompt_name: {name!r}; valid: {valid}")
                if "prompt" in given:
                    raise ValueError("prompt and prompt_name: give one of the two")
                given["prompt"] = embedder.prompts[name]
            texts = list(model_input.iloc[:, 0])
            for row, text in enumerate(texts):
                if not isinstance(text, str):
                    raise TypeError(
                        f"row {row}: {text!r} is no text; pass a list of texts, or a table with one text a row"
                    )
            return embedder.encode(texts, **given)


mlflow.models.set_model(TextEncoder())

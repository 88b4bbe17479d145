"""From what a user types to a grid's name."""

from __future__ import annotations

from pathlib import Path


def grid_name(typed: str) -> str:
    """The name in a grid file, or what was typed where it is no file: a grid that was run needs its file no more."""
    path = Path(typed)
    if path.suffix in {".yaml", ".yml"}:
        from lmk_experiments.configs import load_document

        return str(load_document(path).value.get("grid", path.stem))
    return typed

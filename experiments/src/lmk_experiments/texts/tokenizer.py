"""Open a tokenizer alone, without its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "*.model")
"""One of them is in every tokenizer's folder, also of those from before there was `tokenizer.json`."""


def open_tokenizer(name: str) -> Any:
    """The fast tokenizer of a folder, or of a name on the hub.

    Raises:
        ValueError: naming ``--tokenizer``: there is none.
    """
    from lmk_experiments.grids.local import refuse_missing_path  # with all that a grid may hold, which takes long

    refuse_missing_path("--tokenizer", name)
    from transformers import AutoTokenizer

    local = Path(name).expanduser()
    if local.is_dir() and not any(next(local.glob(pattern), None) for pattern in _FILES):
        raise ValueError(f"--tokenizer {name}: no tokenizer.json in this folder, nor any of {', '.join(_FILES[1:])}")
    try:
        return AutoTokenizer.from_pretrained(str(local) if local.exists() else name, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"--tokenizer {name}: no tokenizer can be read there: {str(error).splitlines()[0]}") from error

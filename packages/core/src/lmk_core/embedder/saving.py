"""The folder of a saved model.

The encoder and the tokenizer as transformers saves them, ``lmk_config.json`` (pooling, max_length, overflow, the
sentence splitter if there is one, and the version that wrote it), and ``reduction.safetensors`` when the reduction has
parameters.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import lmk_core
from lmk_core.encoders import PooledEncoder
from lmk_core.layouts import PoolingTokenizer
from lmk_core.layouts.sentences import splitter_to_text
from lmk_core.pooling import PoolingConfig, PoolingConfigError

CONFIG_FILE = "lmk_config.json"
REDUCTION_FILE = "reduction.safetensors"


class SavedModelError(ValueError):
    """A folder that cannot be written or read as a saved model."""


@dataclass(frozen=True)
class SavedConfig:
    """What ``lmk_config.json`` says."""

    pooling: PoolingConfig
    max_length: int
    sentence_splitter: str | None = None
    """As `splitter_to_text` gives it; None if the model has none."""


def find_file(name_or_path: str, file: str, revision: str | None = None) -> Path | None:
    """A file of a folder or of a repository on the Hub, or None if it has no such file."""
    if Path(name_or_path).is_dir():
        path = Path(name_or_path) / file
        return path if path.is_file() else None
    from transformers.utils import cached_file

    found = cached_file(
        name_or_path,
        file,
        revision=revision,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
        _raise_exceptions_for_gated_repo=False,
    )
    return None if found is None else Path(str(found))


def read_config(name_or_path: str, revision: str | None = None) -> SavedConfig | None:
    """Read ``lmk_config.json``; None if there is none, that is for a plain model of transformers.

    Raises:
        SavedModelError: if the file is not what `write_model` writes.
    """
    path = find_file(name_or_path, CONFIG_FILE, revision)
    if path is None:
        return None
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        pooling = PoolingConfig.from_dict(values["pooling"])
        max_length = values["max_length"]
        splitter = values.get("sentence_splitter")
    except (json.JSONDecodeError, KeyError, TypeError, PoolingConfigError) as error:
        raise SavedModelError(
            f"{path}: {type(error).__name__}: {error}; expected the keys pooling, max_length"
        ) from error
    if not isinstance(max_length, int) or max_length < 2:
        raise SavedModelError(f"{path}: max_length: {max_length!r}; expected an integer of at least 2")
    if splitter is not None and not isinstance(splitter, str):
        raise SavedModelError(f"{path}: sentence_splitter: {splitter!r}; expected a string")
    return SavedConfig(pooling, max_length, splitter)


def read_reduction(name_or_path: str, module: PooledEncoder, revision: str | None = None) -> None:
    """Load the reduction's weights, if it has any.

    Raises:
        SavedModelError: if they are missing.
    """
    if not module.reduction.state_dict():
        return
    from safetensors.torch import load_file

    path = find_file(name_or_path, REDUCTION_FILE, revision)
    if path is None:
        raise SavedModelError(f"{name_or_path}: {REDUCTION_FILE} is missing; the reduction would be random")
    module.reduction.load_state_dict(load_file(path))


def write_model(folder: str | Path, module: PooledEncoder, tokenizer: PoolingTokenizer) -> Path:
    """Write a model folder: first beside its place, then renamed into it, so that it is never half there.

    Raises:
        SavedModelError: if ``folder`` is a file, or holds something else than a saved model.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise SavedModelError(f"{folder}: is a file")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / CONFIG_FILE).is_file():
        raise SavedModelError(
            f"{folder}: not empty and no saved model ({CONFIG_FILE} is missing); will not overwrite it"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    token = uuid4().hex[:8]
    new = folder.parent / f".{folder.name}.new-{token}"
    try:
        _write_files(new, module, tokenizer)
        _replace(folder, new, folder.parent / f".{folder.name}.old-{token}")
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return folder


def _write_files(folder: Path, module: PooledEncoder, tokenizer: PoolingTokenizer) -> None:
    from safetensors.torch import save_file

    encoder: Any = module.encoder
    encoder.save_pretrained(folder)
    tokenizer.hf_tokenizer.save_pretrained(folder)
    weights = {name: value.detach().cpu().contiguous() for name, value in module.reduction.state_dict().items()}
    if weights:
        save_file(weights, folder / REDUCTION_FILE)
    config = {
        "lmk_core": lmk_core.__version__,
        "pooling": module.pooling.to_dict(),
        "max_length": tokenizer.max_length,
        "overflow": module.pooling.overflow,
    }
    if tokenizer.sentence_splitter is not None:
        config["sentence_splitter"] = splitter_to_text(tokenizer.sentence_splitter)
    (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _replace(folder: Path, new: Path, old: Path) -> None:
    """Put ``new`` where ``folder`` is, or leave ``folder`` as it was."""
    try:
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    except BaseException:
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)

"""The folder of a saved model.

The encoder and the tokenizer as transformers saves them, ``lmk_config.json`` (pooling, max_length, overflow, the
sentence splitter if there is one, and the version that wrote it), ``reduction.safetensors`` when the reduction has
parameters, the files by which Sentence Transformers opens it (`lmk_core.hub.folder`), and a model card.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from lmk_core.encoders import PooledEncoder, save_encoder
from lmk_core.hub.card import CardFacts, model_card
from lmk_core.hub.config import CONFIG_FILE, REDUCTION_FILE, SavedConfig, SavedModelError
from lmk_core.hub.find import find_file
from lmk_core.hub.folder import (
    LAYOUT_POOLING_FOLDER,
    MODEL_FILE,
    read_include_prompt,
    read_own_modules,
    read_prompts,
    write_sentence_transformer,
)
from lmk_core.layouts import PoolingTokenizer
from lmk_core.layouts.sentences import splitter_to_text


@dataclass(frozen=True)
class ForOthers:
    """What a saved folder tells its readers besides the model itself."""

    prompts: Mapping[str, str] = field(default_factory=dict)
    """By name, for Sentence Transformers."""
    training: Mapping[str, Any] | None = None
    """The training's configuration, for the card."""
    card: Mapping[str, Any] | None = None
    """See `model_card`."""
    include_prompt: bool = True
    """Whether a prompt's positions are pooled."""


def read_config(name_or_path: str, revision: str | None = None) -> SavedConfig | None:
    """Read ``lmk_config.json``, or what Sentence Transformers wrote; None for a plain model of transformers.

    Raises:
        SavedModelError: if the file is not what `write_model` writes.
    """
    path = find_file(name_or_path, CONFIG_FILE, revision)
    if path is None:
        return read_own_modules(lambda file: find_file(name_or_path, file, revision))
    return SavedConfig.read(path)


def read_reduction(name_or_path: str, module: PooledEncoder, revision: str | None = None) -> None:
    """Load the reduction's weights, if it has any.

    Raises:
        SavedModelError: if they are missing.
    """
    if not module.reduction.state_dict():
        return
    from safetensors.torch import load_file

    # First where Sentence Transformers writes it: what it trained is newer than what was there before.
    places = (f"{LAYOUT_POOLING_FOLDER}/{REDUCTION_FILE}", REDUCTION_FILE)
    path = next((found for place in places if (found := find_file(name_or_path, place, revision))), None)
    if path is None:
        raise SavedModelError(f"{name_or_path}: {REDUCTION_FILE} is missing; the reduction would be random")
    module.reduction.load_state_dict(load_file(path))


def read_saved_prompts(name_or_path: str, revision: str | None = None) -> tuple[dict[str, str], bool]:
    """The prompts of a saved model, by name, and whether they are pooled."""

    def find(file: str) -> Path | None:
        return find_file(name_or_path, file, revision)

    return read_prompts(find(MODEL_FILE)), read_include_prompt(find)


def write_model(
    folder: str | Path, module: PooledEncoder, tokenizer: PoolingTokenizer, others: ForOthers | None = None
) -> Path:
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
        _write_files(new, module, tokenizer, others or ForOthers())
        _replace(folder, new, folder.parent / f".{folder.name}.old-{token}")
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return folder


def _write_files(folder: Path, module: PooledEncoder, tokenizer: PoolingTokenizer, others: ForOthers) -> None:
    from safetensors.torch import save

    encoder: Any = module.encoder
    save_encoder(encoder, folder)
    tokenizer.hf_tokenizer.save_pretrained(folder)
    weights = {name: value.detach().cpu().contiguous() for name, value in module.reduction.state_dict().items()}
    if weights:
        (folder / REDUCTION_FILE).write_bytes(save(weights))
    splitter = None if tokenizer.sentence_splitter is None else splitter_to_text(tokenizer.sentence_splitter)
    SavedConfig(module.pooling, tokenizer.max_length, splitter).write(folder)
    no_flag = write_sentence_transformer(folder, module.encoder, tokenizer, others.prompts, others.include_prompt)
    facts = CardFacts(tokenizer, module.dim, no_flag, encoder.config._name_or_path, others.prompts)
    (folder / "README.md").write_text(model_card(facts, others.card, others.training), encoding="utf-8")


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

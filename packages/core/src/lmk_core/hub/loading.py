"""A saved model as a ``SentenceTransformer``, without running any code of its folder."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmk_core.hub.config import SavedModelError
from lmk_core.hub.find import find_file
from lmk_core.hub.travelling import MODULE_NAME, travelling_source

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_OF_MODULES = (
    *("model_kwargs", "processor_kwargs", "config_kwargs", "backend"),
    *("token", "cache_folder", "local_files_only"),
)
_OWN = ("LayoutTransformer", "LayoutPooling")


def load_sentence_transformer(
    name_or_path: str | Path, *, revision: str | None = None, **options: Any
) -> SentenceTransformer:
    """Open a saved model in Sentence Transformers, without ``trust_remote_code``.

    The modules are of this package, not of the file that travels in the folder: no code of the model's runs. What it
    saves again carries that file, as if it had been opened with ``trust_remote_code=True``.

    Args:
        name_or_path: a folder written by `Embedder.save_pretrained` or by Sentence Transformers from such a model, or
            a name on the Hugging Face Hub.
        revision: of the Hub's repository.
        options: of ``SentenceTransformer``, such as ``device``, ``prompts``, ``truncate_dim`` or ``model_kwargs``.

    Raises:
        SavedModelError: if it is no saved model.
        ImportError: if Sentence Transformers is not installed.
    """
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise ImportError(
            "load_sentence_transformer needs Sentence Transformers: pip install 'lmk-core[sentence-transformers]'"
        ) from error
    name = str(name_or_path)
    path = find_file(name, "modules.json", revision)
    if path is None:
        raise SavedModelError(f"{name}: modules.json is missing; save it with Embedder.save_pretrained")
    listed = json.loads(path.read_text(encoding="utf-8"))
    if not any(entry["type"].startswith(f"{MODULE_NAME}.") for entry in listed):
        return SentenceTransformer(name, revision=revision, trust_remote_code=False, **options)
    # Of loading a module; with modules that are there SentenceTransformer passes over them in silence.
    if "tokenizer_kwargs" in options:
        options["processor_kwargs"] = options.pop("tokenizer_kwargs")
    how = {key: options.pop(key) for key in _OF_MODULES if key in options}
    loaded = [
        _class(entry["type"], name).load(name, subfolder=entry["path"], revision=revision, **how) for entry in listed
    ]
    config = find_file(name, "config_sentence_transformers.json", revision)
    saved = {} if config is None else json.loads(config.read_text(encoding="utf-8"))
    names = ("prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim")
    saved = {key: saved[key] for key in names if saved.get(key) is not None}
    return SentenceTransformer(modules=loaded, **(saved | options))


def _class(kind: str, name: str) -> Any:
    from sentence_transformers.util import import_from_string

    if kind in [f"{MODULE_NAME}.{own}" for own in _OWN]:
        return _own_class(kind)
    if kind.startswith("sentence_transformers."):
        return import_from_string(kind)
    raise SavedModelError(
        f"{name}: modules.json: {kind} is neither of lmk-core nor of Sentence Transformers; if you trust its code, "
        "open it with SentenceTransformer(..., trust_remote_code=True)"
    )


def _own_class(kind: str) -> Any:
    """A class of `travelling_source`, made as from a model's folder: so saving and other processes find its file."""
    from transformers.dynamic_module_utils import get_class_from_dynamic_module

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "lmk_core"
        place.mkdir()
        (place / f"{MODULE_NAME}.py").write_text(travelling_source(), encoding="utf-8")
        return get_class_from_dynamic_module(kind, place)

"""The files by which Sentence Transformers opens a saved model, beside those of the encoder and the tokenizer."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from torch import nn
from transformers import AutoTokenizer

from lmk_core.hub.config import SavedConfig
from lmk_core.hub.travelling import MODULE_NAME, travelling_source
from lmk_core.layouts import PoolingTokenizer
from lmk_core.pooling import PoolingConfig

MODEL_FILE = "config_sentence_transformers.json"
_ST = "sentence_transformers"
_POOLING_FOLDER = "1_Pooling"
LAYOUT_POOLING_FOLDER = "1_LayoutPooling"
_NORMALIZE_FOLDER = "2_Normalize"
# Tokenizers without a limit say 10**30.
_LONGEST = 10**7


def write_sentence_transformer(
    folder: Path,
    encoder: nn.Module,
    tokenizer: PoolingTokenizer,
    prompts: Mapping[str, str],
    include_prompt: bool = True,
) -> bool:
    """Write the files into a folder that holds the encoder and the tokenizer already.

    A "cls" or "mean" model gets Sentence Transformers' own modules, which open without a flag, if its tokenizer lays
    texts out as this package does; anything else gets ours, and the file with their source.

    Args:
        folder: of the model.
        encoder: for its width.
        tokenizer: its strategy and length.
        prompts: by name; "query" and "document" are those of ``encode_query`` and ``encode_document``.
        include_prompt: whether a prompt's positions are pooled.

    Returns:
        Whether it opens without a flag.
    """
    _adapt_tokenizer(folder, tokenizer)
    own = tokenizer.pooling.kind in ("cls", "mean") and _made_alike(folder, tokenizer)
    dim = int(_hidden_size(encoder))
    _write(folder / "sentence_bert_config.json", _transformer_config(encoder, tokenizer.max_length))
    _write(folder / MODEL_FILE, _model_config(prompts))
    if own:
        names = [f"{_ST}.base.modules.Transformer", f"{_ST}.{_ST[:-1]}.modules.Pooling"]
        pooling = {"embedding_dimension": dim, "pooling_mode": tokenizer.pooling.kind, "include_prompt": include_prompt}
    else:
        names = [f"{MODULE_NAME}.LayoutTransformer", f"{MODULE_NAME}.LayoutPooling"]
        pooling = {"embedding_dimension": dim, "include_prompt": include_prompt, "pooling": tokenizer.pooling.to_dict()}
        (folder / f"{MODULE_NAME}.py").write_text(travelling_source(), encoding="utf-8")
    places = ["", _POOLING_FOLDER if own else LAYOUT_POOLING_FOLDER, _NORMALIZE_FOLDER]
    names.append(f"{_ST}.base.modules.Normalize")
    modules = [
        {"idx": index, "name": str(index), "path": place, "type": name}
        for index, (place, name) in enumerate(zip(places, names, strict=True))
    ]
    _write(folder / "modules.json", modules)
    _write(folder / places[1] / "config.json", pooling)
    _write(folder / _NORMALIZE_FOLDER / "config.json", {"module_input_name": "sentence_embedding"})
    return own


def read_own_modules(find: Callable[[str], Path | None]) -> SavedConfig | None:
    """The strategy of a model of Sentence Transformers' own modules: an encoder, "cls" or "mean", and perhaps norms.

    Sentence Transformers writes no ``lmk_config.json`` when it has trained a model of these.

    Args:
        find: from a file's name in the model's folder to its path, or None.

    Returns:
        None for any other model.
    """
    path = find("modules.json")
    modules = [] if path is None else _read(path)
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    if kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in ([], ["Normalize"]):
        return None
    pooling, tokenizer = find(f"{modules[1]['path']}/config.json"), find("tokenizer_config.json")
    if not modules[0]["type"].startswith(f"{_ST}.") or pooling is None or tokenizer is None:
        return None
    kind, length = _read(pooling).get("pooling_mode"), _read(tokenizer).get("model_max_length")
    if kind not in ("cls", "mean") or not isinstance(length, int) or not 2 <= length <= _LONGEST:
        return None
    return SavedConfig(PoolingConfig(kind), length)


def read_prompts(path: Path | None) -> dict[str, str]:
    """The prompts of a ``config_sentence_transformers.json``; none without the file."""
    return {} if path is None else dict(_read(path).get("prompts") or {})


def read_include_prompt(find: Callable[[str], Path | None]) -> bool:
    """Whether the pooling of Sentence Transformers' modules includes prompts, as it does where nothing is said."""
    found = (find(f"{folder}/config.json") for folder in (LAYOUT_POOLING_FOLDER, _POOLING_FOLDER))
    path = next((path for path in found if path is not None), None)
    return path is None or _read(path).get("include_prompt", True) is not False


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _adapt_tokenizer(folder: Path, tokenizer: PoolingTokenizer) -> None:
    """Make the saved tokenizer's plain call cut, pad and read special tokens' characters as this package does."""
    path = folder / "tokenizer_config.json"
    config = _read(path)
    config |= {
        "model_max_length": tokenizer.max_length,
        "split_special_tokens": True,
        "padding_side": "right",
        "truncation_side": "right",
    }
    if tokenizer.hf_tokenizer.pad_token_id is None:
        config["pad_token"] = tokenizer.hf_tokenizer.convert_ids_to_tokens(tokenizer.tokens.pad)
    _write(path, config)


def _made_alike(folder: Path, tokenizer: PoolingTokenizer) -> bool:
    """Whether the saved tokenizer lays texts out as this package does, or could be told to."""
    path = folder / "tokenizer.json"
    if _lays_out_alike(folder, tokenizer):
        return True
    if not path.is_file():
        return False
    before = path.read_bytes()
    known = tokenizer.hf_tokenizer.convert_ids_to_tokens
    ids = [token for token in (tokenizer.tokens.first, tokenizer.tokens.landmark) if token is not None]
    last, single = known(tokenizer.tokens.landmark), ["$A", known(tokenizer.tokens.landmark)]
    single = single if tokenizer.tokens.first is None else [known(tokenizer.tokens.first), *single]
    specials = [(known(token), token) for token in ids]
    backend = Tokenizer.from_file(str(path))
    backend.post_processor = TemplateProcessing(single=single, pair=[*single, "$B", last], special_tokens=specials)
    backend.save(str(path))
    alike = _lays_out_alike(folder, tokenizer)
    if not alike:
        path.write_bytes(before)
    return alike


def _lays_out_alike(folder: Path, tokenizer: PoolingTokenizer) -> bool:
    """Whether the saved tokenizer's own call gives CLS text SEP, as Sentence Transformers will call it."""
    saved: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    ours = PoolingTokenizer(saved, PoolingConfig("mean"), tokenizer.max_length)
    specials = " a ".join(saved.all_special_tokens)
    texts = ["", "a", f" a  b\n{specials} ", "a b c d e f g h i j " * 3]
    for length in {16, tokenizer.max_length}:
        found = saved(texts, padding=True, truncation="longest_first", max_length=length, return_tensors="np")
        wanted = ours.pad(ours.layouts(texts, max_length=length))
        masks = found["attention_mask"] == 1, wanted["attention_mask"].numpy() == 1
        if masks[0].shape != masks[1].shape or (masks[0] != masks[1]).any():
            return False
        if (found["input_ids"][masks[0]] != wanted["input_ids"].numpy()[masks[1]]).any():
            return False
    return True


def _hidden_size(encoder: Any) -> int:
    return encoder.config.hidden_size


def _transformer_config(encoder: nn.Module, max_length: int) -> dict[str, Any]:
    config: dict[str, Any] = {
        # Said here, it is not lowered to the config's max_position_embeddings, which is no limit of a rotary encoder.
        "max_seq_length": max_length,
        "transformer_task": "feature-extraction",
        "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
        "module_output_name": "token_embeddings",
    }
    if "add_pooling_layer" in inspect.signature(type(encoder).__init__).parameters:
        # A pooler that nothing uses would be random, with a warning, and hinder distributed training.
        config["model_kwargs"] = {"add_pooling_layer": False}
    return config


def _model_config(prompts: Mapping[str, str]) -> dict[str, Any]:
    return {
        "__version__": {"pytorch": str(torch.__version__), "transformers": transformers.__version__},
        "default_prompt_name": None,
        "model_type": "SentenceTransformer",
        "prompts": {"document": "", "query": "", **prompts},
        "similarity_fn_name": "cosine",
    }


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

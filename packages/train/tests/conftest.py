"""A tiny ModernBERT with a tokenizer trained here, rows of an easy task, and a recorder that remembers."""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from lmk_core.layouts import PoolingTokenizer
from lmk_core.pooling import PoolingConfig
from lmk_train.config import TrainConfig

sys.path.insert(0, str(Path(__file__).parent))  # for the helpers that processes started by a test import too
from stopping import Stopped

WORDS = [
    f"{first}{second}"
    for first in ("ka", "lo", "mi", "nu", "re", "so", "ta", "ve")
    for second in ("ba", "do", "gi", "pu")
]


class MemoryRecorder:
    """Keeps everything it is told."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.values: list[tuple[int, dict[str, float]]] = []
        self.steps: list[tuple[int, int, str]] = []

    def event(self, kind: str, **fields: Any) -> None:
        json.dumps(fields, allow_nan=False)
        self.events.append({"event": kind, **fields})

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        json.dumps(dict(values), allow_nan=False)
        self.values.append((step, dict(values)))

    def progress(self, done: int, total: int, unit: str = "step") -> None:
        self.steps.append((done, total, unit))

    def curve(self, name: str) -> dict[int, float]:
        return {step: values[name] for step, values in self.values if name in values}

    def kinds(self) -> list[str]:
        return [event["event"] for event in self.events]


@pytest.fixture
def recorder() -> MemoryRecorder:
    return MemoryRecorder()


def make_rows(count: int, *, negatives: int = 3, scores: bool = False, seed: int = 0) -> list[dict[str, Any]]:
    """Rows whose query is half of its positive: easy to learn from the words alone."""
    draw = random.Random(seed)
    texts = [" ".join(draw.sample(WORDS, 8)) for _ in range(count + negatives)]
    rows = []
    for index in range(count):
        words = texts[index].split()
        row: dict[str, Any] = {
            "query": " ".join(words[:4]),
            "pos": [texts[index]],
            "neg": [texts[(index + 1 + j) % len(texts)] for j in range(negatives)],
        }
        if scores:
            row["pos_scores"] = [5.0]
            row["neg_scores"] = [float(j) for j in range(negatives)]
        rows.append(row)
    return rows


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(name="make_rows", scope="session")
def make_rows_fixture() -> Callable[..., list[dict[str, Any]]]:
    return make_rows


@pytest.fixture(name="write_rows", scope="session")
def write_rows_fixture() -> Callable[[Path, list[dict[str, Any]]], Path]:
    return write_rows


@pytest.fixture(scope="session")
def rows_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("data") / "rows.jsonl", make_rows(64))


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ModernBERT of 2 layers and 32 dimensions, dropout included, and its BPE tokenizer."""
    return make_tiny_model(tmp_path_factory.mktemp("tiny"))


def make_tiny_model(folder: Path) -> Path:
    """Makes what `tiny_model` gives."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import ModernBertConfig, ModernBertModel, PreTrainedTokenizerFast

    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([" ".join(WORDS)] * 4, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        unk_token="[UNK]",
        mask_token="[MASK]",
    )
    fast.save_pretrained(folder)
    torch.manual_seed(1)
    config = ModernBertConfig(
        vocab_size=len(fast),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=256,
        pad_token_id=fast.pad_token_id,
        cls_token_id=fast.cls_token_id,
        sep_token_id=fast.sep_token_id,
        bos_token_id=fast.cls_token_id,
        eos_token_id=fast.sep_token_id,
        embedding_dropout=0.1,
        mlp_dropout=0.1,
        attention_dropout=0.0,
    )
    ModernBertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def calm_model(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without dropout, so that no random number matters, and with weights so large that texts differ.

    As it is initialised all its vectors are nearly equal: gradients are small differences, and mostly rounding.
    """
    import torch
    from transformers import AutoModel

    folder = tmp_path_factory.mktemp("calm") / "model"
    shutil.copytree(tiny_model, folder)
    model = AutoModel.from_pretrained(tiny_model)
    model.config.embedding_dropout = model.config.mlp_dropout = 0.0
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(8)
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def tokenizer(tiny_model: Path) -> PoolingTokenizer:
    """The tiny model's tokenizer for landmarks."""
    from transformers import AutoTokenizer

    pooling = PoolingConfig("landmark", granularity=4)
    return PoolingTokenizer(AutoTokenizer.from_pretrained(tiny_model), pooling, 32)


@pytest.fixture
def make_config(tiny_model: Path, rows_file: Path) -> Callable[..., TrainConfig]:
    """A small training; keywords are dotted keys with `__` for the dot."""

    def make(**changes: Any) -> TrainConfig:
        values: dict[str, Any] = {
            "model": {"path": str(tiny_model)},
            "pooling": {"kind": "landmark", "granularity": 4},
            "data": {"train": [str(rows_file)], "negatives": 2, "query_max_length": 16, "passage_max_length": 32},
            "optim": {"steps": 6, "batch_size": 8, "learning_rate": 1e-2, "warmup_steps": 2},
            "loss": {"temperature": 0.1},
            "runtime": {"accelerator": "cpu", "log_every": 1, "checkpoint_every": None},
        }
        for key, value in changes.items():
            section, _, name = key.partition("__")
            if name:
                values[section][name] = value
            else:
                values[section] = value
        return TrainConfig.model_validate(values)

    return make


@pytest.fixture
def stop_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes the training die after a step, behind its checkpoint if it wrote one; 0 lets it live."""
    from lmk_train.callbacks import Checkpoints

    original = Checkpoints.on_train_batch_end

    def arm(step: int) -> None:
        def hook(self: Any, trainer: Any, *args: Any) -> None:
            original(self, trainer, *args)
            if trainer.global_step == step:
                raise Stopped

        monkeypatch.setattr(Checkpoints, "on_train_batch_end", hook)

    return arm

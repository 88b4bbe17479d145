"""Real rows, in English and in many languages, with the four tokenizers of the paper's models."""

from __future__ import annotations

import gzip
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from lmk_train import TrainConfig, train
from lmk_train.data import Findings
from lmk_train.data.reading import data_files, read_rows

TOKENIZERS: dict[str, tuple[int, dict[str, str]]] = {
    "modernbert-base": (50368, {}),
    "bert-base-uncased": (30522, {}),
    "xlm-roberta-base": (250002, {}),
    "gemma2": (256000, {"cls_token": "<bos>", "sep_token": "<eos>"}),
}
"""Tokens of each, and the special tokens that have to be named."""
ROWS = {
    "flagembedding_examples/msmarco.jsonl": (10, 10),
    "flagembedding_examples/nq.jsonl": (10, 10),
    "flagembedding_examples/nli.jsonl": (10, 10),
    "flagembedding_examples/sts.jsonl": (10, 0),
    "msmarco_v2_dl21_splade.jsonl": (296, 296),
    "debian_desc_multi_e5.sample.jsonl": (126, 126),
    "debian_desc_multi_e5.jsonl.xz": (3131, 3131),
    "manpages_long_multi.jsonl": (64, 0),
}


def model_with(name: str, shared: Path, folder: Path) -> Path:
    """A small random ModernBERT for a real tokenizer."""
    import torch
    from transformers import ModernBertConfig, ModernBertModel

    size, special = TOKENIZERS[name]
    torch.manual_seed(0)
    config = ModernBertConfig(
        vocab_size=size,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=256,
        **dict.fromkeys(("pad_token_id", "cls_token_id", "sep_token_id", "bos_token_id", "eos_token_id"), 0),
    )
    ModernBertModel(config).save_pretrained(folder)
    shutil.copytree(shared / "data/tokenizers" / name, folder, dirs_exist_ok=True)
    for packed in folder.glob("*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    settings = folder / "tokenizer_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), **special}))
    return folder


def beginning(path: Path, rows: int, folder: Path) -> str:
    """A file with the first rows of another one."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / path.name).write_text("".join(lines[:rows]), encoding="utf-8")
    return str(folder / path.name)


@pytest.mark.parametrize("name", ROWS)
def test_every_real_row_is_read(name, shared):
    findings = Findings()
    (path,) = data_files(shared / "data/train" / name)
    rows = [row for _, row in read_rows(path, findings)]
    assert (len(rows), findings.scored) == ROWS[name]
    assert findings.faulty == 0
    if name.endswith("sts.jsonl"):
        assert findings.counts["prompts_not_used"] == 10


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_real_rows_train(tokenizer, shared, tmp_path, recorder):
    """English and multilingual data sets in one mixture, compressed and not, with scores and without."""
    data = shared / "data/train"
    sets: list[Any] = [
        {"path": str(data / "flagembedding_examples"), "batch_size": 20},
        {"path": beginning(data / "msmarco_v2_dl21_splade.jsonl", 60, tmp_path), "weight": 0.5},
        str(data / "debian_desc_multi_e5.sample.jsonl"),
        {"path": beginning(data / "manpages_long_multi.jsonl", 16, tmp_path), "batch_size": 8},
    ]
    values = {
        "model": {"path": str(model_with(tokenizer, shared, tmp_path / "model"))},
        "pooling": {"kind": "landmark", "granularity": [8, 16]},
        "data": {"train": sets, "negatives": 1, "query_max_length": 32, "passage_max_length": 64},
        "optim": {"steps": 9, "batch_size": 32, "learning_rate": 1e-3},
        "runtime": {"accelerator": "cpu", "log_every": 1, "checkpoint_every": None},
    }
    train(TrainConfig.model_validate(values), tmp_path / "run", recorder)
    start = recorder.events[0]
    assert start["rows"] == 40 + 60 + 126 + 16
    assert start["dropped_rows"] == 0
    assert [one["batches"] for one in start["datasets"].values()] == [2, 2, 4, 2]
    assert start["steps_per_epoch"] == 9
    losses = recorder.curve("train/loss")
    assert len(losses) == 9
    assert all(math.isfinite(loss) for loss in losses.values())

"""The `lmk` command in this process, and the helpers of these tests on the path."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from lmk_experiments.cli.main import app

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def lmk(tmp_path: Path) -> Callable[..., Result]:
    def run(*arguments: Any) -> Result:
        words = [str(argument) for argument in arguments]
        if words[1] == "build":
            words += ["--root", str(tmp_path / "runs")]
        return CliRunner().invoke(app, words, catch_exceptions=False)

    return run


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved landmark model, tiny and random, with a tokenizer of bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import ModernBertConfig, ModernBertModel, PreTrainedTokenizerFast

    from lmk_core import Embedder

    folder = tmp_path_factory.mktemp("plain")
    special = ["[PAD]", "[CLS]", "[SEP]"]
    pieces = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE(vocab={piece: number for number, piece in enumerate(pieces)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)
    ids = {"pad_token_id": 0, "cls_token_id": 1, "bos_token_id": 1, "sep_token_id": 2, "eos_token_id": 2}
    config = ModernBertConfig(
        vocab_size=len(pieces),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        initializer_range=0.3,
        **ids,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        ModernBertModel(config).save_pretrained(folder)
    embedder = Embedder.from_pretrained(folder, "landmark", 8, max_length=64, device="cpu")
    return embedder.save_pretrained(folder.parent / "saved" / "model")

"""Fixtures: a tiny random ModernBERT with its own tokenizer, and the real tokenizers when they are there."""

from __future__ import annotations

import functools
import gzip
import random
import shutil
from pathlib import Path

import pytest

WORDS = [
    *("the", "of", "and", "to", "in", "river", "stone", "house", "light", "water", "garden", "window", "letter"),
    *("morning", "winter", "music", "bridge", "forest", "mountain", "paper", "silver", "question", "answer", "market"),
    *("captain", "island", "engine", "theory", "history", "science", "language", "table", "chair", "doctor", "memory"),
]


def make_texts(lengths: list[int], seed: int = 0) -> list[str]:
    """One text of random words for each length (in words)."""
    generator = random.Random(seed)
    return [" ".join(generator.choice(WORDS) for _ in range(length)) for length in lengths]


@pytest.fixture(scope="session")
def tiny_tokenizer_folder(tmp_path_factory) -> Path:
    """A byte-level BPE tokenizer with CLS, SEP, PAD and MASK, trained here."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    special = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"]
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(make_texts([200] * 10), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        mask_token="[MASK]",
        unk_token="[UNK]",
    )
    folder = tmp_path_factory.mktemp("tiny-tokenizer")
    fast.save_pretrained(folder)
    return folder


@pytest.fixture
def tiny_tokenizer(tiny_tokenizer_folder):
    """A fresh copy of the tiny tokenizer, free to change."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_tokenizer_folder)


@pytest.fixture(scope="session")
def tiny_model_folder(tiny_tokenizer_folder, tmp_path_factory) -> Path:
    """A random ModernBERT of hidden width 32 with three layers (global, local, local; 8 tokens to either side)."""
    import torch
    from transformers import ModernBertConfig, ModernBertModel

    config = ModernBertConfig(
        vocab_size=512,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=2,
        local_attention=16,
        initializer_range=0.3,  # large enough that context matters: mixed-up attention must change the vectors
        pad_token_id=0,
        cls_token_id=1,
        sep_token_id=2,
        bos_token_id=1,
        eos_token_id=2,
    )
    folder = tmp_path_factory.mktemp("tiny-model")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        ModernBertModel(config).save_pretrained(folder)
    shutil.copytree(tiny_tokenizer_folder, folder, dirs_exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def texts_of():
    """`make_texts`, for tests."""
    return make_texts


@pytest.fixture(scope="session")
def real_tokenizer(shared, tmp_path_factory):
    """Loads a tokenizer of the reference data by its folder's name, unpacked into a temporary folder.

    Loading takes a second, so that all tests have the same one: a test that changes it loads its own from there
    (``name_or_path``). The root's ``shared`` fixture skips where the reference data is absent.
    """
    from transformers import AutoTokenizer

    root = tmp_path_factory.mktemp("tokenizers")

    @functools.cache
    def load(name: str, **kwargs: str):
        folder = root / name
        if not folder.exists():
            folder.mkdir()
            for source in (shared / "data" / "tokenizers" / name).iterdir():
                if source.suffix == ".gz":
                    (folder / source.stem).write_bytes(gzip.decompress(source.read_bytes()))
                else:
                    (folder / source.name).write_bytes(source.read_bytes())
        return AutoTokenizer.from_pretrained(folder, **kwargs)

    return load

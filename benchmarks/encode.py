"""`Embedder.encode` beside `SentenceTransformer.encode`: the same small ModernBERT, texts and vectors, and their time.

Run: ``python benchmarks/encode.py [repetitions]``. Both run in this process, one after the other in turn; seconds are
those of the processor, which other processes on the machine disturb least. A ratio is of medians, its spread from the
quartiles of the ratios of neighbouring runs; above 1 `Embedder` is faster. Texts are words of Python's own library, cut
to lengths that are drawn with a fixed seed.
"""

from __future__ import annotations

import random
import re
import statistics
import sys
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import ModernBertConfig, ModernBertModel, PreTrainedTokenizerFast

from lmk_core import Embedder

MAX_LENGTH = 8192
SEED = 20260121


def library_words() -> list[str]:
    """Words of the sources of Python's own library, in order, comments and docstrings included."""
    sources = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    text = " ".join(path.read_text(encoding="utf-8", errors="replace") for path in sources)
    return re.findall(r"\S+", text)


def corpora(words: list[str], tokens_of: Callable[[str], int]) -> dict[str, list[str]]:
    """Three corpora, the same in every run: passages as MS MARCO's, all lengths mixed, and long documents."""
    drawn = random.Random(SEED)
    sample = " ".join(words[:50_000])
    words_a_token = 50_000 / tokens_of(sample)

    def texts(number: int, tokens: Callable[[], float]) -> list[str]:
        out = []
        for _ in range(number):
            count = max(int(tokens() * words_a_token), 1)
            start = drawn.randrange(len(words) - count)
            out.append(" ".join(words[start : start + count]))
        return out

    return {
        "passages": texts(1500, lambda: min(max(drawn.lognormvariate(4.2, 0.45), 8), 350)),
        "mixed": texts(250, lambda: min(max(drawn.lognormvariate(5, 1.1), 4), 4000)),
        "long (4k-8k)": texts(6, lambda: drawn.uniform(4000, 8000)),
    }


def build_model(folder: Path, words: list[str]) -> None:
    """A small random ModernBERT (hidden 128, 4 layers, some of them local) with a tokenizer trained on the words."""
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=8192, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator((" ".join(words[start : start + 500]) for start in range(0, 300_000, 500)), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        mask_token="[MASK]",
        unk_token="[UNK]",
        model_max_length=MAX_LENGTH,
    ).save_pretrained(folder)
    torch.manual_seed(SEED)
    config = ModernBertConfig(
        vocab_size=8192,
        hidden_size=128,
        intermediate_size=192,
        num_hidden_layers=4,
        num_attention_heads=4,
        max_position_embeddings=MAX_LENGTH,
        initializer_range=0.1,
        pad_token_id=0,
        bos_token_id=1,
        cls_token_id=1,
        eos_token_id=2,
        sep_token_id=2,
    )
    ModernBertModel(config).save_pretrained(folder)


def compare(name: str, texts: list[str], tokens: int, ours: Callable, peer: Callable, repetitions: int) -> None:
    own_vectors, peer_vectors = ours(texts), peer(texts)  # also warms both
    difference = float(np.abs(own_vectors - peer_vectors).max())
    assert difference < 1e-5, f"{name}: the vectors differ by {difference}"
    seconds: dict[str, list[float]] = {"ours": [], "peer": []}
    for round_number in range(repetitions):
        both = [("ours", ours), ("peer", peer)]
        for who, encode in both if round_number % 2 else both[::-1]:
            started = time.process_time()
            encode(texts)
            seconds[who].append(time.process_time() - started)
    ratios = [peer_time / own for own, peer_time in zip(seconds["ours"], seconds["peer"], strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    own, other = statistics.median(seconds["ours"]), statistics.median(seconds["peer"])
    print(
        f"{name:14} {len(texts):6} {tokens / len(texts):8.0f} {own:9.2f} {other:9.2f} {tokens / own / 1000:8.1f} "
        f"{other / own:8.2f} ({low:.2f} to {high:.2f})   {difference:.0e}",
        flush=True,
    )


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    warnings.filterwarnings("ignore", category=FutureWarning)
    words = library_words()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build_model(folder, words)
        embedder = Embedder.from_pretrained(folder, "mean", max_length=MAX_LENGTH, device="cpu")
        transformer = Transformer(str(folder), max_seq_length=MAX_LENGTH)
        pooling = Pooling(transformer.get_embedding_dimension(), "mean")
        peer = SentenceTransformer(modules=[transformer, pooling], device="cpu")

    def ours(texts: list[str]) -> np.ndarray:
        return embedder.encode(texts)

    def theirs(texts: list[str]) -> np.ndarray:
        return peer.encode(texts, normalize_embeddings=True, show_progress_bar=False)

    hf_tokenizer = embedder.tokenizer.hf_tokenizer
    print(f"{torch.get_num_threads()} thread(s), float32, {repetitions} repetitions")
    print("corpus          texts   tokens    ours s    peer s  ktok/s    ratio (quartiles)       difference")
    tokens_of = lambda text: len(hf_tokenizer(text, verbose=False)["input_ids"])  # noqa: E731
    for name, texts in corpora(words, tokens_of).items():
        tokens = int(embedder.tokenizer.layouts(texts).lengths.sum())
        compare(name, texts, tokens, ours, theirs, repetitions)


if __name__ == "__main__":
    main()

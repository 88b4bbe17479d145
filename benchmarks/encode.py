"""`Embedder.encode` beside `SentenceTransformer.encode`: the same small ModernBERT, texts and vectors, and their time.

Run: ``python benchmarks/encode.py [--repetitions N] [--json FILE]``. Both run in this process, one after the other in
turn, Sentence Transformers with its defaults (batches of 32, padded, sorted by length) and with the batch size that
was the fastest of 1 to 64. Texts are words of Python's own library, cut to lengths that are drawn with a fixed seed.
"""

from __future__ import annotations

import random
import re
import sysconfig
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from suite.measuring import Report, Taken, interleaved, layer_shapes, matrix_rate, note, options
from suite.result import Result
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import ModernBertConfig, ModernBertModel, PreTrainedTokenizerFast

from lmk_core import Embedder
from lmk_core.embedder.batches import BatchOptions, BatchRunner
from lmk_train.throughput import ModelFlops

MAX_LENGTH = 8192
SEED = 20260121
SHAPES = "hidden 128"
BEST_BATCH = {"passages": 4, "mixed": 1, "long (4k-8k)": 1}
"""Sentence Transformers' fastest batch size on each corpus, by ``--search``."""


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
        "passages": texts(500, lambda: min(max(drawn.lognormvariate(4.2, 0.45), 8), 350)),
        "mixed": texts(80, lambda: min(max(drawn.lognormvariate(5, 1.1), 4), 4000)),
        "long (4k-8k)": texts(2, lambda: drawn.uniform(4000, 8000)),
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


def peer_of(folder: Path) -> SentenceTransformer:
    """Sentence Transformers' own model of the same weights."""
    transformer = Transformer(str(folder), max_seq_length=MAX_LENGTH)
    pooling = Pooling(transformer.get_embedding_dimension(), "mean")
    return SentenceTransformer(modules=[transformer, pooling], device="cpu")


def tokens_computed(peer: SentenceTransformer, run: Callable[[], Any]) -> tuple[Any, int]:
    """What ``run`` gives, and the tokens that the peer computes for it, padding included."""
    counts = [0]

    def count(_: Any, given: tuple[dict[str, Any], ...]) -> None:
        counts[0] += given[0]["attention_mask"].numel()

    hook = peer[0].register_forward_pre_hook(count)
    value = run()
    hook.remove()
    return value, counts[0]


def our_tokens(embedder: Embedder, texts: list[str]) -> tuple[int, int]:
    """Tokens of the texts, and those that are computed with the padding."""
    lengths = embedder.tokenizer.layouts(texts).lengths
    runner = BatchRunner(embedder.module, embedder.device, embedder.tokenizer.tokens.pad, BatchOptions())
    needed = int(lengths.sum())
    if runner.packs:
        return needed, needed
    batches = [lengths[indices] for indices in runner.batches(lengths)]
    return needed, sum(int(batch.max()) * len(batch) for batch in batches)


def compare(
    report: Report, case: str, texts: list[str], embedder: Embedder, peer: SentenceTransformer, given: Any, rate: float
) -> None:
    best = BEST_BATCH[case]

    def theirs(batch_size: int = 32) -> np.ndarray:
        return peer.encode(texts, batch_size=batch_size, normalize_embeddings=True, show_progress_bar=False)

    needed, processed = our_tokens(embedder, texts)
    vectors, computed, apart = embedder.encode(texts), {}, {}
    for which, size in (("defaults", 32), ("best", best)):  # this also warms both
        others, computed[which] = tokens_computed(peer, lambda size=size: theirs(size))
        apart[which] = float(np.abs(vectors - others).max())
        assert apart[which] < 1e-5, f"{case}: the vectors differ by {apart[which]}"
    taken = interleaved(
        {"ours": lambda: embedder.encode(texts), "defaults": theirs, "best": lambda: theirs(best)},
        1 if given.quick else given.repetitions,
        warm=0,
    )
    flops = ModelFlops(embedder.module).forward(embedder.tokenizer.layouts(texts))
    conditions = {"texts": len(texts), "matrix_rate": rate, "shapes": SHAPES, "flops": flops}
    for which, name in (("defaults", "Sentence Transformers"), ("best", f"Sentence Transformers, batches of {best}")):
        report.add(
            Result(
                "encode",
                f"{case}, {needed / len(texts):.0f} tokens a text",
                taken["ours"].side("Embedder", processed),
                taken[which].side(name, computed[which]),
                "s",
                same=f"vectors to {apart[which]:.0e}",
                needed=needed,
                limit=flops / rate,
                limit_of="matrix products",
                conditions=conditions,
                headline=which == "best",
            )
        )


def search(texts: dict[str, list[str]], peer: SentenceTransformer) -> None:
    """The peer's time by batch size."""
    for case, own in texts.items():
        for size in (1, 2, 4, 8, 16, 32, 64):
            taken = Taken()
            taken.add(lambda: peer.encode(own, batch_size=size, normalize_embeddings=True, show_progress_bar=False))  # noqa: B023
            print(f"{case}: batches of {size}: {taken.processor[0]:.2f} s", flush=True)


def main() -> None:
    parser = options(__doc__, repetitions=3)
    parser.add_argument("--search", action="store_true", help="print the peer's seconds by batch size, and end")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning)
    words = library_words()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build_model(folder, words)
        embedder = Embedder.from_pretrained(folder, "mean", max_length=MAX_LENGTH, device="cpu")
        peer = peer_of(folder)
    tokenizer = embedder.tokenizer.hf_tokenizer
    texts = corpora(words, lambda text: len(tokenizer(text, verbose=False)["input_ids"]))
    if given.quick:
        texts = {case: own[: max(1, len(own) // 20)] for case, own in texts.items()}
    if given.search:
        search(texts, peer)
        return
    report = Report(given.json)
    rate = matrix_rate(layer_shapes(embedder.module.encoder.config))
    for case, own in texts.items():
        note(case)
        compare(report, case, own, embedder, peer, given, rate)


if __name__ == "__main__":
    main()

"""Peak memory and time of one step in chunks, beside the whole graph and Sentence Transformers' cached loss.

Run: ``python benchmarks/gradcache_memory.py [--chunk TOKENS] [--rows SMALL LARGE] [--length TOKENS] [--json FILE]``.
Memory is the high-water mark of the resident memory above what the process had before the first batch was made, each
way in a process of its own. In chunks it should be the chunk's, whatever the batch.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

GROUP = 8
"""Passages a row."""

DIM = 64
WAYS = ("chunks", "whole", "peer")
PRICE = "chunks cost time, a second forward pass, and save memory: larger batches fit; off by default"
COLUMNS = "ours is the same for any batch; the peer's chunks hold one passage of a row: small in small batches"
EXACT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""The C library gives freed memory back at once, so that the mark is what was needed and not how it was cut up."""


def main() -> None:
    from suite.measuring import options

    parser = options(__doc__, repetitions=3)
    parser.add_argument("--chunk", type=int, default=16_384)
    parser.add_argument("--rows", type=int, nargs=2, default=(256, 1024))
    parser.add_argument("--length", type=int, default=24)
    parser.add_argument("--here", choices=WAYS, help="measure this way in this process")
    given = parser.parse_args()
    if given.here:
        print(json.dumps(measure(given.here, given.rows, given.chunk, given.length)))
        return
    rows = (32, 128) if given.quick else tuple(given.rows)
    compare(given.json, rows, given.chunk // 8 if given.quick else given.chunk, given.length, given)


def compare(file: Path | None, rows: tuple[int, int], chunk: int, length: int, given: Any) -> None:
    """The three ways in turn, each in a process of its own."""
    from suite.measuring import Report, note
    from suite.result import Result, Side

    report, found = Report(file), {way: [] for way in WAYS}
    for number in range(1 if given.quick else given.repetitions):
        for way in WAYS if number % 2 else WAYS[::-1]:
            note(f"repetition {number + 1}: {way}")
            found[way].append(in_a_process(way, rows, chunk, length))
    losses = {way: [loss for one in found[way] for loss in one["losses"]] for way in WAYS}
    apart = max(abs(a - b) / a for way in WAYS for a, b in zip(losses["whole"], losses[way], strict=True))
    assert apart < 1e-4, f"the losses differ: {losses}"
    names = {"chunks": f"in chunks of {chunk:,} tokens", "whole": "the whole graph"}
    names["peer"] = f"Sentence Transformers, cached loss, {chunk:,} tokens"
    for place, count in enumerate(rows):

        def side(way: str, key: str, scale: float) -> Side:
            values = tuple(one[key][place] / scale for one in found[way])  # noqa: B023
            clock = () if key == "bytes" else tuple(one["clock"][place] for one in found[way])  # noqa: B023
            return Side(names[way], values, clock)

        texts = f"{count} x {GROUP} texts"
        same = f"loss to {apart:.0e}"
        least = found["chunks"][0]["least"][place] / 1e6
        for peer in ("whole", "peer"):
            ours, theirs = side("chunks", "bytes", 1e6), side(peer, "bytes", 1e6)
            more: dict[str, Any] = {"limit": least, "limit_of": "vectors"}
            head = place == 1
            more["remark"] = COLUMNS if peer == "peer" else ""
            report.add(Result("GradCache", f"memory, {texts}", ours, theirs, "MB", same=same, headline=head, **more))
            ours, theirs = side("chunks", "seconds", 1), side(peer, "seconds", 1)
            remark = PRICE if peer == "whole" else ""
            report.add(Result("GradCache", f"time, {texts}", ours, theirs, "s", same=same, remark=remark))


def peaks(rows: tuple[int, int], chunk: int, length: int) -> list[float]:
    """Bytes of our step for two numbers of rows, in a process of its own; a chunk of 0 is the whole graph."""
    return in_a_process("chunks" if chunk else "whole", rows, chunk, length)["bytes"]


def in_a_process(way: str, rows: tuple[int, int], chunk: int, length: int) -> dict[str, list[float]]:
    """`measure` in a process of its own."""
    command = [sys.executable, str(Path(__file__)), "--here", way, "--rows", *map(str, rows)]
    command += ["--chunk", str(chunk), "--length", str(length)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, **EXACT})
    if done.returncode:
        sys.exit(f"{way}: {done.stderr[-1500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(way: str, rows: tuple[int, int], chunk: int, length: int) -> dict[str, list[float]]:
    """What one step needs above what the process had before the first one."""
    from training.measuring import high_water, reset_mark

    step = peer_step(chunk) if way == "peer" else make_step(chunk if way == "chunks" else None)
    step(make_texts(4, length), 4)  # what is made once, for any batch
    before = reset_mark()
    found: dict[str, list[float]] = {key: [] for key in ("bytes", "seconds", "clock", "losses", "least")}
    for count in sorted(rows):
        reset_mark()  # each batch has a mark of its own
        texts = make_texts(count, length)
        began = time.process_time(), time.perf_counter()
        found["losses"].append(step(texts, count))
        found["seconds"].append(time.process_time() - began[0])
        found["clock"].append(time.perf_counter() - began[1])
        found["bytes"].append(high_water() - before)
        found["least"].append(texts.ids.nbytes + 2 * 4 * DIM * len(texts))
    return found


def make_encoder() -> Any:
    """A small random ModernBERT with the mean of its states."""
    import torch
    from transformers import ModernBertConfig, ModernBertModel

    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = ModernBertConfig(
        vocab_size=500,
        hidden_size=DIM,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        pad_token_id=0,
        attn_implementation="sdpa",
    )
    return ModernBertModel(config).train()


def make_step(chunk_tokens: int | None) -> Any:
    """A step of ours: forward, loss, backward."""
    import torch

    from lmk_core.encoders import PooledEncoder
    from lmk_core.layouts.batch import pad_layouts
    from lmk_core.pooling import PoolingConfig
    from lmk_train.config import LossConfig
    from lmk_train.gradcache import GradientEngine
    from lmk_train.loss import ContrastiveObjective, Targets

    encoder = PooledEncoder(make_encoder(), PoolingConfig("mean")).train()
    objective = ContrastiveObjective(LossConfig())
    engine = GradientEngine(lambda texts: encoder(**pad_layouts(texts, 0)), list(encoder.parameters()), chunk_tokens)

    def step(texts: Any, rows: int) -> float:
        sizes = torch.full((rows,), GROUP)
        keys = torch.arange(rows * GROUP)
        targets = Targets(sizes, None, torch.zeros(rows, dtype=torch.bool), keys[:rows], keys)
        done = engine.run(texts, lambda vectors: objective(vectors[:rows], vectors[rows:], targets).loss)
        return float(done.loss)

    return step


def peer_step(chunk_tokens: int) -> Any:
    """A step of Sentence Transformers' cached loss, on the same model and ids."""
    import tempfile

    import torch
    from sentence_transformers import SentenceTransformer, losses
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    with tempfile.TemporaryDirectory() as folder:
        make_encoder().save_pretrained(folder)
        _word_tokenizer().save_pretrained(folder)
        transformer = Transformer(folder)
    modules = [transformer, Pooling(DIM, "mean"), Normalize()]
    model = SentenceTransformer(modules=modules, device="cpu").train()
    loss = losses.CachedMultipleNegativesRankingLoss(model, scale=50, mini_batch_num_tokens=chunk_tokens)

    def step(texts: Any, rows: int) -> float:
        own = [torch.from_numpy(texts.ids[a:b].astype("int64")) for a, b in itertools.pairwise(texts.bounds)]
        columns = [own[:rows], *(own[rows + place :: GROUP] for place in range(GROUP))]
        features = []
        for column in columns:
            ids = torch.nn.utils.rnn.pad_sequence(column, batch_first=True)
            features.append({"input_ids": ids, "attention_mask": (ids != 0).long()})
        value = loss(features, torch.arange(rows))
        value.backward()
        return float(value.detach())

    return step


def _word_tokenizer() -> Any:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = {f"w{number}": number for number in range(500)}
    backend = Tokenizer(models.WordLevel(words, unk_token="w1"))
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="w1", pad_token="w0")


def make_texts(rows: int, length: int):
    """Ragged texts of 3 to ``length`` tokens: the queries, then the passages."""
    import numpy as np

    from lmk_core.layouts import Layouts

    draw = np.random.RandomState(0)
    lengths = draw.randint(3, length + 1, rows * (1 + GROUP))
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    ids = draw.randint(1, 500, bounds[-1]).astype(np.int32)
    pooled = np.concatenate([np.arange(n, dtype=np.int32) for n in lengths])
    return Layouts(ids, bounds, pooled, bounds)


if __name__ == "__main__":
    main()

"""`lmk_eval.evaluate` beside MTEB with its own Sentence Transformers wrapper: same model, same task, same scores.

Run: ``python benchmarks/evaluate.py [repetitions]``. The corpora are those of ``encode.py``, each with queries made of
a text's first words. Both run in this process, one after the other in turn; seconds are those of the processor. A
ratio is of medians, its spread from the quartiles of the ratios of neighbouring runs; above 1 `evaluate` is faster.
Then the same model is read at four granularities: with every text tokenized once, and in four evaluations.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mteb
import torch
from encode import MAX_LENGTH, build_model, corpora, library_words
from mteb.models.sentence_transformer_wrapper import SentenceTransformerEncoderWrapper
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

from lmk_core import Embedder
from lmk_core.embedder.batches import BatchOptions, BatchRunner
from lmk_eval import Reading, Suite, evaluate, evaluate_readings
from lmk_eval.evaluation.undisturbed import undisturbed
from lmk_eval.tasks import open_task

QUERIES = 20
QUERY_WORDS = 8
GRANULARITIES = (32, 64, 128, 256)


def write_set(folder: Path, texts: list[str]) -> Suite:
    """The texts as a corpus in BEIR layout; every query is the beginning of one of them."""
    (folder / "qrels").mkdir(parents=True)
    documents = [{"_id": f"d{number}", "text": text} for number, text in enumerate(texts)]
    asked = range(0, len(texts), max(len(texts) // QUERIES, 1))
    queries = [{"_id": f"q{number}", "text": " ".join(texts[number].split()[:QUERY_WORDS])} for number in asked]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    rows = [f"q{number}\td{number}\t1" for number in asked]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]))
    return Suite.from_folder("set", folder)


def padded_by_peer(peer: SentenceTransformer, run: Callable[[], Any]) -> float:
    """The share of what the peer computes that is padding."""
    counts = [0, 0]

    def count(_: Any, given: tuple[dict[str, Any], ...]) -> None:
        mask = given[0]["attention_mask"]
        counts[0] += int(mask.sum())
        counts[1] += mask.numel()

    hook = peer[0].register_forward_pre_hook(count)
    run()
    hook.remove()
    return 1 - counts[0] / counts[1]


def padded_by_us(embedder: Embedder, texts: list[str]) -> float:
    runner = BatchRunner(embedder.module, embedder.device, embedder.tokenizer.tokens.pad, BatchOptions())
    if runner.packs:
        return 0.0
    lengths = embedder.tokenizer.layouts(texts).lengths
    batches = [lengths[indices] for indices in runner.batches(lengths)]
    return 1 - lengths.sum() / sum(int(batch.max()) * len(batch) for batch in batches)


def timed(ways: dict[str, Callable[[], Any]], repetitions: int) -> dict[str, list[float]]:
    """Processor seconds of each way, interleaved."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for round_number in range(repetitions):
        order = list(ways) if round_number % 2 else list(ways)[::-1]
        for name in order:
            started = time.process_time()
            ways[name]()
            seconds[name].append(time.process_time() - started)
    return seconds


def spread(above: list[float], below: list[float]) -> str:
    ratios = [one / other for one, other in zip(above, below, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    return f"{statistics.median(above) / statistics.median(below):6.2f} ({low:.2f} to {high:.2f})"


def compare(name: str, texts: list[str], place: Path, model: Path, repetitions: int) -> None:
    suite = write_set(place / "set", texts)
    embedder = Embedder.from_pretrained(model, "mean", max_length=MAX_LENGTH, device="cpu")
    transformer = Transformer(str(model), max_seq_length=MAX_LENGTH)
    pooling = Pooling(transformer.get_embedding_dimension(), "mean")
    peer = SentenceTransformer(modules=[transformer, pooling], device="cpu")

    def ours() -> dict[str, float]:
        with tempfile.TemporaryDirectory() as out:
            return evaluate(embedder, suite, folder=Path(out), name="bench/ours", revision="r", max_length=MAX_LENGTH)[
                "set"
            ]

    def theirs() -> dict[str, float]:
        (task,) = open_task(suite.tasks[0])
        wrapped = SentenceTransformerEncoderWrapper(peer)
        with undisturbed(quiet=True):
            result = mteb.evaluate(
                wrapped,
                task,
                cache=None,
                co2_tracker=False,
                show_progress_bar=False,
                encode_kwargs={"batch_size": 32, "show_progress_bar": False},
            )
        return result.task_results[0].scores["test"][0]

    own, other = ours(), theirs()
    for metric in ("ndcg_at_10", "precision_at_1", "recall_at_10"):
        assert abs(own[metric] - other[metric]) < 1e-3, f"{name}: {metric} is {own[metric]} and {other[metric]}"
    padded = padded_by_peer(peer, theirs)
    seconds = timed({"ours": ours, "theirs": theirs}, repetitions)
    own_s, their_s = (statistics.median(seconds[who]) for who in ("ours", "theirs"))
    print(
        f"{name:14} {len(texts):6} {own_s:8.2f} {their_s:8.2f}"
        f" {padded_by_us(embedder, texts):9.0%} {padded:9.0%}   {spread(seconds['theirs'], seconds['ours'])}",
        flush=True,
    )


def once_or_four_times(name: str, place: Path, model: Path, repetitions: int) -> None:
    suite = Suite.from_folder("set", place / "set")
    embedder = Embedder.from_pretrained(model, "landmark", 32, MAX_LENGTH, device="cpu")
    readings = {size: embedder.pooling.with_granularity(size) for size in GRANULARITIES}

    def once() -> None:
        each = [Reading(f"g{size}", f"g{size}", pooling.to_dict()) for size, pooling in readings.items()]
        with tempfile.TemporaryDirectory() as out:
            evaluate_readings(embedder, suite, each, folder=Path(out), name="bench/once", max_length=MAX_LENGTH)

    def four_times() -> None:
        for size, pooling in readings.items():
            with tempfile.TemporaryDirectory() as out:
                evaluate(
                    embedder,
                    suite,
                    folder=Path(out),
                    name="bench/four",
                    revision=f"g{size}",
                    max_length=MAX_LENGTH,
                    pooling=pooling,
                )

    once()
    four_times()
    seconds = timed({"once": once, "four": four_times}, repetitions)
    saved = [1 - one / four for one, four in zip(seconds["once"], seconds["four"], strict=True)]
    low, middle, high = statistics.quantiles(saved, n=4)
    once_s, four_s = statistics.median(seconds["once"]), statistics.median(seconds["four"])
    print(f"{name:14} {once_s:8.2f} {four_s:8.2f}   saved {middle:4.0%} ({low:.0%} to {high:.0%})", flush=True)


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    warnings.filterwarnings("ignore")
    words = library_words()
    with tempfile.TemporaryDirectory() as name:
        model = Path(name) / "model"
        build_model(model, words)
        tokenizer = Embedder.from_pretrained(model, "mean", max_length=MAX_LENGTH).tokenizer.hf_tokenizer
        tokens_of = lambda text: len(tokenizer(text, verbose=False)["input_ids"])  # noqa: E731
        sets = corpora(words, tokens_of)
        print(f"{torch.get_num_threads()} thread(s), float32, {repetitions} repetitions, whole evaluations")
        print("corpus          texts   ours s   MTEB s  ours pad. MTEB pad.    ratio (quartiles)")
        for corpus, texts in sets.items():
            compare(corpus, texts, Path(name) / corpus.split()[0], model, repetitions)
        print(f"\nfour granularities ({', '.join(map(str, GRANULARITIES))})\ncorpus           once s   four s")
        for corpus in sets:
            once_or_four_times(corpus, Path(name) / corpus.split()[0], model, repetitions)


if __name__ == "__main__":
    main()

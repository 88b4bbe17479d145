"""`lmk_eval.evaluate` beside MTEB with its own Sentence Transformers wrapper: same model, same task, same scores.

Run: ``python benchmarks/evaluate.py [--repetitions N] [--json FILE]``. The corpora are those of ``encode.py``, each
with queries made of a text's first words, and everything counts from reading the files to the scores. Then one model
is read at four granularities: with every text tokenized once, and in four evaluations.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import mteb
from encode import (
    BEST_BATCH,
    MAX_LENGTH,
    SHAPES,
    build_model,
    corpora,
    library_words,
    our_tokens,
    peer_of,
    tokens_computed,
)
from mteb.models.sentence_transformer_wrapper import SentenceTransformerEncoderWrapper
from suite.measuring import Report, interleaved, layer_shapes, matrix_rate, note, options
from suite.result import Result

from lmk_core import Embedder
from lmk_eval import Reading, Suite, evaluate, evaluate_readings
from lmk_eval.evaluation.undisturbed import undisturbed
from lmk_eval.tasks import open_task
from lmk_train.throughput import ModelFlops

QUERIES = 20
QUERY_WORDS = 8
Scores = dict[str, dict[str, float]]
"""Task to metric to value."""
GRANULARITIES = (32, 64, 128, 256)
METRICS = ("ndcg_at_10", "precision_at_1", "recall_at_10")


def write_set(folder: Path, texts: list[str]) -> Suite:
    """The texts as a corpus in BEIR layout; every query is the beginning of one of them."""
    (folder / "qrels").mkdir(parents=True)
    documents = [{"_id": f"d{number}", "text": text} for number, text in enumerate(texts)]
    asked = queries_of(texts)
    queries = [{"_id": f"q{number}", "text": text} for number, text in asked.items()]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    rows = [f"q{number}\td{number}\t1" for number in asked]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]))
    return Suite.from_folder("set", folder)


def queries_of(texts: list[str]) -> dict[int, str]:
    """The first words of some of the texts, by the number of the text."""
    asked = range(0, len(texts), max(len(texts) // QUERIES, 1))
    return {number: " ".join(texts[number].split()[:QUERY_WORDS]) for number in asked}


def work_of(embedder: Embedder, texts: list[str]) -> tuple[int, int, float]:
    """Tokens of the corpus and of its queries, those that are computed with the padding, and the operations."""
    parts, flops = (texts, list(queries_of(texts).values())), ModelFlops(embedder.module)
    needed, processed = map(sum, zip(*(our_tokens(embedder, part) for part in parts), strict=True))
    return needed, processed, sum(flops.forward(embedder.tokenizer.layouts(part)) for part in parts)


def compare(report: Report, case: str, texts: list[str], place: Path, model: Path, given: Any) -> None:
    suite = write_set(place / "set", texts)
    embedder = Embedder.from_pretrained(model, "mean", max_length=MAX_LENGTH, device="cpu")
    peer, best = peer_of(model), BEST_BATCH[case]

    def ours() -> dict[str, float]:
        with tempfile.TemporaryDirectory() as out:
            more: dict[str, Any] = {"name": "bench/ours", "revision": "r", "max_length": MAX_LENGTH}
            return evaluate(embedder, suite, folder=Path(out), **more)["set"]

    def theirs(batch_size: int = 32) -> dict[str, float]:
        (task,) = open_task(suite.tasks[0])
        wrapped = SentenceTransformerEncoderWrapper(peer)
        with undisturbed(quiet=True):
            result = mteb.evaluate(
                wrapped,
                task,
                cache=None,
                co2_tracker=False,
                show_progress_bar=False,
                encode_kwargs={"batch_size": batch_size, "show_progress_bar": False},
            )
        return result.task_results[0].scores["test"][0]

    own, computed, apart = ours(), {}, {}
    for which, size in (("defaults", 32), ("best", best)):  # this also warms both
        other, computed[which] = tokens_computed(peer, lambda size=size: theirs(size))
        apart[which] = max(abs(own[metric] - other[metric]) for metric in METRICS)
        assert apart[which] < 1e-3, f"{case}: {[(metric, own[metric], other[metric]) for metric in METRICS]}"
    repetitions = 1 if given.quick else given.repetitions
    taken = interleaved({"ours": ours, "defaults": theirs, "best": lambda: theirs(best)}, repetitions, warm=0)
    needed, processed, flops = work_of(embedder, texts)
    rate = matrix_rate(layer_shapes(embedder.module.encoder.config))
    mteb_name = "MTEB, Sentence Transformers"
    for which, name in (("defaults", mteb_name), ("best", f"{mteb_name}, batches of {best}")):
        report.add(
            Result(
                "evaluate",
                f"{case}, {len(texts)} texts",
                taken["ours"].side("evaluate", processed),
                taken[which].side(name, computed[which]),
                "s",
                same=f"scores to {apart[which]:.0e}",
                needed=needed,
                limit=flops / rate,
                limit_of="matrix products",
                conditions={"texts": len(texts), "matrix_rate": rate, "shapes": SHAPES, "flops": flops},
                headline=which == "best",
            )
        )


def once_or_four_times(report: Report, case: str, place: Path, model: Path, given: Any) -> None:
    suite = Suite.from_folder("set", place / "set")
    embedder = Embedder.from_pretrained(model, "landmark", 32, MAX_LENGTH, device="cpu")
    readings = {size: embedder.pooling.with_granularity(size) for size in GRANULARITIES}

    def once() -> list[Scores]:
        each = [Reading(f"g{size}", f"g{size}", pooling.to_dict()) for size, pooling in readings.items()]
        with tempfile.TemporaryDirectory() as out:
            more: dict[str, Any] = {"name": "bench/once", "max_length": MAX_LENGTH}
            return list(evaluate_readings(embedder, suite, each, folder=Path(out), **more).values())

    def four_times() -> list[Scores]:
        found = []
        for size, pooling in readings.items():
            more = {"name": "bench/four", "revision": f"g{size}", "max_length": MAX_LENGTH, "pooling": pooling}
            with tempfile.TemporaryDirectory() as out:
                found.append(evaluate(embedder, suite, folder=Path(out), **more))
        return found

    pairs = list(zip(once(), four_times(), strict=True))  # this also warms both
    assert all(one["set"].keys() == other["set"].keys() for one, other in pairs), f"{case}: not the same metrics"
    apart = max(abs(value - other["set"][metric]) for one, other in pairs for metric, value in one["set"].items())
    assert apart < 1e-5, f"{case}: the scores of one tokenization and of four evaluations are {apart} apart"
    taken = interleaved({"once": once, "four": four_times}, 1 if given.quick else given.repetitions, warm=0)
    ours, peer = taken["once"].side("evaluate_readings"), taken["four"].side("four evaluations of ours")
    what = f"{case}, {len(GRANULARITIES)} granularities"
    report.add(Result("evaluate", what, ours, peer, "s", same=f"scores to {apart:.0e}"))


def main() -> None:
    given = options(__doc__, repetitions=3).parse_args()
    warnings.filterwarnings("ignore")
    report, words = Report(given.json), library_words()
    with tempfile.TemporaryDirectory() as name:
        model = Path(name) / "model"
        build_model(model, words)
        tokenizer = Embedder.from_pretrained(model, "mean", max_length=MAX_LENGTH).tokenizer.hf_tokenizer
        sets = corpora(words, lambda text: len(tokenizer(text, verbose=False)["input_ids"]))
        for case, texts in sets.items():
            note(case)
            own = texts[: max(2, len(texts) // 20)] if given.quick else texts
            compare(report, case, own, Path(name) / case.split()[0], model, given)
        note("four granularities")
        once_or_four_times(report, "passages", Path(name) / "passages", model, given)


if __name__ == "__main__":
    main()

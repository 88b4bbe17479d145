"""One reading of one model on one suite: opens the tasks, runs MTEB on what is missing, reports the scores."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import mteb
import torch
from mteb.abstasks import AbsTask, AbsTaskRetrieval
from mteb.results import TaskResult

from lmk_core import Embedder
from lmk_core.pooling import PoolingConfig, PoolingConfigError
from lmk_core.recording import NullRecorder, Recorder
from lmk_eval.encoders import EmbedderEncoder, TextEncoder
from lmk_eval.evaluation.errors import EvaluationError
from lmk_eval.evaluation.scores import Part, per_query, report
from lmk_eval.evaluation.undisturbed import undisturbed
from lmk_eval.suites import Suite, Task, check_name
from lmk_eval.tasks import open_task

# Rows MTEB's loader hands over at a time; the adapter collects them all, so this only costs overhead when small.
_LOADER_ROWS = 256


def evaluate(
    model: str | Path | TextEncoder,
    suite: Suite,
    *,
    folder: Path,
    name: str,
    revision: str,
    max_length: int,
    pooling: PoolingConfig | None = None,
    batch_tokens: int = 16384,
    recorder: Recorder | None = None,
) -> dict[str, dict[str, float]]:
    """Score a model on every task of a suite.

    MTEB's result files go to `folder/results`, each query's nDCG@10 to `folder/per_query/<task>.json`. A second call
    with the same folder, name, revision and reading runs only what has no result yet. The recorder gets one `task`
    event a task: name, seconds, cached, documents, queries.

    Args:
        model: A saved model's folder, a name on the hub (both are read in float32), or an `Embedder`.
        suite: The tasks.
        folder: Where results are kept.
        name: The model's name in the results, `org/name` or `name`.
        revision: What tells this model from others of that name; a safe part of a path.
        max_length: Texts are cut to this many tokens.
        pooling: Read the model in this way instead of its own.
        batch_tokens: Tokens in one batch, padding included.
        recorder: Is told of tasks and of the texts done. What it raises ends the evaluation.

    Returns:
        Task name to metric to value: `ndcg_at_10`, `precision_at_1`, `recall_at_10`, `recall_at_100`, `mrr_at_10`,
        `main_score` and, with `group_by`, `ndcg_at_10[key=value]` and so on. Values are rounded to 6 digits.
        Tasks that are not retrieval give `main_score` and those of `f1`, `accuracy` they have.

    Raises:
        PoolingConfigError: if the model has no pooling and none is given, or cannot be read in the given one.
        EvaluationError: if a task fails (names it; the cause is chained) or a metric is not a finite number.
            Running out of memory is raised as it is, with the task's name as a note.
    """
    check_name(revision, "revision")
    for part in name.split("/"):
        check_name(part, "model name")
    recorder = recorder or NullRecorder()
    folder = Path(folder)
    cache = mteb.ResultCache(folder)  # adds `results` itself
    scores: dict[str, dict[str, float]] = {}
    with undisturbed(quiet=not sys.stderr.isatty()):
        opened = [(task, _named(task, lambda task=task: open_task(task))) for task in suite.tasks]
        encoder = EmbedderEncoder(
            _embedder(model, pooling, max_length),
            name,
            revision,
            max_length=max_length,
            batch_tokens=batch_tokens,
            recorder=recorder,
        )
        for task, parts in opened:
            scores[task.name] = _named(task, lambda task=task, parts=parts: _score(task, parts, encoder, cache, folder))
    return scores


def _embedder(model: str | Path | TextEncoder, pooling: PoolingConfig | None, max_length: int) -> Any:
    """The model, read in the wanted way. Trained weights are never dropped for a reading, nor random ones added."""
    embedder: Any = model
    if isinstance(model, str | Path):
        try:
            embedder = Embedder.from_pretrained(model, max_length=max_length)
        except PoolingConfigError:
            # A plain model of transformers has no pooling of its own.
            if pooling is None:
                raise
            if pooling.kind == "latent_attention":
                raise PoolingConfigError(
                    f"{model}: has no trained latents, and random ones mean nothing; "
                    "read it in another way, or train it with latent_attention first",
                    "kind",
                ) from None
            return Embedder.from_pretrained(model, pooling, max_length=max_length)
    return embedder if pooling is None else embedder.with_pooling(pooling)


def _named(task: Task, work: Any) -> Any:
    """The result of the work; its errors get the task's name."""
    try:
        return work()
    except (MemoryError, torch.OutOfMemoryError) as error:
        # Callers tell these by their type: they can be answered with a smaller batch.
        error.add_note(f"in task {task.name!r}")
        raise
    except EvaluationError:
        raise
    except Exception as error:
        text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
        raise EvaluationError(f"task {task.name!r}: {type(error).__name__}: {text}", task.name) from error


def _score(
    task: Task, opened: list[AbsTask], encoder: EmbedderEncoder, cache: mteb.ResultCache, folder: Path
) -> dict[str, float]:
    """Run what is missing of one task of the suite and write its per-query scores."""
    started = time.monotonic()
    parts: list[Part] = []
    documents = queries = 0
    cached = True
    for inner in opened:
        result = _known(inner, encoder, cache)
        if result is None or result.get_missing_evaluations(inner):
            cached = False
            result, sizes = _run(inner, result, encoder, cache)
            documents, queries = documents + sizes[0], queries + sizes[1]
        parts += _parts(inner, result)
    values = report(task.name, parts, task.group_by, task.metric)
    if by_query := per_query(parts):
        _write_json(folder / "per_query" / f"{task.name}.json", by_query)
    sizes_known = {"documents": documents, "queries": queries} if queries else {}
    encoder.recorder.event(
        "task", name=task.name, seconds=round(time.monotonic() - started, 3), cached=cached, **sizes_known
    )
    return values


def _known(task: AbsTask, encoder: EmbedderEncoder, cache: mteb.ResultCache) -> TaskResult | None:
    """What MTEB's cache holds of a task; a file that can't be read, or of other data, is removed.

    MTEB itself compares the data's revision only when a split is missing, and fails on a file that was cut off.
    """
    path = cache.get_task_result_path(task.metadata.name, encoder.mteb_model_meta)
    if not path.is_file():
        return None
    try:
        result = TaskResult.from_disk(path, load_historic_data=False)
    except ValueError:
        result = None
    if result is None or result.dataset_revision != task.metadata.revision:
        path.unlink()
        return None
    return result


def _run(
    task: AbsTask, known: TaskResult | None, encoder: EmbedderEncoder, cache: mteb.ResultCache
) -> tuple[TaskResult, tuple[int, int]]:
    """Let MTEB run the splits and subsets that have no result: the full result, and (documents, queries) encoded."""
    everything = {split: list(task.hf_subsets) for split in task.eval_splits}
    missing = known.get_missing_evaluations(task) if known else everything
    try:
        task.load_data()
        sizes = _sizes(task, missing)
        encoder.expect(sum(sizes) or None)
        result = mteb.evaluate(
            encoder,
            [task],
            co2_tracker=False,
            encode_kwargs={"batch_size": _LOADER_ROWS, "show_progress_bar": False},
            cache=cache,
            overwrite_strategy="only-missing",
            show_progress_bar=False,
        )
    finally:
        if task.data_loaded:
            task.unload_data()
    return result.task_results[0], sizes


def _sizes(task: AbsTask, missing: dict[str, list[str]]) -> tuple[int, int]:
    """Documents and queries of the missing parts; (0, 0) for tasks that are not retrieval."""
    if not isinstance(task, AbsTaskRetrieval):
        return 0, 0
    task.convert_v1_dataset_format_to_v2(num_proc=None)
    data = [task.dataset[subset][split] for split, subsets in missing.items() for subset in subsets]
    return sum(len(part["corpus"]) for part in data), sum(len(part["queries"]) for part in data)


def _parts(task: AbsTask, result: TaskResult) -> list[Part]:
    """The parts the suite asks for; a result file may hold more."""
    return [
        Part(task.metadata.name, split, scores["hf_subset"], isinstance(task, AbsTaskRetrieval), scores)
        for split in task.eval_splits
        for scores in result.scores.get(split, [])
        if scores["hf_subset"] in task.hf_subsets
    ]


def _write_json(path: Path, values: dict[str, float]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(values, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    temporary.replace(path)

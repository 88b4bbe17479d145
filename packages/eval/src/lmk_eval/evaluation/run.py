"""A model on a suite, in one reading or several: runs MTEB on what is missing, and reports the scores."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mteb
import torch
from mteb.abstasks import AbsTask, AbsTaskRetrieval
from mteb.results import TaskResult

from lmk_core.pooling import PoolingConfig
from lmk_core.recording import NullRecorder, Recorder
from lmk_eval.encoders import TextEncoder
from lmk_eval.evaluation.open import EMBEDDINGS, OpenSuite, named
from lmk_eval.evaluation.per_query import write_per_query
from lmk_eval.evaluation.scores import Part, per_query, report
from lmk_eval.evaluation.settings import Reading, Settings
from lmk_eval.evaluation.undisturbed import undisturbed
from lmk_eval.evaluation.workers import Corpus, Job, Workers
from lmk_eval.suites import Suite, Task, check_name

# Rows MTEB's loader hands over at a time; the adapter collects them all, so this only costs overhead when small.
_LOADER_ROWS = 256
TOKENS = "tokens"

Scores = dict[str, dict[str, float]]
"""Task name to metric to value."""


def evaluate(
    model: str | Path | TextEncoder,
    suite: Suite,
    *,
    folder: Path,
    name: str,
    revision: str,
    max_length: int,
    pooling: PoolingConfig | None = None,
    batch_tokens: int | None = None,
    recorder: Recorder | None = None,
    settings: Settings | None = None,
) -> Scores:
    """Score a model on every task of a suite.

    MTEB's result files go to `folder/results`, each query's scores to `folder/per_query`. A second call with the same
    folder, name, revision and reading runs only what has no result yet, and goes on within a corpus that was encoded in
    part. The recorder gets one `task` event a task: name, seconds, cached, documents, queries.

    Args:
        model: A saved model's folder, a name on the hub, or an `Embedder`.
        suite: The tasks.
        folder: Where results are kept.
        name: The model's name in the results, `org/name` or `name`.
        revision: What tells this model from others of that name; a safe part of a path.
        max_length: Texts are cut to this many tokens.
        pooling: Read the model in this way instead of its own.
        batch_tokens: Tokens in one batch; what suits the device unless said. Halved when memory runs out.
        recorder: Is told of tasks and of the texts done. What it raises ends the evaluation.
        settings: How it is carried out on this machine.

    Returns:
        Task name to metric to value: `ndcg_at_10`, `precision_at_1`, `recall_at_10`, `recall_at_100`, `mrr_at_10`,
        `main_score` and, with `group_by`, `ndcg_at_10[key=value]` and so on. Values are rounded to 6 digits.
        Tasks that are not retrieval give `main_score` and those of `f1`, `accuracy` they have.
        Nothing, where the settings name a share.

    Raises:
        PoolingConfigError: if the model has no pooling and none is given, or cannot be read in the given one.
        EvaluationError: if a task fails (names it; the cause is chained) or a metric is not a finite number.
            Running out of memory is raised as it is, with the task's name as a note.
        PromptError: if a prompt has a key that no task uses.
    """
    reading = Reading("reading", revision, None if pooling is None else pooling.to_dict())
    with undisturbed(quiet=not sys.stderr.isatty()):
        job = _job(model, suite, [reading], [Path(folder)], name, max_length, batch_tokens, settings or Settings())
        return _evaluate(job, model, suite, recorder or NullRecorder())[0]


def evaluate_readings(
    model: str | Path | TextEncoder,
    suite: Suite,
    readings: Sequence[Reading],
    *,
    folder: Path,
    name: str,
    max_length: int,
    batch_tokens: int | None = None,
    recorder: Recorder | None = None,
    settings: Settings | None = None,
) -> dict[str, Scores]:
    """Score one model, read in several ways, on every task of a suite. Every text is tokenized once.

    Each reading's results are those of an evaluation of its own, below `folder/<its name>`; its events say `reading`.

    Args:
        model: As for `evaluate`.
        suite: The tasks.
        readings: Different names, and different revisions.
        folder: Holds a folder for each reading.
        name: As for `evaluate`; likewise the rest.

    Returns:
        A reading's name to what `evaluate` returns.

    Raises:
        ValueError: if two readings share a name or a revision. As for `evaluate` otherwise.
    """
    for what in ("name", "revision"):
        given = [getattr(reading, what) for reading in readings]
        if len(set(given)) < len(given):
            raise ValueError(f"readings need different {what}s; found {', '.join(given)}")
    for reading in readings:
        check_name(reading.name, "reading")
    folders = [Path(folder) / reading.name for reading in readings]
    settings = settings or Settings()
    own = settings.tokens or Path(folder) / TOKENS
    with undisturbed(quiet=not sys.stderr.isatty()):
        job = _job(model, suite, readings, folders, name, max_length, batch_tokens, replace(settings, tokens=own))
        found = _evaluate(job, model, suite, recorder or NullRecorder(), telling=True)
        if settings.tokens is None and settings.share is None:
            shutil.rmtree(own, ignore_errors=True)
        return {reading.name: scores for reading, scores in zip(readings, found, strict=True)}


def _job(
    model: str | Path | TextEncoder,
    suite: Suite,
    readings: Sequence[Reading],
    folders: Sequence[Path],
    name: str,
    max_length: int,
    batch_tokens: int | None,
    settings: Settings,
) -> Job:
    for reading in readings:
        check_name(reading.revision, "revision")
    for part in name.split("/"):
        check_name(part, "model name")
    path = str(model) if isinstance(model, str | Path) else None
    paths = tuple(map(str, folders))
    return Job(path, name, suite.tasks, tuple(readings), paths, max_length, batch_tokens, settings)


def _evaluate(
    job: Job, model: str | Path | TextEncoder, suite: Suite, recorder: Recorder, *, telling: bool = False
) -> list[Scores]:
    """The scores of every reading."""
    opened = OpenSuite(job, None if isinstance(model, str | Path) else model, recorder)
    processes = job.settings.processes or max(torch.cuda.device_count(), 1)
    alone = job.model is None or processes == 1 or job.settings.share is not None
    workers = None if alone else Workers(job, processes, recorder)
    run = _Run(opened, workers, recorder, telling)
    try:
        found = [named(task, lambda number=number: run.task(number)) for number, task in enumerate(suite.tasks)]
    finally:
        opened.unload()
        if workers is not None:
            workers.close()
    if job.settings.share is None:
        for folder in job.folders:  # everything is scored
            shutil.rmtree(Path(folder) / EMBEDDINGS, ignore_errors=True)
    return [
        {task.name: values[number] for task, values in zip(suite.tasks, found, strict=True) if values[number]}
        for number in range(len(job.readings))
    ]


class _Run:
    """The work on one suite."""

    def __init__(self, opened: OpenSuite, workers: Workers | None, recorder: Recorder, telling: bool) -> None:
        self.opened = opened
        self.workers = workers
        self.recorder = recorder
        self.telling = telling

    def task(self, number: int) -> list[dict[str, float]]:
        """Run what is missing of one task of the suite, reading by reading; each one's metrics."""
        task, parts = self.opened.tasks[number]
        readings = range(len(self.opened.encoders))
        if self.opened.job.settings.share is not None:
            for part_number, part in enumerate(parts):
                for reading in readings:
                    self._share(number, part_number, part, reading)
            return [{} for _ in readings]
        seconds = [0.0 for _ in readings]
        sizes = [(0, 0) for _ in readings]
        cached = [True for _ in readings]
        scored: list[list[Part]] = [[] for _ in readings]
        for part_number, part in enumerate(parts):
            for reading in readings:
                started = time.monotonic()
                if missing := self.opened.missing(part, reading):
                    cached[reading] = False
                    documents, queries = self._run(number, part_number, part, reading, missing)
                    sizes[reading] = (sizes[reading][0] + documents, sizes[reading][1] + queries)
                seconds[reading] += time.monotonic() - started
                # Before the data is unloaded: MTEB may describe loaded data in another way.
                scored[reading] += _parts(part, self.opened.known(part, reading))
            self.opened.unload()
        return [self._finish(task, scored[one], one, seconds[one], sizes[one], cached[one]) for one in readings]

    def _run(
        self, number: int, part_number: int, part: AbsTask, reading: int, missing: dict[str, list[str]]
    ) -> tuple[int, int]:
        """Let MTEB run the splits and subsets that have no result: (documents, queries) that were encoded."""
        encoder, cache = self.opened.encoders[reading], self.opened.caches[reading]
        self.opened.load(part)
        sizes = _sizes(part, missing)
        encoder.expect(sum(sizes) or None)
        encoder.together = self._together(number, part_number, reading)
        mteb.evaluate(
            encoder,
            [part],
            co2_tracker=False,
            encode_kwargs={"batch_size": _LOADER_ROWS, "show_progress_bar": False},
            cache=cache,
            overwrite_strategy="only-missing",
            show_progress_bar=False,
        )
        encoder.forget()  # the scores are kept, the vectors can go
        return sizes

    def _together(self, number: int, part_number: int, reading: int) -> Any:
        """How the encoder asks the other processes for help with a corpus; None where there are none."""
        workers = self.workers
        if workers is None:
            return None

        def encode(split: str, subset: str, own: Any) -> None:
            workers.encode(Corpus(number, part_number, reading, split, subset), own)

        return encode

    def _share(self, number: int, part_number: int, part: AbsTask, reading: int) -> None:
        """Encode a share of the corpora that have no result yet."""
        if isinstance(part, AbsTaskRetrieval):
            for split, subsets in self.opened.missing(part, reading).items():
                for subset in subsets:
                    self.opened.encode(Corpus(number, part_number, reading, split, subset))

    def _finish(
        self,
        task: Task,
        scored: Sequence[Part],
        reading: int,
        seconds: float,
        sizes: tuple[int, int],
        cached: bool,
    ) -> dict[str, float]:
        """The metrics of a task; keeps its queries' own scores, and tells the recorder."""
        folder = Path(self.opened.job.folders[reading])
        values = report(task.name, scored, task.group_by, task.metric)
        if by_query := per_query(scored):
            write_per_query(folder, task.name, by_query)
        more: dict[str, Any] = {"documents": sizes[0], "queries": sizes[1]} if sizes[1] else {}
        if self.telling:
            more["reading"] = self.opened.job.readings[reading].name
        self.recorder.event("task", name=task.name, seconds=round(seconds, 3), cached=cached, **more)
        return values


def _sizes(task: AbsTask, missing: dict[str, list[str]]) -> tuple[int, int]:
    """Documents and queries of the missing parts; (0, 0) for tasks that are not retrieval."""
    if not isinstance(task, AbsTaskRetrieval):
        return 0, 0
    data = [task.dataset[subset][split] for split, subsets in missing.items() for subset in subsets]
    return sum(len(part["corpus"]) for part in data), sum(len(part["queries"]) for part in data)


def _parts(task: AbsTask, result: TaskResult | None) -> list[Part]:
    """The parts the suite asks for; a result file may hold more."""
    held = {} if result is None else result.scores
    return [
        Part(task.metadata.name, split, scores["hf_subset"], isinstance(task, AbsTaskRetrieval), scores)
        for split in task.eval_splits
        for scores in held.get(split, [])
        if scores["hf_subset"] in task.hf_subsets
    ]

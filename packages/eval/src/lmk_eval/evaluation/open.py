"""A suite that is open: its tasks, the model in each of its readings, and where every reading's results are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import mteb
import torch
from mteb.abstasks import AbsTask, AbsTaskRetrieval
from mteb.results import TaskResult

from lmk_core import Embedder
from lmk_core.pooling import PoolingConfig, PoolingConfigError
from lmk_core.recording import NullRecorder, Recorder
from lmk_eval.corpus.tokens import TokenCache
from lmk_eval.encoders import EmbedderEncoder, Prompts, Store, TextEncoder
from lmk_eval.evaluation.errors import EvaluationError
from lmk_eval.evaluation.workers import Corpus, Job
from lmk_eval.suites import Task
from lmk_eval.tasks import load_task, open_task

EMBEDDINGS = "embeddings"
_Result = TypeVar("_Result")


class OpenSuite:
    """The tasks and encoders of a job.

    Args:
        job: what is evaluated, in which readings, and how.
        model: the model itself, where it is not to be read from ``job.model``.
        recorder: is told how many texts are done.

    Attributes:
        tasks: each task of the suite with MTEB's tasks that it stands for.
        encoders: one a reading.
        caches: MTEB's results, one a reading.
    """

    def __init__(
        self,
        job: Job,
        model: TextEncoder | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.job = job
        settings = job.settings
        self.tokens = TokenCache(settings.tokens)
        self.tasks = [(task, named(task, lambda task=task: open_task(task, settings.mirrors))) for task in job.tasks]
        opened = [part.metadata for _, parts in self.tasks for part in parts]
        prompts = Prompts(settings.prompts, [(one.name, one.type) for one in opened])
        self.encoders = [
            EmbedderEncoder(
                embedder,
                job.name,
                reading.revision,
                max_length=job.max_length,
                batch_tokens=job.batch_tokens,
                recorder=recorder or NullRecorder(),
                prompts=prompts,
                tokens=self.tokens,
                store=Store(
                    Path(folder) / EMBEDDINGS,
                    settings.storage,
                    settings.shard_texts,
                    share=settings.share or (0, 1),
                ),
                weights=settings.weights,
            )
            for embedder, reading, folder in zip(_read(job, model), job.readings, job.folders, strict=True)
        ]
        self.caches = [mteb.ResultCache(folder) for folder in job.folders]  # each adds `results` itself
        self._loaded: AbsTask | None = None

    def load(self, part: AbsTask) -> None:
        """Load a task's data, and unload that of the task before it."""
        if self._loaded is not part:
            self.unload()
        load_task(part)
        self._loaded = part
        if isinstance(part, AbsTaskRetrieval):
            part.convert_v1_dataset_format_to_v2(num_proc=None)

    def unload(self) -> None:
        """Let go of the data that is loaded."""
        if self._loaded is not None and self._loaded.data_loaded:
            self._loaded.unload_data()
        self._loaded = None

    def encode(self, corpus: Corpus) -> None:
        """Encode this process's share of a corpus, and score nothing."""
        part: Any = self.tasks[corpus.task][1][corpus.part]
        self.load(part)
        data = part.dataset[corpus.subset][corpus.split]["corpus"]
        self.encoders[corpus.reading].index(
            data, task_metadata=part.metadata, hf_split=corpus.split, hf_subset=corpus.subset
        )

    def known(self, part: AbsTask, reading: int) -> TaskResult | None:
        """What MTEB's cache holds of a task; a file that can't be read, or of other data, is removed.

        MTEB itself compares the data's revision only when a split is missing, and fails on a file that was cut off.
        """
        path = self.caches[reading].get_task_result_path(part.metadata.name, self.encoders[reading].mteb_model_meta)
        if not path.is_file():
            return None
        try:
            result = TaskResult.from_disk(path, load_historic_data=False)
        except ValueError:
            result = None
        if result is None or result.dataset_revision != part.metadata.revision:
            path.unlink()
            return None
        return result

    def missing(self, part: AbsTask, reading: int) -> dict[str, list[str]]:
        """Split to subsets that have no result yet."""
        known = self.known(part, reading)
        if known is None:
            return {split: list(part.hf_subsets) for split in part.eval_splits}
        return {split: list(subsets) for split, subsets in known.get_missing_evaluations(part).items()}


def named(task: Task, work: Callable[[], _Result]) -> _Result:
    """The result of the work; its errors get the task's name."""
    try:
        return work()
    except (MemoryError, torch.OutOfMemoryError) as error:
        # Callers tell these by their type: they can be answered with more memory.
        error.add_note(f"in task {task.name!r}")
        raise
    except EvaluationError:
        raise
    except Exception as error:
        text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
        raise EvaluationError(f"task {task.name!r}: {type(error).__name__}: {text}", task.name) from error


def _read(job: Job, model: TextEncoder | None) -> Sequence[Any]:
    """The model in each reading. Trained weights are never dropped for a reading, nor random ones added."""
    wanted = [None if one.pooling is None else PoolingConfig.from_dict(one.pooling) for one in job.readings]
    base: Any = model if model is not None else _open(job, wanted[0])
    return [base if pooling is None else base.with_pooling(pooling) for pooling in wanted]


def _open(job: Job, pooling: PoolingConfig | None) -> Embedder:
    assert job.model is not None
    dtype = job.settings.weights
    try:
        return Embedder.from_pretrained(job.model, max_length=job.max_length, dtype=dtype)
    except PoolingConfigError:
        # A plain model of transformers has no pooling of its own.
        if pooling is None:
            raise
        if pooling.kind == "latent_attention":
            raise PoolingConfigError(
                f"{job.model}: has no trained latents, and random ones mean nothing; "
                "read it in another way, or train it with latent_attention first",
                "kind",
            ) from None
        return Embedder.from_pretrained(job.model, pooling, max_length=job.max_length, dtype=dtype)

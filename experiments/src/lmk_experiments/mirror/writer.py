"""Bring one run up to what is wanted, writing only what differs."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from lmk_experiments.mirror.marks import Marks
from lmk_experiments.mirror.models import Models
from lmk_experiments.mirror.names import MAX_NAME, path_name
from lmk_experiments.mirror.store import Store
from lmk_experiments.mirror.wanted import Status, Wanted, milliseconds

if TYPE_CHECKING:
    from mlflow.entities import Metric, Run

Item = TypeVar("Item")
_METRICS_A_BATCH = 1000
_PARAMS_A_BATCH = 100


class Writer:
    """Writes runs of one store and counts what it wrote."""

    def __init__(self, store: Store, user: str, models: Models | None = None) -> None:
        self.store = store
        self.models = models
        self.user = user
        self.writes = 0
        """Calls that changed the store."""
        self.warnings: list[str] = []

    def create(self, experiment: str, name: str, tags: Mapping[str, str], start: int) -> Run:
        """A new run; whoever made it stays its user."""
        own = {"lmk.user": self.user, "mlflow.user": self.user, "mlflow.source.name": "lmk sync"}
        self.writes += 1
        return self.store.client.create_run(experiment, start_time=start, tags={**own, **tags}, run_name=name)

    def update(self, wanted: Wanted, run: Run, marks: Marks, tags: Mapping[str, str], *, fresh: bool) -> None:
        """Bring ``run`` to ``wanted``, its status after its content, its model last.

        ``fresh``: it was created just now and holds no curves.
        """
        params = {key: text for key, text in wanted.params.items() if key not in run.data.params}
        self._batches(
            run.info.run_id,
            params=params,
            tags=_differing(tags, run.data.tags),
            metrics=self._scores(wanted, run),
        )
        if wanted.place.kind == "training":
            self._curves(wanted, run, marks, fresh=fresh)
        self._artifacts(wanted, run, marks)
        self.finish(run, wanted.status, wanted.end)
        if self.models is not None:
            self.log_model(wanted, run, marks, self.models)

    def log_model(self, wanted: Wanted, run: Run, marks: Marks, models: Models) -> None:
        """After all else: weights may take minutes, and a run is complete without them."""
        before, told = models.writes, len(models.warnings)
        models.log(wanted, run, marks)
        self.writes += models.writes - before
        self.warnings += models.warnings[told:]

    def finish(self, run: Run, status: Status, end: int | None) -> None:
        """Set status and end from the records; what MLflow says of itself is no evidence."""
        if status in ("RUNNING", "SCHEDULED"):
            if run.info.status != status:
                self.writes += 1
                self.store.client.update_run(run.info.run_id, status=status)
        elif run.info.status != status or (end is not None and run.info.end_time != end):
            self.writes += 1
            self.store.client.set_terminated(run.info.run_id, status, end)

    def set_tags(self, run: Run, tags: Mapping[str, str]) -> None:
        """Write the tags that differ."""
        self._batches(run.info.run_id, tags=_differing(tags, run.data.tags))

    def upload(self, run: Run, name: str, text: str) -> bool:
        """Write an artifact; a refusal is a warning, since the records hold the same."""
        try:
            self.store.client.log_text(run.info.run_id, text, name)
        except Exception as error:  # noqa: BLE001  an artifact store may fail in any way of its own
            reason = str(error).strip().partition("\n")[0]
            self.warnings.append(f"{name} of run {run.info.run_name} was not taken by the artifact store: {reason}")
            return False
        self.writes += 1
        return True

    def _scores(self, wanted: Wanted, run: Run) -> list[Metric]:
        from mlflow.entities import Metric

        held, time = run.data.metrics, wanted.end or wanted.start
        return [
            Metric(name, value, time, 0)
            for name, value in wanted.scores.items()
            if not (name in held and (held[name] == value or (math.isnan(held[name]) and math.isnan(value))))
        ]

    def _curves(self, wanted: Wanted, run: Run, marks: Marks, *, fresh: bool) -> None:
        """Append the points of steps that the run has not got yet.

        A step that the run has got stays as it is, also when the records tell it anew: a run that was stopped and
        resumed repeats some steps, and its curve must not show them twice.
        """
        file = wanted.cell.folder / "metrics.jsonl"
        if not file.exists():
            return
        read = [file.stat().st_size, file.stat().st_mtime_ns]
        if marks.curves is not None and marks.curves["read"] == read:
            return
        lines = wanted.cell.metrics()
        self.warnings += wanted.cell.wrong_metrics()
        last: dict[str, int] = {}
        if marks.curves is not None:
            last.update(marks.curves["steps"])
        elif not fresh:
            last.update(self._steps_held(run))
        points = _new_points(lines, last)
        if points:
            marks.curves = None
            marks.save()
            self._batches(run.info.run_id, metrics=points)
        for point in points:
            last[point.key] = max(last.get(point.key, point.step), point.step)
        marks.curves = {"read": read, "steps": last}
        marks.save()

    def _steps_held(self, run: Run) -> dict[str, int]:
        """The last step of each curve in the store, asked of the store itself."""
        history = self.store.client.get_metric_history
        return {name: max(point.step for point in history(run.info.run_id, name)) for name in run.data.metrics}

    def _artifacts(self, wanted: Wanted, run: Run, marks: Marks) -> None:
        for name, text in wanted.artifacts.items():
            if marks.artifacts.get(name) != digest(text) and self.upload(run, name, text):
                marks.artifacts[name] = digest(text)
                marks.save()

    def _batches(
        self,
        run_id: str,
        *,
        metrics: Sequence[Metric] = (),
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Write in as few calls as MLflow's limits allow."""
        from mlflow.entities import Param, RunTag

        log_batch = self.store.client.log_batch
        for some in _chunks([Param(key, text) for key, text in (params or {}).items()], _PARAMS_A_BATCH):
            self.writes += 1
            log_batch(run_id, params=some)
        for some in _chunks([RunTag(key, text) for key, text in (tags or {}).items()], _PARAMS_A_BATCH):
            self.writes += 1
            log_batch(run_id, tags=some)
        for some in _chunks(metrics, _METRICS_A_BATCH):
            self.writes += 1
            log_batch(run_id, metrics=some)


def digest(text: str) -> str:
    """A short digest, to see whether an artifact changed."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _new_points(lines: Sequence[Mapping[str, Any]], last: Mapping[str, int]) -> list[Metric]:
    from mlflow.entities import Metric

    return [
        Metric(name, float(value), milliseconds(line["time"]), line["step"])
        for line in lines
        for name, value in ((path_name(name)[:MAX_NAME], value) for name, value in line["values"].items())
        if name not in last or line["step"] > last[name]
    ]


def _differing(wanted: Mapping[str, str], held: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in wanted.items() if held.get(key) != text}


def _chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]

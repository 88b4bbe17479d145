"""Bring one run up to what is wanted, writing only what differs."""

from __future__ import annotations

import hashlib
import itertools
import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lmk_experiments.mirror.address import explain
from lmk_experiments.mirror.curves import FILES, files_of, is_read, pieces, points
from lmk_experiments.mirror.marks import Marks
from lmk_experiments.mirror.store import ROOT_ID, Store
from lmk_experiments.mirror.wanted import Status, Wanted, milliseconds

if TYPE_CHECKING:
    from mlflow.entities import Metric, Run

Item = TypeVar("Item")
# A call takes 1000 things at most, whatever they are.
_METRICS_A_BATCH = 800
_PARAMS_A_BATCH = 100
_MOST_REFUSALS = 3
"""In a row; then the artifact store is left alone, so that one that answers late does not hold everything up."""


class Writer:
    """Writes runs of one store and counts what it wrote."""

    def __init__(self, store: Store, user: str) -> None:
        self.store = store
        self.user = user
        self.writes = 0
        """Calls that changed the store."""
        self.warnings: list[str] = []
        self.refusals = 0
        """Artifacts in a row that the store did not take."""

    def another(self) -> Writer:
        """A writer with counts of its own, for one cell: cells may be written at once."""
        fresh = type(self)(self.store, self.user)
        fresh.refusals = self.refusals
        return fresh

    def may_write(self) -> None:
        """Called before anything is written, or asked of the store in order to write."""

    def add(self, other: Writer) -> None:
        """Take over what another one has counted."""
        self.writes += other.writes
        self.warnings += other.warnings
        self.refusals = other.refusals

    def create(self, experiment: str, name: str, tags: Mapping[str, str], start: int) -> Run:
        """A new run; whoever made it stays its user."""
        self.may_write()
        own = {
            ROOT_ID: self.store.root.id,
            "lmk.user": self.user,
            "mlflow.user": self.user,
            "mlflow.source.name": "lmk sync",
        }
        self.writes += 1
        return self.store.client.create_run(experiment, start_time=start, tags={**own, **tags}, run_name=name)

    def update(self, wanted: Wanted, run: Run, marks: Marks, tags: Mapping[str, str], *, fresh: bool) -> None:
        """Bring ``run`` to ``wanted``, its status last. ``fresh``: it was created just now and holds no curves."""
        from mlflow.entities import Metric

        scores = _scores(wanted, run)
        self._batches(
            run.info.run_id,
            params=_missing(wanted, run),
            tags=_differing(tags, run.data.tags),
            metrics=[Metric(name, value, wanted.end or wanted.start, 0) for name, value in scores.items()],
        )
        for file in files_of(wanted.place.kind):
            self._curves(file, wanted, run, marks, fresh=fresh)
        self._artifacts(wanted, run, marks)
        self.finish(run, wanted.status, wanted.end)

    def settled(self, wanted: Wanted, run: Run, marks: Marks, tags: Mapping[str, str]) -> bool:
        """Whether ``update`` would write nothing."""
        return (
            marks.run_id == run.info.run_id
            and not _missing(wanted, run)
            and not _differing(tags, run.data.tags)
            and not _scores(wanted, run)
            and all(is_read(wanted.cell.folder / file, marks.curves.get(file)) for file in files_of(wanted.place.kind))
            and not _unknown(wanted, marks)
            and _is_finished(run, wanted.status, wanted.end)
        )

    def finish(self, run: Run, status: Status, end: int | None) -> None:
        """Set status and end from the records; what MLflow says of itself is no evidence."""
        if _is_finished(run, status, end):
            return
        self.may_write()
        self.writes += 1
        if status in ("RUNNING", "SCHEDULED"):
            self.store.client.update_run(run.info.run_id, status=status)
        else:
            from mlflow.entities import RunStatus

            # Not the client's own `set_terminated`, which asks a server for the run first, to print its address.
            store = self.store.client._tracking_client.store
            store.update_run_info(run.info.run_id, RunStatus.from_string(status), end or int(time.time() * 1000), None)

    def set_tags(self, run: Run, tags: Mapping[str, str]) -> None:
        """Write the tags that differ."""
        self._batches(run.info.run_id, tags=_differing(tags, run.data.tags))

    def upload(self, run: Run, name: str, content: str | Path) -> bool:
        """Write an artifact, text or a file as it is; a refusal is a warning, since the records hold the same and the
        next sync tries again.
        """
        self.may_write()
        if self.refusals >= _MOST_REFUSALS:
            return False
        try:
            self._send(run, name, content)
        except Exception as error:  # noqa: BLE001  an artifact store may fail in any way of its own
            self.refusals += 1
            if self.refusals in (1, _MOST_REFUSALS):
                self.warnings.append(self._refused(name, run, explain(error, self.store.address, self.store.uri)))
            return False
        self.refusals = 0
        self.writes += 1
        return True

    def _send(self, run: Run, name: str, content: str | Path) -> None:
        """As the client's own ``log_text`` and ``log_artifact``, which ask a server for the run first."""
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        repository = get_artifact_repository(str(run.info.artifact_uri), tracking_uri=self.store.uri)
        place = str(Path(name).parent) if "/" in name else None
        if isinstance(content, Path):
            repository.log_artifact(str(content), place)
            return
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / Path(name).name
            file.write_text(content, encoding="utf-8")
            repository.log_artifact(str(file), place)

    def _refused(self, name: str, run: Run, reason: str) -> str:
        if self.refusals > 1:
            return f"the artifact store has refused {self.refusals} files in a row, so no more are tried now"
        return (
            f"{name} of run {run.info.run_name} was not taken by the artifact store: {reason}. The records hold "
            "it, and the next sync tries again"
        )

    def _curves(self, file: str, wanted: Wanted, run: Run, marks: Marks, *, fresh: bool) -> None:
        """Append the points of steps that the run has not got yet, as they are in a file of the cell."""
        path, curve = wanted.cell.folder / file, marks.curves.get(file)
        if is_read(path, curve):
            return
        last = {} if curve is None else dict(curve["steps"])
        if curve is None and not fresh:
            last = self._steps_held(run, FILES[file])
        for piece in pieces(path, curve):
            self.warnings += piece.wrong
            if new := points(piece, FILES[file], last):
                if marks.curves.pop(file, None) is not None:
                    marks.save()
                self._points(run.info.run_id, new)
            for name, _, _, step in new:
                last[name] = max(last.get(name, step), step)
            marks.curves[file] = {"offset": piece.offset, "lines": piece.count, "steps": last}
            marks.save()

    def _points(self, run_id: str, new: Sequence[tuple[str, float, float, int]]) -> None:
        from mlflow.entities import Metric

        self._batches(
            run_id, metrics=[Metric(name, value, milliseconds(time), step) for name, value, time, step in new]
        )

    def _steps_held(self, run: Run, prefix: str) -> dict[str, int]:
        """The last step of each curve in the store, asked of the store itself."""
        history = self.store.client.get_metric_history
        names = [name for name in run.data.metrics if name.startswith(prefix)]
        return {name: max(point.step for point in history(run.info.run_id, name)) for name in names}

    def _artifacts(self, wanted: Wanted, run: Run, marks: Marks) -> None:
        for name, (content, mark) in _unknown(wanted, marks).items():
            if self.upload(run, name, content):
                marks.artifacts[name] = mark
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
        if not (metrics or params or tags):
            return
        self.may_write()
        from mlflow.entities import Param, RunTag

        parts = itertools.zip_longest(
            _chunks(metrics, _METRICS_A_BATCH),
            _chunks([Param(key, text) for key, text in (params or {}).items()], _PARAMS_A_BATCH),
            _chunks([RunTag(key, text) for key, text in (tags or {}).items()], _PARAMS_A_BATCH),
            fillvalue=(),
        )
        for some, given, marked in parts:
            self.writes += 1
            self.store.client.log_batch(run_id, metrics=some, params=given, tags=marked)


def digest(text: str) -> str:
    """A short digest, to see whether an artifact changed."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _missing(wanted: Wanted, run: Run) -> dict[str, str]:
    """The parameters that a run has not got. One that it has got can never change."""
    return {key: text for key, text in wanted.params.items() if key not in run.data.params}


def _scores(wanted: Wanted, run: Run) -> dict[str, float]:
    """The scores that a run has not got, or not with these values."""
    held = run.data.metrics
    return {
        name: value
        for name, value in wanted.scores.items()
        if not (name in held and (held[name] == value or (math.isnan(held[name]) and math.isnan(value))))
    }


def _unknown(wanted: Wanted, marks: Marks) -> dict[str, tuple[str | Path, str]]:
    """The artifacts that the run has not got as they are now: what they hold, and a digest of it."""
    every: dict[str, tuple[str | Path, str]] = {name: (text, digest(text)) for name, text in wanted.artifacts.items()}
    every |= wanted.files
    return {name: one for name, one in every.items() if marks.artifacts.get(name) != one[1]}


def _is_finished(run: Run, status: Status, end: int | None) -> bool:
    if status in ("RUNNING", "SCHEDULED"):
        return run.info.status == status
    return run.info.status == status and (end is None or run.info.end_time == end)


def _differing(wanted: Mapping[str, str], held: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in wanted.items() if held.get(key) != text}


def _chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]

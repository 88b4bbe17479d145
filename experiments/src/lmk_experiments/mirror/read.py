"""MLflow back to numbers: what the store holds of a root."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from lmk_experiments.mirror.address import explain
from lmk_experiments.mirror.names import parse_score_name
from lmk_experiments.mirror.plain import TROUBLE, NeedsMlflow, PlainClient, PlainRun
from lmk_experiments.mirror.store import KINDS, ROOT_ID, Kind, Store, StoreError, open_store
from lmk_experiments.mirror.writer import digest
from lmk_experiments.records import GridRecord

if TYPE_CHECKING:
    from mlflow.entities import Run

_RUNS_A_PAGE = 200
"""A request for more of them may take a busy server longer than a client waits."""
Scores = dict[str, dict[str, float]]
"""Task to metric to value, as in an evaluation's ``DONE.json``."""
GRID_SCORES = "scores.json"
"""The artifact of a grid's parent run with the scores of all its evaluations, by their ids."""
COLLECTED = "lmk.collected"
"""The tag of a parent run with the digest of that artifact."""


@dataclass(frozen=True)
class Collected:
    """The parent run that holds the scores of a whole grid, and the digest of the file with them."""

    run: Run
    digest: str


@dataclass(frozen=True)
class Seen:
    """What a store has just told, so that it needs not be asked again.

    Attributes:
        evaluations: all runs of a root's evaluations, by id; ``None`` where others may have been written since.
        collected: by name, the grids that are complete in the store.
    """

    store: Store
    evaluations: Mapping[str, Run] | None
    collected: Mapping[str, Collected] = field(default_factory=dict)


def read_scores(root: Path, grid: GridRecord, *, uri: str | None = None, seen: Seen | None = None) -> dict[str, Scores]:
    """The scores of a grid's evaluations as MLflow holds them: evaluation id to task to metric to value.

    The doubles are those of the records. An evaluation without scores in the store is left out.

    Args:
        seen: what a look at the store, or a sync, has just read. A grid that is complete in the store is read from its
            parent run.

    Raises:
        StoreError: the store cannot be used.
    """
    if seen is not None and isinstance(seen.store.client, PlainClient):
        with contextlib.suppress(NeedsMlflow, *TROUBLE):
            return _read(grid, seen)
    if seen is None or isinstance(seen.store.client, PlainClient):
        seen = Seen(open_store(root.resolve(), uri), None, {} if seen is None else seen.collected)
    from mlflow.exceptions import MlflowException

    store = seen.store
    try:
        return _read(grid, seen)
    except (OSError, MlflowException, ValueError) as error:
        raise StoreError(
            f"cannot read scores from {store.address}: {explain(error, store.address, store.uri)}"
        ) from error


def _read(grid: GridRecord, seen: Seen) -> dict[str, Scores]:
    """From the grid's file; where that cannot be read, from the runs, which have the same."""
    asked = {identity for row in grid.rows for identity in row.evaluations.values()}
    collected = seen.collected.get(grid.name)
    if collected is not None:
        # An artifact store may fail in any way of its own.
        with contextlib.suppress(NeedsMlflow, Exception):
            every = _collected(seen.store, collected)
            return {identity: scores for identity, scores in every.items() if identity in asked}
    runs = runs_of_root(seen.store, "evaluation") if seen.evaluations is None else seen.evaluations
    found: dict[str, Scores] = {}
    for run in runs.values():
        identity = run.data.tags.get("lmk.cell", "")
        if identity in asked and identity not in found and "lmk.scores" in run.data.tags:
            found[identity] = _scores(seen.store, run)
    return found


def runs_of_kinds(store: Store) -> dict[Kind, dict[str, Run]]:
    """All runs of the store's root: experiment to id to run."""
    return {kind: runs_of_root(store, kind) for kind in KINDS}


def runs_of_root(store: Store, kind: Kind) -> dict[str, Run]:
    """All runs of the store's root in one experiment, by id, oldest first."""
    return runs_with(store, kind, {ROOT_ID: store.root.id})


def runs_with(store: Store, kind: Kind, tags: Mapping[str, str]) -> dict[str, Run]:
    """All runs with these tags in one experiment, by id, oldest first."""
    client: object = store.client
    if isinstance(client, PlainClient):
        return cast("dict[str, Run]", client.runs_with(store.experiments[kind], tags))
    token = None
    # A value with both kinds of quotes cannot be said in a filter, so everything is looked through below.
    asked = " and ".join(filter(None, (_filter(name, value) for name, value in tags.items())))
    runs: dict[str, Run] = {}
    while True:
        page = store.client.search_runs(
            [store.experiments[kind]],
            asked,
            max_results=_RUNS_A_PAGE,
            order_by=["attributes.start_time ASC"],
            page_token=token,
        )
        runs.update({run.info.run_id: run for run in page if tags.items() <= run.data.tags.items()})
        token = page.token
        if not token:
            return runs


def _filter(name: str, value: str) -> str:
    quote = '"' if "'" in value else "'"
    return "" if quote in value else f"tags.`{name}` = {quote}{value}{quote}"


def active_run(store: Store, run_id: str) -> Run | None:
    """The run with this id, unless it is unknown or was deleted."""
    get_run = store.client.get_run
    from mlflow.exceptions import MlflowException

    try:
        run = get_run(run_id)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None
    return run if run.info.lifecycle_stage == "active" else None


def _scores(store: Store, run: Run) -> Scores:
    """From the run's metrics where they are all there, else from its artifact."""
    values = _from_metrics(run.data.metrics)
    if str(sum(map(len, values.values()))) == run.data.tags["lmk.scores"]:
        return values
    return _floats(json.loads(artifact(store, run, "scores.json")))


def _collected(store: Store, held_in: Collected) -> dict[str, Scores]:
    text = artifact(store, held_in.run, GRID_SCORES)
    if digest(text) != held_in.digest:
        raise ValueError(f"{GRID_SCORES} of run {held_in.run.info.run_id} is another than its tag {COLLECTED} says")
    held = json.loads(text)
    return {identity: _floats(one["scores"]) for identity, one in held.items()}


def artifact(store: Store, run: Run, name: str) -> str:
    """The text of an artifact of a run."""
    client: object = store.client
    if isinstance(client, PlainClient):
        return client.artifact(cast("PlainRun", run), name)
    with tempfile.TemporaryDirectory() as folder:
        place = store.client.download_artifacts(run.info.run_id, name, folder)
        return Path(place).read_text(encoding="utf-8")


def _floats(held: Mapping[str, Mapping[str, float]]) -> Scores:
    return {task: {metric: float(value) for metric, value in scores.items()} for task, scores in held.items()}


def _from_metrics(metrics: Mapping[str, float]) -> Scores:
    values: Scores = {}
    for name, value in metrics.items():
        parsed = parse_score_name(name)
        if parsed is not None:
            _, task, metric = parsed
            values.setdefault(task, {})[metric] = value
    return values

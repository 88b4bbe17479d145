"""MLflow back to numbers: what the store holds of a root."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from lmk_experiments.mirror.address import explain
from lmk_experiments.mirror.names import parse_score_name
from lmk_experiments.mirror.plain import NeedsMlflow, PlainClient
from lmk_experiments.mirror.store import KINDS, ROOT_ID, Kind, Store, StoreError, open_store
from lmk_experiments.records import GridRecord

if TYPE_CHECKING:
    from mlflow.entities import Run

_RUNS_A_PAGE = 200
"""A request for more of them may take a busy server longer than a client waits."""
Scores = dict[str, dict[str, float]]
"""Task to metric to value, as in an evaluation's ``DONE.json``."""


@dataclass(frozen=True)
class Seen:
    """What a store has just told, so that it needs not be asked again: all runs of a root's evaluations, by id."""

    store: Store
    evaluations: Mapping[str, Run]


def read_scores(root: Path, grid: GridRecord, *, uri: str | None = None, seen: Seen | None = None) -> dict[str, Scores]:
    """The scores of a grid's evaluations as MLflow holds them: evaluation id to task to metric to value.

    The doubles are those of the records. An evaluation without scores in the store is left out.

    Args:
        seen: what a sync that changed nothing has read.

    Raises:
        StoreError: the store cannot be used.
    """
    if seen is not None and isinstance(seen.store.client, PlainClient):
        with contextlib.suppress(NeedsMlflow):
            return _read(grid, seen.store, seen.evaluations)
        seen = None
    store = open_store(root.resolve(), uri) if seen is None else seen.store
    from mlflow.exceptions import MlflowException

    try:
        return _read(grid, store, runs_of_root(store, "evaluation") if seen is None else seen.evaluations)
    except (OSError, MlflowException, ValueError) as error:
        raise StoreError(
            f"cannot read scores from {store.address}: {explain(error, store.address, store.uri)}"
        ) from error


def _read(grid: GridRecord, store: Store, runs: Mapping[str, Run]) -> dict[str, Scores]:
    asked = {identity for row in grid.rows for identity in row.evaluations.values()}
    found: dict[str, Scores] = {}
    for run in runs.values():
        identity = run.data.tags.get("lmk.cell", "")
        if identity in asked and identity not in found and "lmk.scores" in run.data.tags:
            found[identity] = _scores(store, run)
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
    folder = store.client.download_artifacts(run.info.run_id, "scores.json")
    held = json.loads(Path(folder).read_text(encoding="utf-8"))
    return {task: {metric: float(value) for metric, value in scores.items()} for task, scores in held.items()}


def _from_metrics(metrics: Mapping[str, float]) -> Scores:
    values: Scores = {}
    for name, value in metrics.items():
        parsed = parse_score_name(name)
        if parsed is not None:
            _, task, metric = parsed
            values.setdefault(task, {})[metric] = value
    return values

"""The analyses of a grid as cells: which models each one compares, and its identity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lmk_core.pooling import PoolingConfig, PoolingConfigError
from lmk_eval.suites import Task
from lmk_experiments.configs import ConfigError, Problem, without_key
from lmk_experiments.grids.analyses.entries import Entry, LandmarksEntry, LengthsEntry, ModelEntry, PositionEntry
from lmk_experiments.grids.analyses.load import texts_of
from lmk_experiments.grids.identity import Fingerprint, NotBuilt, canonical, identity, is_local
from lmk_experiments.grids.size import ModelSize

if TYPE_CHECKING:
    from lmk_experiments.grids.load import Grid
    from lmk_experiments.grids.plan import PlannedTraining

ANALYSIS_RECIPE = 1
"""Raised when a fix changes what an analysis gives."""
Trainings = Mapping[tuple[str, int], "PlannedTraining"]


@dataclass(frozen=True)
class PlannedSeries:
    """One line of the plot: a training of the grid, or a model of elsewhere, read in one way."""

    name: str
    training: PlannedTraining | None = None
    model: ModelEntry | None = None
    pooling: PoolingConfig | None = None
    """``None``: a saved model's own."""

    @property
    def size(self) -> ModelSize | None:
        """How large the model is, where that is known."""
        return None if self.training is None else self.training.size

    def config(self) -> dict[str, Any]:
        """The series in ``cell.json``."""
        read = {"pooling": None if self.pooling is None else self.pooling.to_dict()}
        if self.training is not None:
            return {"name": self.name, "training": self.training.id, **read}
        assert self.model is not None
        return {"name": self.name, "model": self.model.path, "revision": self.model.revision, **read}


@dataclass(frozen=True)
class PlannedAnalysis:
    """One analysis with its seed. ``id`` is ``None`` while data or a training has none."""

    row: str
    """The name of the entry."""
    seed: int
    entry: Entry
    series: tuple[PlannedSeries, ...]
    id: str | None = None

    @property
    def title(self) -> str:
        """The heading of its figure."""
        return self.entry.title or self.row

    @property
    def trainings(self) -> list[PlannedTraining]:
        """The trainings that it waits for, each once."""
        found = {one.training.row: one.training for one in self.series if one.training is not None}
        return list(found.values())

    @property
    def tasks(self) -> list[Task]:
        """The tasks of MTEB whose documents are read."""
        return [one for one in texts_of(self.entry).values() if isinstance(one, Task)]

    @property
    def references(self) -> list[str]:
        """The files, folders and references that are read, models apart."""
        found = [one for one in texts_of(self.entry).values() if isinstance(one, str)]
        return [*found, self.entry.folder] if isinstance(self.entry, PositionEntry) else found

    @property
    def models(self) -> list[tuple[str, str | None]]:
        """Models that are not trained here, with their revisions; of ``lengths``, the tokenizer's."""
        found = [(one.model.path, one.model.revision) for one in self.series if one.model is not None]
        return [*found, (self.entry.tokenizer, None)] if isinstance(self.entry, LengthsEntry) else found

    def config(self) -> dict[str, Any]:
        """The analysis's ``config`` in ``cell.json``."""
        return {
            "analysis": self.entry.kind,
            "series": [one.config() for one in self.series],
            "options": self.entry.options(),
            "recipe_version": ANALYSIS_RECIPE,
        }


def plan_analyses(grid: Grid, trainings: Trainings, content: Fingerprint) -> list[PlannedAnalysis]:
    """Every analysis of the grid: one a seed where it looks at trainings, else one.

    Raises:
        ConfigError: a row that is not there, a reading that cannot be, a name that stands for two.
    """
    found: list[PlannedAnalysis] = []
    problems: list[Problem] = []
    taken = {row.name for row in grid.rows}
    for index, entry in enumerate(grid.analyses):
        if entry.name in taken:
            message = f"a row of this grid is called {entry.name!r}; give the analysis another name"
            problems.append(grid.document.problem(("analyze", index, "name"), message))
        try:
            seeds = grid.file.seeds if getattr(entry, "of", ()) else grid.file.seeds[:1]
            for seed in seeds:
                planned = PlannedAnalysis(entry.name, seed, entry, _series(grid, index, entry, seed, trainings))
                found.append(replace(planned, id=_identity(planned, content)))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return found


def _series(grid: Grid, index: int, entry: Entry, seed: int, trainings: Trainings) -> tuple[PlannedSeries, ...]:
    from lmk_experiments.grids.readings import read_view

    found: list[PlannedSeries] = []
    for number, view in enumerate(getattr(entry, "of", ())):
        at = ("analyze", index, "of", number)
        try:
            readings = list(read_view(grid, view))
        except PoolingConfigError as error:
            place = (*at, "pooling", *([error.key] if error.key else []))
            raise ConfigError([grid.document.problem(place, without_key(str(error), error.key))]) from None
        except ValueError as error:
            raise ConfigError([grid.document.problem(at, str(error))]) from None
        if not readings:
            message = "no row is left: none is named by 'of' and let through by 'except' and 'when'"
            raise ConfigError([grid.document.problem(at, message)])
        for one in readings:
            _check_reading(grid, at, entry, one.row, one.pooling)
            found.append(PlannedSeries(one.row, trainings[one.training.name, seed], None, one.pooling))
    for number, model in enumerate(getattr(entry, "models", ())):
        at = ("analyze", index, "models", number)
        try:
            pooling = None if model.pooling is None else PoolingConfig.from_dict(model.pooling)
        except PoolingConfigError as error:
            place = (*at, "pooling", *([error.key] if error.key else []))
            raise ConfigError([grid.document.problem(place, without_key(str(error), error.key))]) from None
        if pooling is not None:
            _check_reading(grid, at, entry, model.name, pooling)
        found.append(PlannedSeries(model.name, None, model, pooling))
    names = [one.name for one in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        message = f"{twice!r} is compared twice; give one of them another name, {{of: {twice}, row: ...}}"
        raise ConfigError([grid.document.problem(("analyze", index), message)])
    return tuple(found)


def _check_reading(grid: Grid, at: tuple[str | int, ...], entry: Entry, name: str, pooling: PoolingConfig) -> None:
    if isinstance(entry, LandmarksEntry) and pooling.kind != "landmark":
        message = f"{name!r} is read as {pooling.kind!r}; only landmark pooling has landmarks"
        raise ConfigError([grid.document.problem((*at, "pooling"), message)])
    if entry.kind == "cost" and pooling.kind == "latent_attention":
        message = f"{name!r} has latent attention, which is made of trained weights: it cannot be read with landmarks"
        raise ConfigError([grid.document.problem(at, message)])


def _identity(planned: PlannedAnalysis, content: Fingerprint) -> str | None:
    """The hash of the whole configuration: trainings by their identity, files and local models by what is in them."""
    if any(training.id is None for training in planned.trainings):
        return None
    config = planned.config()
    try:
        for one in config["series"]:
            if "model" in one:
                one["model"] = _content(one["model"], content)
        options = config["options"]
        options |= {key: _content(options[key], content) for key in ("folder", "tokenizer") if key in options}
        if "texts" in options:
            # What `lengths` compares stands in its plot by name; elsewhere there is one source, whatever it is called.
            held = {name: _content(one, content) for name, one in texts_of(planned.entry).items()}
            options["texts"] = held if isinstance(planned.entry, LengthsEntry) else list(held.values())
        return identity({"kind": "analysis", **config}, content)
    except NotBuilt:
        return None


def _content(source: Any, content: Fingerprint) -> Any:
    if not isinstance(source, str):
        return canonical(source, content)
    if not is_local(source):
        return {"hub": source}
    found = content(source)
    if found is None:
        raise NotBuilt(source)
    return {"data": found} if source.startswith("data:") else {"content": found}

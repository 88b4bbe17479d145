"""One logged model for each finished training: once, gone on with where it was cut short, replaced if it changed."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lmk_experiments.mirror.address import explain
from lmk_experiments.mirror.marks import Marks
from lmk_experiments.mirror.models import place
from lmk_experiments.mirror.models.folder import MODEL, describe, files_of
from lmk_experiments.mirror.models.policy import ENVIRONMENT, Policy
from lmk_experiments.mirror.store import Store
from lmk_experiments.mirror.wanted import Wanted
from lmk_experiments.records import Cell, read_json
from lmk_experiments.words import counted

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel, Run

NAME = "model"
"""Its name is what stands behind the run in ``runs:/<run>/model``."""
_FORMAT = "1"
_DIGEST_TAG = "lmk.model"


class Models:
    """Logs the models of one store's trainings.

    Attributes:
        warnings: what was not taken; the next sync tries it again.
        writes: calls that changed the store.
        left_out: files in bytes of each model that the policy leaves out, by the training's identity.
    """

    def __init__(self, store: Store, policy: Policy = "auto", say: Callable[[str], None] = lambda _: None) -> None:
        self.store = store
        self.policy = policy
        self.say = say
        self.warnings: list[str] = []
        self.writes = 0
        self.left_out: dict[str, int] = {}
        self.known: Mapping[str, Run] = {}
        """Runs that were read before, by their ids: whether a model is left out needs no new question."""

    def log(self, wanted: Wanted) -> None:
        """Log the model of a finished training, or do nothing where the marks say that it is there.

        A refusal is a warning: the model is whole in its cell.
        """
        model = wanted.cell.folder / "model"
        kind, pretraining = wanted.place.kind, wanted.place.is_pretraining
        # A pre-training's model is where another training starts, and embeds nothing well by itself.
        if kind != "training" or pretraining or wanted.status != "FINISHED" or self.policy == "none":
            return
        if not (model / "lmk_config.json").is_file():
            return
        files = files_of(model)
        stamp = _stamp(model, files)
        marks = Marks.load(wanted.cell, self.store)
        if marks.run_id is None or marks.artifacts.get(NAME, "").partition(" ")[2] == stamp:
            return
        try:
            run = self.known.get(marks.run_id) or self.store.client.get_run(marks.run_id)
            if self.policy == "auto" and not self._costs_nothing(run, files):
                self.left_out[wanted.place.id] = sum(file.stat().st_size for file in files)
                return
            identity = self._bring(wanted, run, model, files)
        except Exception as error:  # noqa: BLE001  a store may fail in any way of its own
            reason = explain(error, self.store.address, self.store.uri)
            self.warnings.append(
                f"the model of {wanted.place.title} was not taken by {self.store.address}: {reason}; "
                "the next `lmk sync` tries it again"
            )
            return
        marks = Marks.load(wanted.cell, self.store)  # who else writes them had minutes to do so
        marks.artifacts[NAME] = f"{identity} {stamp}"
        marks.save()

    def notes(self) -> list[str]:
        """What the policy left out, in one sentence."""
        if not self.left_out:
            return []
        size = sum(self.left_out.values()) / 1e6
        return [
            f"left out: {counted(len(self.left_out), 'model')} of finished trainings ({size:,.0f} MB), which "
            f"{self.store.address} would need copied or uploaded: `lmk sync --models all` or {ENVIRONMENT}=all logs "
            "them, none is silent about them"
        ]

    def _costs_nothing(self, run: Run, files: list[Path]) -> bool:
        folder = place.local_folder(self.store, str(run.info.artifact_uri))
        weights = [file for file in files if file.suffix == place.LINKED]
        return folder is not None and all(place.can_link(file, folder) for file in weights)

    def _bring(self, wanted: Wanted, run: Run, model: Path, files: list[Path]) -> str:
        """See that the store has this very model, ready. Returns its identity there."""
        digest = _digest(model, files)
        held = self._held(run)
        mine = next((one for one in held if one.tags.get(_DIGEST_TAG) == digest), None)
        if mine is None:
            mine = self._create(wanted, run, digest)
        if str(mine.status) != "READY":
            self._fill(wanted, run, mine, model, files)
        self._link_to_run(run, mine)
        for other in held:
            if other.model_id != mine.model_id:
                self.writes += 1
                place.remove(self.store, other)
        return mine.model_id

    def _held(self, run: Run) -> list[LoggedModel]:
        """The models that the store has of a run: one, and a second one while a model is being replaced."""
        found = self.store.client.search_logged_models(
            [run.info.experiment_id], f"name = '{NAME}' AND source_run_id = '{run.info.run_id}'"
        )
        return list(found)

    def _create(self, wanted: Wanted, run: Run, digest: str) -> LoggedModel:
        kept = ("pooling.", "model.path", "seed")
        tags = {key: text for key, text in wanted.tags.items() if key.startswith("lmk.")}
        self.writes += 1
        return self.store.client.create_logged_model(
            run.info.experiment_id,
            NAME,
            run.info.run_id,
            tags={**tags, _DIGEST_TAG: digest},
            params={key: text for key, text in wanted.params.items() if key.startswith(kept)},
            model_type="text-embedding",
        )

    def _fill(self, wanted: Wanted, run: Run, logged: LoggedModel, model: Path, files: list[Path]) -> None:
        done = wanted.cell.done() or {}
        created = datetime.fromisoformat(done["finished"]).replace(tzinfo=None).isoformat(sep=" ")
        with tempfile.TemporaryDirectory(prefix="lmk-model-") as temporary:
            described = Path(temporary) / "description"
            describe(described, model, logged, run.info.run_id, created)
            own = {file.relative_to(described).as_posix(): file for file in files_of(described)}
            last = own.pop("MLmodel")
            everything = {f"{MODEL}/{file.relative_to(model).as_posix()}": file for file in files}
            everything |= own | {"MLmodel": last}
            folder = place.local_folder(self.store, logged.artifact_location)
            if folder is not None:
                place.put_here(everything, folder)
            else:
                size = sum(file.stat().st_size for file in files)
                self.say(f"uploading the model of {wanted.place.title}, {size / 1e6:,.0f} MB")
                place.upload(self.store, logged, everything, self.say)
        self.writes += 1
        self.store.client.finalize_logged_model(logged.model_id, "READY")

    def _link_to_run(self, run: Run, logged: LoggedModel) -> None:
        """MLflow's page of a run shows its models by this; a second call would show them twice."""
        from mlflow.entities import LoggedModelOutput

        outputs = self.store.client.get_run(run.info.run_id).outputs
        if outputs is None or logged.model_id not in [one.model_id for one in outputs.model_outputs]:
            self.writes += 1
            self.store.client.log_outputs(run.info.run_id, [LoggedModelOutput(logged.model_id, step=0)])


def held_by_mlflow(cell: Cell) -> str | None:
    """The identity (``m-...``) of the logged model that a cell's folder remembers, whatever the store."""
    try:
        value = read_json(cell.folder / "mlflow.json") or {}
        return str(value["written"]["artifacts"][NAME]).partition(" ")[0]
    except (ValueError, KeyError, TypeError):
        return None


def _stamp(model: Path, files: list[Path]) -> str:
    """Says without reading them whether files are the same."""
    facts = [f"{file.relative_to(model)} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]
    return hashlib.sha256("\n".join([_FORMAT, *facts]).encode()).hexdigest()[:16]


def _digest(model: Path, files: list[Path]) -> str:
    """Says whether contents are the same."""
    digest = hashlib.sha256(_FORMAT.encode())
    for file in files:
        digest.update(f"{file.relative_to(model).as_posix()} {file.stat().st_size}\n".encode())
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16]

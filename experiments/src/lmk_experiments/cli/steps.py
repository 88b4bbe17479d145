"""The verb of one step alone: train."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lmk_experiments.cli.options import DEFAULT_ROOT, RootOption, SetOption, again, real_root

if TYPE_CHECKING:
    from lmk_experiments.records import Cell
    from lmk_train.config import AnyConfig


def register(app: typer.Typer) -> None:
    """Add the verbs of this module to ``app``."""
    app.command(
        help="Train or pre-train one model, here and now. It is a cell like a grid's: stopped, the same command goes "
        "on where it was; done, it is not done again.\n\n"
        "A fine-tune starts from its `model`, or from a pre-training: `init` is the folder of one that is done, or the "
        "name of a preset or file, which is then pre-trained first, with the fine-tune's model and pooling. The log "
        "says how many of its weights were loaded.",
        epilog="A pre-training (RetroMAE):  lmk train retromae --set model.path=answerdotai/ModernBERT-base "
        "--set 'pooling={kind: landmark, granularity: [32, 64, 128, 256]}' --set 'data.train=[./texts]'   |   "
        "what starts from it:  lmk train mine.yaml --set init=runs/pretrainings/ID   |   "
        "both, one after the other:  lmk train mine.yaml --set init=retromae",
    )(train)


def train(
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG",
            help="A YAML file with one complete training, or a preset's name: `quickstart`. One with `method: "
            "retromae` is a pre-training, such as the preset `retromae`, whose model and pooling are yours to --set.",
        ),
    ],
    root: RootOption = DEFAULT_ROOT,
    assignments: SetOption = [],  # noqa: B006 - typer copies it
) -> None:
    """Train or pre-train one model."""
    from lmk_experiments.grids import load_training_file
    from lmk_experiments.records.cell import PRETRAINING_PREFIX

    where = real_root(root)
    loaded = load_training_file(config, tuple(assignments))
    tuned = loaded.config
    init = getattr(tuned, "init", None)
    if init is not None and loaded.pretraining is None:
        tuned = tuned.model_copy(update={"init": PRETRAINING_PREFIX + _done_pretraining(init, where).id})
    for one in filter(None, (loaded.pretraining, tuned)):
        _make_data(one, where)
    if loaded.pretraining is not None:
        first = _cell(loaded.pretraining, where)
        tuned = tuned.model_copy(update={"init": PRETRAINING_PREFIX + first.id})
        if _cell(tuned, where).done() is None:  # else it has served
            _run(loaded.pretraining, first)
    cell = _cell(tuned, where)
    _run(tuned, cell)
    if cell.kind == "pretraining":
        typer.echo(f"a fine-tune from it: {again('train', 'CONFIG', where)} --set init={cell.folder}")


def _make_data(config: AnyConfig, root: Path) -> None:
    """Builds what is built, and sees that published data is here: an error before a cell is made, where it is not."""
    from lmk_experiments.builders import build, is_builtin_reference
    from lmk_experiments.datasets import data_path, is_data_reference

    validation = getattr(config.data, "validation", None) or ""
    for reference in (config.model.path, *config.data.paths, validation):
        if is_builtin_reference(reference):
            build(reference.removeprefix("built:").split("/")[0], root, report=typer.echo)
        elif is_data_reference(reference):
            data_path(reference, root)


def _cell(config: AnyConfig, root: Path) -> Cell:
    from lmk_experiments.builders import fingerprint
    from lmk_experiments.grids import identity
    from lmk_experiments.records import pretraining_cell, training_cell
    from lmk_train.config import PretrainConfig

    place = pretraining_cell if isinstance(config, PretrainConfig) else training_cell
    return place(root, identity(config, lambda reference: fingerprint(reference, root)))


def _run(config: AnyConfig, cell: Cell) -> None:
    from lmk_experiments.cli.interrupts import resumable
    from lmk_experiments.jobs.train import run_training

    kind = "pretraining" if cell.folder.parent.name == "pretrainings" else "training"
    cell.create(kind, config.model_dump(mode="json"))
    typer.echo(f"{kind.replace('pretraining', 'pre-training')} {cell.id} in {cell.folder}")
    if unreadable := cell.put_aside():
        typer.echo(f"warning: {unreadable}", err=True)
    with resumable():
        run_training(str(cell.folder))
    done = cell.done() or {}
    typer.echo(json.dumps(done.get("metrics", {}), indent=2))
    typer.echo(f"model: {cell.folder / done['model']}")


def _done_pretraining(init: str, root: Path) -> Cell:
    """The pre-training that ``init`` names: ``pretraining:ID``, the folder of its cell, or the model in that.

    Raises:
        ValueError: it is none of this root, or it is not done.
    """
    from lmk_experiments.records import Cell, pretraining_cell
    from lmk_experiments.records.cell import PRETRAINING_PREFIX

    inside = root / "pretrainings"
    if init.startswith(PRETRAINING_PREFIX):
        cell = pretraining_cell(root, init.removeprefix(PRETRAINING_PREFIX))
    else:
        cell = Cell(Path(init).parent if Path(init).name == "model" else Path(init))
    if cell.folder.parent != inside or cell.done() is None:
        ready = sorted(str(path.parent) for path in inside.glob("*/DONE.json"))
        raise ValueError(
            f"init: {init} is no finished pre-training under {root}; valid: "
            f"{', '.join(ready) or 'none yet (`lmk train retromae` makes one)'}, or the name of a preset"
        )
    return cell

"""The verbs of one step alone: train, evaluate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lmk_experiments.cli.options import DEFAULT_ROOT, RootOption, SetOption, real_root

if TYPE_CHECKING:
    from lmk_core.pooling import PoolingConfig
    from lmk_eval.suites import Suite


def register(app: typer.Typer) -> None:
    """Add the verbs of this module to ``app``."""
    app.command()(train)
    app.command()(evaluate)


def train(
    config: Annotated[
        str,
        typer.Argument(metavar="CONFIG", help="A YAML file with one complete training, or `quickstart`."),
    ],
    root: RootOption = DEFAULT_ROOT,
    assignments: SetOption = [],  # noqa: B006 - typer copies it
) -> None:
    """Train one model, here and now. It is a cell like a grid's: stopped, it goes on; done, it is not done again."""
    from lmk_experiments.builders import build, fingerprint, is_builtin_reference
    from lmk_experiments.cli.interrupts import resumable
    from lmk_experiments.datasets import data_path, is_data_reference
    from lmk_experiments.grids import identity, load_training_file
    from lmk_experiments.jobs.train import run_training
    from lmk_experiments.records import training_cell

    where = real_root(root)
    loaded = load_training_file(config, tuple(assignments))
    for reference in (loaded.model.path, *loaded.data.paths, loaded.data.validation or ""):
        if is_builtin_reference(reference):
            build(reference.removeprefix("built:").split("/")[0], where, report=typer.echo)
        elif is_data_reference(reference):
            data_path(reference, where)  # an error before a cell is made, where it is not here
    cell = training_cell(where, identity(loaded, lambda reference: fingerprint(reference, where)))
    cell.create("training", loaded.model_dump(mode="json"))
    typer.echo(f"training {cell.id} in {cell.folder}")
    if unreadable := cell.put_aside():
        typer.echo(f"warning: {unreadable}", err=True)
    with resumable():
        run_training(str(cell.folder))
    done = cell.done() or {}
    typer.echo(json.dumps(done.get("metrics", {}), indent=2))
    typer.echo(f"model: {cell.folder / done['model']}")


def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model's folder, or its name on the hub.")],
    suite: Annotated[
        str,
        typer.Option(
            "--suite", help="A shipped suite (mldr-en), or a folder: corpus.jsonl, queries.jsonl, qrels/test.tsv."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="Where results go; default: results/SUITE in this folder.")
    ] = None,
    max_length: Annotated[int, typer.Option(min=2, help="Tokens a text, special tokens included.")] = 512,
    pooling: Annotated[
        str | None, typer.Option(help="Another way to read the model, as YAML: '{kind: landmark, granularity: 32}'.")
    ] = None,
    split: Annotated[str, typer.Option(help="Which qrels/SPLIT.tsv to score.")] = "test",
    group_by: Annotated[str | None, typer.Option(help="Also score by this key of the queries' metadata.")] = None,
) -> None:
    """Evaluate one model on one suite or one local retrieval set, and print its scores as JSON."""
    import hashlib

    from safetensors import SafetensorError

    from lmk_experiments.builders import fingerprint

    reading = None if pooling is None else _reading(pooling)
    chosen = _suite(suite, split, group_by)
    _check_model(model, reading)
    from lmk_eval import evaluate as run_evaluation  # takes seconds: a mistake is told before it

    results = out or Path("results") / chosen.name
    local = Path(model).expanduser()
    weights = fingerprint(str(local.resolve()), results.resolve()) if local.is_dir() else model
    read_as = {"pooling": reading and reading.to_dict(), "max_length": max_length}
    revision = hashlib.sha256(json.dumps([weights, read_as], sort_keys=True).encode()).hexdigest()[:12]
    try:
        scores = run_evaluation(
            local if local.is_dir() else model,
            chosen,
            folder=results,
            name="lmk/model",
            revision=revision,
            max_length=max_length,
            pooling=reading,
        )
    except SafetensorError as error:
        raise ValueError(f"{model}: its *.safetensors cannot be read: {error}") from error
    typer.echo(json.dumps(scores, indent=2))


def _reading(text: str) -> PoolingConfig:
    """The pooling of ``--pooling``.

    Raises:
        ValueError: it is not YAML, or no pooling.
    """
    from lmk_core.pooling import PoolingConfig, PoolingConfigError
    from lmk_experiments.configs import YamlError, read_yaml

    try:
        return PoolingConfig.from_dict(read_yaml(text)[0])
    except (YamlError, PoolingConfigError) as error:
        raise ValueError(f"--pooling {text}: {error}") from None


def _check_model(model: str, reading: PoolingConfig | None) -> None:
    """See that there is a model, and that it is known how to read it.

    Raises:
        ValueError: no such folder or model, a folder without a model, or one that needs ``--pooling``.
    """
    from lmk_core.embedder.saving import find_file, read_config
    from lmk_experiments.grids.identity import is_local
    from lmk_experiments.grids.local import check_model_folder

    local = Path(model).expanduser()
    if local.exists():
        check_model_folder(local)
        name = str(local)
    else:
        name = model
        try:
            found = None if is_local(model) else find_file(model, "config.json")
        except (OSError, ValueError):  # not a name that a model of the hub could have
            found = None
        if found is None:
            raise ValueError(
                f"{model}: there is no such folder here, and no model of this name on the hub "
                "(without a network: in its cache)"
            )
    if reading is None and read_config(name) is None:
        raise ValueError(
            f"{model}: the model does not say how it is pooled; say it, "
            "for example --pooling '{kind: landmark, granularity: 32}'"
        )


def _suite(name: str, split: str, group_by: str | None) -> Suite:
    """The shipped suite of this name, or one of a local folder.

    Raises:
        ValueError: neither is there; the message lists the shipped ones.
    """
    from lmk_eval.suites import Suite, shipped_suite, shipped_suites
    from lmk_experiments.configs import explain

    folder = Path(name).expanduser().resolve()
    if folder.is_dir():
        return Suite.from_folder(folder.name, folder, split=split, group_by=group_by)
    if name in shipped_suites():
        return shipped_suite(name)
    raise ValueError(f"--suite {name}: no such folder, and no such suite; {explain(name, shipped_suites())}")

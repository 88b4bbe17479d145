"""What ``lmk evaluate`` needs to know of its model and its suite before anything heavy is imported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmk_core.pooling import PoolingConfig
    from lmk_eval.suites import Suite


def reading_name(pooling: PoolingConfig) -> str:
    """A short name for a reading, a safe part of a path: ``landmark-32``, ``multi_cls-128``, ``cls``."""
    kind, *rest = pooling.to_dict().values()
    parts = [str(part) for value in rest for part in (value if isinstance(value, list | tuple) else [value])]
    return "-".join([str(kind), *(part for part in parts if part not in ("cut", "None"))])


def saved_pooling(model: str) -> PoolingConfig | None:
    """The pooling that a saved model remembers; None where it has none, or there is no such model."""
    from lmk_core.embedder.saving import read_config

    try:
        saved = read_config(str(Path(model).expanduser()) if Path(model).expanduser().exists() else model)
    except (OSError, ValueError):
        return None
    return None if saved is None else saved.pooling


def find_suite(name: str, split: str | None, group_by: str | None, root: Path) -> Suite:
    """The shipped suite of this name, one of a local folder, or the one that a YAML file writes out.

    Args:
        split: of a folder, which ``qrels/<split>.tsv`` is scored; ``None`` is ``test``.
        group_by: of a folder, the key of the queries' metadata that scores are grouped by.
        root: where data that the file names as ``built:`` or ``data:`` lies; what is built is built if it is missing.

    Raises:
        ValueError: there is none, and the message lists the shipped ones; or ``split`` or ``group_by`` is given for
            what is no folder.
    """
    from lmk_eval.suites import Suite, shipped_suite, shipped_suites
    from lmk_experiments.configs import explain

    place = Path(name).expanduser().resolve()
    if place.is_dir():
        return Suite.from_folder(place.name, place, split=split or "test", group_by=group_by)
    for option, value in (("--split", split), ("--group-by", group_by)):
        if value is not None:
            raise ValueError(
                f"{option} {value}: is for a folder (corpus.jsonl, queries.jsonl, qrels/), and --suite {name} is none; "
                "a suite's own tasks say it"
            )
    if place.is_file() and place.suffix in (".yaml", ".yml"):
        return _written_out(place, root)
    if name in shipped_suites():
        return shipped_suite(name)
    raise ValueError(f"--suite {name}: no such folder or file, and no such suite; {explain(name, shipped_suites())}")


def _written_out(file: Path, root: Path) -> Suite:
    from pydantic import ValidationError

    from lmk_eval.suites import Suite
    from lmk_experiments.configs import YamlError, read_yaml

    try:
        suite = Suite.model_validate(read_yaml(file.read_text(encoding="utf-8"))[0])
    except (YamlError, ValidationError) as error:
        raise ValueError(f"{file}: {error}") from None
    moved: list[Any] = []
    for task in suite.tasks:
        own = task.local
        moved.append(task if own is None else task.moved(_place(own, file, root)))
    return suite.model_copy(update={"tasks": tuple(moved)})


def _place(own: str, file: Path, root: Path) -> str:
    """Where a task's own data lies: references as in a grid, paths from the file that says them."""
    import typer

    from lmk_experiments.builders import build, is_builtin_reference
    from lmk_experiments.datasets import is_data_reference
    from lmk_experiments.jobs.references import real

    if is_builtin_reference(own):
        real(own, root)  # a mistake in the reference is told before anything is built
        build(own.removeprefix("built:").split("/")[0], root, report=lambda line: typer.echo(line, err=True))
    elif not is_data_reference(own):
        return str((file.parent / Path(own).expanduser()).resolve())
    return real(own, root)


def check_model(model: str, reading: PoolingConfig | None) -> None:
    """See that there is a model, and that it is known how to read it.

    Raises:
        ValueError: no such folder or model, a folder without a model, or one that needs ``--pooling``.
    """
    from lmk_core.embedder.saving import find_file, read_config
    from lmk_experiments.grids.local import check_model_folder, refuse_missing_path

    refuse_missing_path("", model)
    local = Path(model).expanduser()
    if local.exists():
        check_model_folder(local)
        name = str(local)
    else:
        name = model
        nowhere = f"{model}: there is no such folder here"
        try:
            found = find_file(model, "config.json")
        except (OSError, ValueError) as error:  # no such model, no access to it, no hub, or no name that one could have
            raise ValueError(f"{nowhere}; on the hub: {_reason(error, model)}") from error
        if found is None:
            raise ValueError(f"{nowhere}, and no model of this name on the hub (without a network: in its cache)")
    if reading is None and read_config(name) is None:
        raise ValueError(
            f"{model}: the model does not say how it is pooled; say it, "
            "for example --pooling '{kind: landmark, granularity: 32}'"
        )


def _reason(error: Exception, model: str) -> str:
    """What is wrong, in one line, without what is told already."""
    text = " ".join(str(error).split()).removeprefix(f"{model}: ")
    return text.removeprefix("no folder here, and no model of the Hub that can be read: ")

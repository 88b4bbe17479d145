"""Presets and model files under a row: merged into its configuration, and what else they say."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lmk_experiments.configs import (
    ConfigError,
    Document,
    Layers,
    Problem,
    explain,
    find_file,
    in_yaml,
    load_document,
    shipped_folder,
    shipped_names,
    validate,
)
from lmk_experiments.configs.errors import Path as KeyPath
from lmk_experiments.grids.assumed import Assumption, of_a_pretraining, of_a_training, read_assumed
from lmk_experiments.grids.paths import localize
from lmk_experiments.grids.schema import BASE_KEYS
from lmk_experiments.grids.size import ModelSize
from lmk_train.config import PretrainConfig

PRETRAINING_KEY = "method"
"""The key that tells a pre-training's preset from a fine-tune's."""


@dataclass
class Extras:
    """What presets and model files say beside the keys of a training."""

    assumed: dict[tuple[str, str], Assumption] = field(default_factory=dict)
    size: ModelSize | None = None
    size_file: str | None = None

    def add_assumed(self, assumed: list[Assumption]) -> None:
        """Keep each assumption once, however many rows have it."""
        for assumption in assumed:
            self.assumed[assumption.file, assumption.key] = assumption

    def size_of(self, layers: Layers) -> ModelSize | None:
        """The model's size, unless another file says which model it is."""
        return self.size if layers.origin(("model", "path")).file == self.size_file else None


def add_bases(
    layers: Layers, bases: object, document: Document, at: KeyPath, extras: Extras, *, alone: bool = False
) -> None:
    """Merge presets and model files into ``layers``, later ones winning.

    Args:
        alone: what is read is no row of a grid, and may itself be a pre-training.

    Raises:
        ConfigError: a file that is not there or is wrong.
    """
    if not isinstance(bases, list | tuple):
        raise ConfigError(
            [document.problem(at, f"a list of presets and model files is expected, found {in_yaml(bases)}")]
        )
    for position, name in enumerate(bases):
        here = (*at, position)
        if not isinstance(name, str):
            raise ConfigError(
                [document.problem(here, f"the name of a preset or model file is expected, found {in_yaml(name)}")]
            )
        kind = name.split("/")[0] if name.split("/")[0] in ("presets", "models") else "presets"
        base = load_document(*_found(name, kind, document, here))
        if PRETRAINING_KEY in base.value and not alone:
            message = f"{name!r} is a pre-training; a row names it as init: {Path(name).stem}"
            raise ConfigError([document.problem(here, message)])
        layers.add(read_base(base, extras), base)


def read_base(base: Document, extras: Extras) -> dict[str, object]:
    """The keys of a training that a preset or model file holds; what else it says goes to ``extras``.

    Raises:
        ConfigError: an assumption about a key that is not there, or a wrong size.
    """
    valid = of_a_pretraining if PRETRAINING_KEY in base.value else of_a_training
    assumed, problems = read_assumed(base, valid)
    if problems:
        raise ConfigError(problems)
    extras.add_assumed(assumed)
    if "size" in base.value:
        extras.size = validate(ModelSize, base.value["size"], lambda path, text: base.problem(("size", *path), text))
        extras.size_file = base.file
    return {key: value for key, value in base.value.items() if key not in BASE_KEYS}


def read_pretraining(name: str, layers: Layers, extras: Extras) -> PretrainConfig:
    """The pre-training that a row starts from: the preset ``name`` with the row's own model and pooling.

    Raises:
        ConfigError: no such preset, a fine-tune's preset, or a mistake in it.
    """
    origin = layers.origin(("init",))
    try:
        path = find_file(name, "presets", beside=origin.folder)
    except ConfigError:
        raise ConfigError([_no_pretraining(layers, f"no pre-training is called {name!r}", name)]) from None
    base = load_document(path, shown(path))
    if PRETRAINING_KEY not in base.value:
        raise ConfigError([_no_pretraining(layers, f"{name!r} is a fine-tune, not a pre-training", name)])
    whole = Layers()
    whole.add(read_base(base, extras), base)
    for key in ("model", "pooling"):
        whole.value[key] = layers.value.get(key)
        whole.origins |= {place: found for place, found in layers.origins.items() if place[0] == key}
    localize(whole)
    return validate(PretrainConfig, whole.value, whole.problem)


def pretraining_names() -> list[str]:
    """The presets that ship and are pre-trainings."""
    folder = shipped_folder("presets")
    documents = {name: load_document(folder / f"{name}.yaml") for name in shipped_names("presets")}
    return [name for name, document in documents.items() if PRETRAINING_KEY in document.value]


def shown(path: Path) -> str:
    """How messages name a file: relative to here where that is shorter."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _no_pretraining(layers: Layers, message: str, name: str) -> Problem:
    return layers.problem(("init",), f"{message}; {explain(name, pretraining_names())}, or null for none")


def _found(name: str, kind: str, document: Document, at: KeyPath) -> tuple[Path, str]:
    try:
        path = find_file(name, kind, beside=document.folder)
    except ConfigError as error:
        raise ConfigError([document.problem(at, problem.message) for problem in error.problems]) from None
    return path, shown(path)

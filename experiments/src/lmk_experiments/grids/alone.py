"""One training or pre-training by itself, without a grid."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from lmk_experiments.configs import REQUIRED, ConfigError, Layers, Problem, find_file, load_document, validate
from lmk_experiments.grids.bases import PRETRAINING_KEY, Extras, add_bases, read_base, read_pretraining, shown
from lmk_experiments.grids.paths import localize
from lmk_experiments.records.cell import PRETRAINING_PREFIX
from lmk_train.config import AnyConfig, PretrainConfig, TrainConfig

OPEN_KEYS = {
    "model": "--set model.path=answerdotai/ModernBERT-base",
    "pooling": "--set 'pooling={kind: landmark, granularity: [32, 64, 128, 256]}'",
}
"""What a paper's preset leaves to the row of a grid, and how it is said without one."""


@dataclass(frozen=True)
class Alone:
    """What one file comes to."""

    config: AnyConfig
    """A fine-tune, or a pre-training. A fine-tune's ``init`` is ``pretraining:ID``, or the absolute path of a folder;
    or, where ``pretraining`` is there, still that one's name."""
    pretraining: PretrainConfig | None = None
    """What the fine-tune starts from, where its ``init`` names a preset."""


def load_training_file(name: str, assignments: tuple[str, ...] = ()) -> Alone:
    """Read one complete training or pre-training: a preset by name, or a YAML file.

    Args:
        name: the file, or the name of a shipped preset. Its ``base`` may name presets and model files; a file with
            ``method``, or with a base that has it, is a pre-training.
        assignments: ``--set`` values.

    Raises:
        ConfigError: with every problem found, each naming file, line, key and the valid values.
    """
    path = find_file(name, "presets")
    document = load_document(path, shown(path))
    layers, extras = Layers(), Extras()
    add_bases(layers, document.value.get("base", []), document, ("base",), extras, alone=True)
    layers.add({key: value for key, value in read_base(document, extras).items() if key != "base"}, document)
    for text in assignments:
        layers.add_assignment(text)
    try:
        return _whole(layers, extras)
    except ConfigError as error:
        raise ConfigError([_taught(problem) for problem in error.problems]) from None


def _whole(layers: Layers, extras: Extras) -> Alone:
    localize(layers)
    if PRETRAINING_KEY in layers.value:
        return Alone(validate(PretrainConfig, layers.value, layers.problem))
    config = validate(TrainConfig, layers.value, layers.problem)
    if config.init is None or config.init.startswith(PRETRAINING_PREFIX):
        return Alone(config)
    folder = (layers.origin(("init",)).folder / Path(config.init).expanduser()).resolve()
    if folder.is_dir():
        return Alone(config.model_copy(update={"init": str(folder)}))
    first = read_pretraining(config.init, layers, extras)
    return Alone(config, first.model_copy(update={"seed": config.seed}))


def _taught(problem: Problem) -> Problem:
    """A key that presets leave open, with how it is said without a grid."""
    if problem.message != REQUIRED or problem.key not in OPEN_KEYS:
        return problem
    return replace(problem, message=f"{REQUIRED}; it can be given by {OPEN_KEYS[problem.key]}")

"""The shape of a grid file."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag

from lmk_eval.suites import Suite
from lmk_experiments.configs import Section
from lmk_experiments.grids.needs import ResourcesSection

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,79}")


def checked_name(name: str) -> str:
    """``name`` if it can be a folder's name on every file system; else ``ValueError``."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot be a name: 1 to 80 letters, digits and . _ @ + -, the first a letter or digit, are valid"
        )
    return name


Name = Annotated[str, AfterValidator(checked_name)]


class View(Section):
    """How trained rows are read. A view trains nothing."""

    of: str | tuple[str, ...]
    """The training row to read, a pattern (``"*"``, ``"lmk-*"``), or a list of both."""
    except_: tuple[str, ...] = Field(default=(), alias="except")
    """Training rows that ``of`` matches and that are not read here."""
    row: str | None = None
    """The name of the table's row (the training row's variables may stand in it); default: the training row's own."""
    pooling: dict[str, Any] | None = None
    """Another way to read: with ``kind``, a whole pooling; without, keys that replace the training's."""
    baseline: bool = False
    """Whether the other rows' differences are taken from this row."""
    for_: dict[str, list[Any]] = Field(default_factory=dict, alias="for")
    """Values to write in place of ``"{name}"``: one view for each combination."""
    when: dict[str, Any] = Field(default_factory=dict)
    """Keep only combinations, and rows, where these variables have these values (one or a list)."""


class ResultsRow(Section):
    """A row from elsewhere: another model's results, as MTEB wrote them. It is never trained and costs nothing."""

    row: Name
    """The row's name in the table."""
    results: str = Field(min_length=1)
    """The folder with the model's results, one `<Task>.json` a task; a relative path counts from this file."""


def _suite_form(value: Any) -> str:
    return "name" if isinstance(value, str) else "suite"


SuiteField = Annotated[
    Annotated[str, Tag("name")] | Annotated[Suite, Tag("suite")],
    Discriminator(_suite_form),
]
"""A suite: its name, or the whole of it written out."""


Length = Annotated[int, Field(ge=2, strict=True)]


class EvaluateSection(Section):
    """What the trained models are tested on, and how they are read."""

    suites: tuple[SuiteField, ...] = Field(min_length=1)
    """Names of shipped suites, or suites written out."""
    max_length: Length | dict[str, Length]
    """Tokens a text, special tokens included; one number, or one a suite with ``default``."""
    weights: Literal["float32", "bfloat16", "float16"] = "float32"
    """The type of the weights while texts are encoded. Part of an evaluation's identity."""
    storage: Literal["float32", "bfloat16", "float16"] = "float32"
    """The type that embeddings of corpora lie on disk in while they are searched. Part of an evaluation's identity."""
    views: tuple[View, ...] = (View(of="*"),)
    """The rows of the table."""


Seed = Annotated[int, Field(ge=0, lt=2**32, strict=True)]


def _distinct(seeds: tuple[int, ...]) -> tuple[int, ...]:
    twice = next((seed for seed in seeds if seeds.count(seed) > 1), None)
    if twice is not None:
        raise ValueError(f"seed {twice} stands here twice: the same training twice says nothing of the spread")
    return seeds


class GridFile(Section):
    """One grid: which trainings, read in which ways, on which suites."""

    grid: Name
    """The grid's name: what `lmk status NAME` and its folder are called."""
    title: str = ""
    """The table's caption."""
    base: tuple[str, ...] = ()
    """Presets and model files under every row, later ones winning."""
    seeds: Annotated[tuple[Seed, ...], AfterValidator(_distinct)] = Field(default=(0,), min_length=1)
    """Every row is trained once for each seed: different whole numbers from 0 to 4294967295."""
    train: tuple[dict[str, Any], ...] = ()
    """The trainings; see ``ROW_KEYS`` for what a row may hold beside the keys of a training."""
    evaluate: EvaluateSection | None = None
    """The suites and the views."""
    analyze: tuple[dict[str, Any], ...] = ()
    """The analyses; see ``analyses.entries`` for what each kind may hold."""
    rows: tuple[ResultsRow, ...] = ()
    """Rows beside those of the views, from results that were made elsewhere."""
    resources: ResourcesSection = ResourcesSection()
    """What jobs ask of the machine."""
    table: str | None = None
    """The table's layout, for example ``tables/quickstart``."""
    assumed: dict[str, str] = Field(default_factory=dict)
    """What the experiment's source leaves open: the key that was decided, and why. Never part of an identity."""
    collection: Literal["paper", "appendix"] | None = None
    """The set of grids that `lmk plan --all` counts this one with."""


ROW_KEYS = ("row", "baseline", "base", "for", "when")
"""Keys of a training row that are not keys of a training."""

BASE_KEYS = ("assumed", "size")
"""Keys of a preset or a model file that are not keys of a training: what was decided, and how large the model is."""

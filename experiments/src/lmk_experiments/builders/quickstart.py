"""The quickstart's data: function search, learned from the docstrings of installed packages."""

from __future__ import annotations

import contextlib
import gc
from collections import defaultdict
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path

from lmk_experiments.builders.model import ModelShape, save_model, train_tokenizer
from lmk_experiments.builders.pairs import Pair, drop_copies, find_pairs, split_of, training_rows
from lmk_experiments.builders.retrieval import long_documents, token_counts, write_lines, write_long, write_short
from lmk_experiments.builders.sources import STANDARD_LIBRARY, Function, Source, read_source

Report = Callable[[str], None]

LENGTHS = (512, 1024, 2048)

QUICKSTART_SOURCES = (
    Source(STANDARD_LIBRARY),
    Source("datasets"),
    Source("fontTools", "fonttools"),
    Source("huggingface_hub"),
    Source("matplotlib"),
    Source("mlflow"),
    Source("networkx"),
    Source("numpy"),
    Source("pandas"),
    Source("polars"),
    Source("scipy"),
    Source("sklearn", "scikit-learn"),
    Source("sqlalchemy"),
    Source("sympy"),
    Source("torch", skip=("_dynamo", "_inductor")),
)


@dataclass(frozen=True, slots=True)
class Quickstart:
    """The numbers of one version of the quickstart's data."""

    sources: tuple[Source, ...]
    shape: ModelShape
    validation: float
    """Share of the modules that are kept for validation."""
    evaluation: float
    """Share of the modules that are kept for evaluation."""
    validation_rows: int
    candidates: int
    """Functions in the short search."""
    documents: int
    """Modules in each long search."""
    queries_each: int
    """At most so many queries for each quarter of a long search."""
    negatives: int = 3
    characters: int = 1500
    tokenizer_rows: int = 10_000
    outputs: tuple[str, ...] = field(
        default=("train.jsonl", "validation.jsonl", "model", "eval/short", *(f"eval/long-{n}" for n in LENGTHS))
    )


FULL_SIZE = Quickstart(
    sources=QUICKSTART_SOURCES,
    shape=ModelShape(hidden=128, layers=2, heads=2, intermediate=256, vocabulary=6144),
    validation=0.01,
    evaluation=0.11,
    validation_rows=200,
    candidates=1000,
    documents=120,
    queries_each=150,
)

TINY = Quickstart(
    sources=(Source(STANDARD_LIBRARY, only=("asyncio", "email", "http", "json", "logging", "unittest", "urllib")),),
    shape=ModelShape(hidden=32, layers=2, heads=2, intermediate=32, vocabulary=1024),
    validation=0.1,
    evaluation=0.3,
    validation_rows=40,
    candidates=100,
    documents=10,
    queries_each=20,
)


@dataclass(frozen=True, slots=True)
class Built:
    """What a build says about itself: versions by package (None where it isn't installed) and numbers by part."""

    packages: dict[str, str | None]
    counts: dict[str, int | dict[str, int]]


def build_quickstart(folder: Path, settings: Quickstart, report: Report) -> Built:
    """Fill the empty ``folder``; equal installed packages give equal bytes.

    Raises:
        ValueError: the installed packages hold too few functions to evaluate with.
    """
    functions, packages = read_functions(settings.sources, report)
    pairs = find_pairs(functions)
    by_split: dict[str, list[Pair]] = {"train": [], "validation": [], "evaluation": []}
    modules: dict[str, dict[str, list[Function]]] = {split: defaultdict(list) for split in by_split}
    for function in functions:
        modules[_split(function, settings)][function.module].append(function)
    for pair in pairs:
        by_split[_split(pair.function, settings)].append(pair)

    rows = training_rows(
        by_split["train"], modules["train"], negatives=settings.negatives, characters=settings.characters
    )
    held_out = training_rows(
        by_split["validation"], modules["validation"], negatives=settings.negatives, characters=settings.characters
    )
    counts: dict[str, int | dict[str, int]] = {
        "functions": len(functions),
        "train.jsonl": write_lines(folder / "train.jsonl", rows),
        "validation.jsonl": write_lines(folder / "validation.jsonl", held_out[: settings.validation_rows]),
    }
    report(f"{len(functions):,} functions, {len(rows):,} training pairs")
    write_lines(
        folder / "modules.jsonl",
        ({"split": split, "modules": sorted({pair.function.module for pair in by_split[split]})} for split in by_split),
    )

    report("training the tokenizer")
    texts = (text for row in rows[: settings.tokenizer_rows] for text in (row["query"], *row["pos"]))
    tokenizer = train_tokenizer(texts, settings.shape.vocabulary)

    report("writing the evaluation sets")
    held = by_split["evaluation"]
    counts["eval/short"] = write_short(folder / "eval" / "short", held, candidates=settings.candidates)
    asked = {pair.function.id for pair in held}
    short_enough = {
        # Only to save time: what a long document can't hold anyway needn't be counted in tokens.
        module: [one for one in members if len(one.code) < 2 * max(LENGTHS)]
        for module, members in modules["evaluation"].items()
    }
    sizes = token_counts((one for members in short_enough.values() for one in members), tokenizer)
    for tokens in LENGTHS:
        documents = long_documents(short_enough, asked, sizes, tokens=tokens, count=settings.documents)
        if not documents:
            raise ValueError(f"the installed packages hold no module that fills {tokens} tokens")
        place = f"eval/long-{tokens}"
        queries = write_long(folder / place, documents, held, tokens=tokens, each=settings.queries_each)
        counts[place] = {"documents": len(documents)} | {f"quarter {one}": number for one, number in queries.items()}

    report("making the model")
    save_model(folder / "model", tokenizer, settings.shape)
    (folder / "README.txt").write_text(_readme(packages), encoding="utf-8")
    return Built(packages, counts)


def _split(function: Function, settings: Quickstart) -> str:
    return split_of(function.module, validation=settings.validation, evaluation=settings.evaluation)


def read_functions(sources: tuple[Source, ...], report: Report) -> tuple[list[Function], dict[str, str | None]]:
    """All functions of the installed ones among ``sources``, copies left out, and each package's version or None."""
    functions: list[Function] = []
    packages: dict[str, str | None] = {}
    with _no_garbage_collection():
        for number, source in enumerate(sources, 1):
            version = source.version()
            packages[source.package] = version
            if version is None:
                report(f"[{number}/{len(sources)}] {source.package} is not installed, left out")
                continue
            report(f"[{number}/{len(sources)}] reading {source.package} {version}")
            functions += read_source(source)
    return drop_copies(functions), packages


@contextlib.contextmanager
def _no_garbage_collection() -> Generator[None]:
    # Syntax trees are millions of objects without a use for the collector, which takes 40 % of the reading time.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _readme(packages: dict[str, str | None]) -> str:
    listed = "\n".join(f"  {name} {version}" for name, version in packages.items() if version is not None)
    return f"""Function search, made on this machine from the source code of installed packages.

A query is the first paragraph of a function's docstring; its passage is the function without docstrings; the
negatives are other functions of the same module. No module is in two of training, validation and evaluation
(modules.jsonl lists them).

train.jsonl, validation.jsonl   rows with query, pos, neg
eval/short                      find the function among functions
eval/long-512, -1024, -2048     find the module that holds the function; a module is whole functions of it in a drawn
                                order, at most so many tokens (special tokens not counted) and at least 90 % of them;
                                metadata.quarter says in which quarter of this length the function stands
model                           a small ModernBERT with random weights; its tokenizer saw the training part only

Source code of these packages, each under its own licence; made for use here, not for passing on:
{listed}
"""

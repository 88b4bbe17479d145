"""The data of the small replication: questions without a word of their answer, in documents of growing length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmk_experiments.builders.model import ModelShape, save_model, train_tokenizer
from lmk_experiments.builders.pairs import Pair, digest, find_pairs, split_of, training_rows
from lmk_experiments.builders.places import asked_modules, count_lines, write_places
from lmk_experiments.builders.quickstart import QUICKSTART_SOURCES, Built, Report, read_functions
from lmk_experiments.builders.retrieval import write_lines, write_short
from lmk_experiments.builders.sources import STANDARD_LIBRARY, Function, Source
from lmk_experiments.builders.words import unshared

if TYPE_CHECKING:
    from tokenizers import Tokenizer


KINDS = ("", "-unshared")
"""What ends the names of the searches with whole queries, and of those with queries that share no word."""


@dataclass(frozen=True, slots=True)
class Small:
    """The numbers of one version of the small replication's data."""

    sources: tuple[Source, ...]
    shapes: Mapping[str, ModelShape]
    """The models by the name of their folder; they share one tokenizer."""
    vocabulary: int
    lengths: tuple[int, ...]
    """Tokens of the documents, shortest first."""
    training_words: int
    """Words that say something which a query must have left, in training and validation."""
    evaluation_words: int
    """The same in the evaluation."""
    validation: float
    """Share of the modules that are kept for validation."""
    evaluation: float
    """Share of the modules that are kept for evaluation."""
    validation_rows: int
    candidates: int
    """Functions in the short search."""
    documents: int
    """Modules in each long search."""
    least: int
    """Functions that a module of the long searches is asked for, at least."""
    negatives: int = 3
    characters: int = 3000
    tokenizer_rows: int = 10_000

    @property
    def outputs(self) -> tuple[str, ...]:
        """The files and folders that are made."""
        searches = ("short", *(f"long-{tokens}" for tokens in self.lengths))
        folders = (f"eval/{name}{kind}" for name in searches for kind in KINDS)
        return ("train.jsonl", "validation.jsonl", *self.shapes, *folders)


# A layer that sees a window and one that sees all, as ModernBERT ends. The window is a quarter of the training's
# length, as ModernBERT's 128 tokens are of the paper's 512.
_SHAPE = ModelShape(hidden=128, layers=2, heads=2, intermediate=256, vocabulary=6144, local_attention=32)
_TINY = ModelShape(hidden=32, layers=2, heads=2, intermediate=32, vocabulary=1024, local_attention=32)


def _shapes(shape: ModelShape) -> dict[str, ModelShape]:
    """The model itself, with a window as wide as the training's texts, and with ModernBERT's pattern of four layers."""
    return {
        "model": shape,
        "model-wide": replace(shape, local_attention=128),
        "model-deep": replace(shape, layers=4, global_layers=(0, 3)),
    }


SMALL = Small(
    sources=QUICKSTART_SOURCES,
    shapes=_shapes(_SHAPE),
    vocabulary=_SHAPE.vocabulary,
    lengths=(512, 1024, 2048, 4096),
    training_words=2,
    evaluation_words=3,
    validation=0.01,
    evaluation=0.2,
    validation_rows=200,
    candidates=1000,
    documents=120,
    least=2,
)

SMALL_TINY = Small(
    sources=(Source(STANDARD_LIBRARY, only=("asyncio", "email", "http", "json", "logging", "unittest", "urllib")),),
    shapes=_shapes(_TINY),
    vocabulary=_TINY.vocabulary,
    lengths=(256, 512, 1024),
    training_words=1,
    evaluation_words=1,
    validation=0.1,
    evaluation=0.3,
    validation_rows=40,
    candidates=60,
    documents=10,
    least=1,
)


def build_small(folder: Path, settings: Small, report: Report) -> Built:
    """Fill the empty ``folder``; equal installed packages give equal bytes.

    Raises:
        ValueError: the installed packages hold too few functions to evaluate with.
    """
    functions, packages = read_functions(settings.sources, report)
    parts = _split_up(functions, settings)
    counts: dict[str, int | dict[str, int]] = {"functions": len(functions)}
    rows = {split: _rows(parts[split], settings) for split in ("train", "validation")}
    counts["train.jsonl"] = write_lines(folder / "train.jsonl", rows["train"])
    counts["validation.jsonl"] = write_lines(
        folder / "validation.jsonl", rows["validation"][: settings.validation_rows]
    )
    report(f"{len(functions):,} functions, {len(rows['train']):,} training pairs")
    modules = ({"split": split, "modules": sorted(part.modules)} for split, part in parts.items())
    write_lines(folder / "modules.jsonl", modules)

    report("training the tokenizer")
    drawn = rows["train"][: settings.tokenizer_rows]
    tokenizer = train_tokenizer((text for row in drawn for text in (row["query"], *row["pos"])), settings.vocabulary)

    report("writing the evaluation sets")
    counts |= _write_searches(folder / "eval", parts["evaluation"], tokenizer, settings)

    report("making the models")
    for name, shape in settings.shapes.items():
        save_model(folder / name, tokenizer, shape)
    (folder / "README.txt").write_text(_readme(settings, packages), encoding="utf-8")
    return Built(packages, counts)


@dataclass(frozen=True, slots=True)
class _Part:
    """One split: its pairs, the same pairs by id with queries that share no word, and its functions by module."""

    pairs: list[Pair]
    unshared: dict[str, Pair]
    modules: dict[str, list[Function]]


def _split_up(functions: list[Function], settings: Small) -> dict[str, _Part]:
    parts = {split: _Part([], {}, defaultdict(list)) for split in ("train", "validation", "evaluation")}

    def part_of(function: Function) -> str:
        return split_of(function.module, validation=settings.validation, evaluation=settings.evaluation)

    for function in functions:
        parts[part_of(function)].modules[function.module].append(function)
    for pair in find_pairs(functions):
        split = part_of(pair.function)
        words = settings.evaluation_words if split == "evaluation" else settings.training_words
        parts[split].pairs.append(pair)
        if (kept := unshared(pair, words=words)) is not None:
            parts[split].unshared[pair.function.id] = kept
    return parts


def _rows(part: _Part, settings: Small) -> list[dict[str, Any]]:
    """Every pair with its whole query, and once more with what shares no word, where enough is left."""
    rows = [
        row
        for pairs in (part.pairs, part.unshared.values())
        for row in training_rows(pairs, part.modules, negatives=settings.negatives, characters=settings.characters)
    ]
    return sorted(rows, key=lambda row: digest(f"mixed {row['query']} {row['pos'][0]}"))


def _write_searches(
    folder: Path, part: _Part, tokenizer: Tokenizer, settings: Small
) -> dict[str, int | dict[str, int]]:
    """The searches, each twice: the same functions are asked for in the same documents, with either kind of query."""
    whole = [pair for pair in part.pairs if pair.function.id in part.unshared]
    lines = count_lines((one for members in part.modules.values() for one in members), tokenizer)
    counts: dict[str, int | dict[str, int]] = {}
    for kind, pairs in zip(KINDS, (whole, [part.unshared[pair.function.id] for pair in whole]), strict=True):
        counts[f"eval/short{kind}"] = write_short(folder / f"short{kind}", pairs, candidates=settings.candidates)
        asked = asked_modules(
            part.modules,
            pairs,
            lines,
            shortest=settings.lengths[0],
            longest=settings.lengths[-1],
            least=settings.least,
            count=settings.documents,
        )
        if not asked:
            raise ValueError(f"the installed packages hold no module that fills {settings.lengths[-1]} tokens")
        for tokens in settings.lengths:
            name = f"long-{tokens}{kind}"
            by_quarter = write_places(folder / name, asked, lines, tokens=tokens)
            quarters = {f"quarter {one}": number for one, number in by_quarter.items()}
            counts[f"eval/{name}"] = {"documents": len(asked)} | quarters
    return counts


def _readme(settings: Small, packages: dict[str, str | None]) -> str:
    listed = "\n".join(f"  {name} {version}" for name, version in packages.items() if version is not None)
    lengths = ", ".join(map(str, settings.lengths))
    few, more = settings.training_words, settings.evaluation_words
    return f"""Function search with and without shared words, made on this machine from installed packages' sources.

A passage is a function without docstrings. Its query is the first paragraph of its docstring; and once more, under
the name "unshared", that paragraph without every word of which some form stands in the function: in a name, a comment
or a string. Such a query counts where words that say something are left: {few} in training, {more} in the evaluation.
No module is in two of training, validation and evaluation (modules.jsonl lists them).

train.jsonl, validation.jsonl   rows with query, pos, neg (other functions of the same module); both kinds of queries
eval/short                      find the function among functions
eval/long-N                     find the module that holds the function, in documents of N tokens ({lengths};
                                special tokens not counted). Modules and queries are the same at every length, and so
                                is the quarter of the document that a query's function stands in (metadata.quarter);
                                other functions of the module are around it
eval/*-unshared                 the same functions in the same documents, asked for without their words
model                           a small ModernBERT with random weights; its tokenizer saw the training part only
model-wide, model-deep          the same with a window of 128 tokens in place of 32; with four layers, of which the
                                first and the last see all

Source code of these packages, each under its own licence; made for use here, not for passing on:
{listed}
"""

"""How many tokens a training or an evaluation computes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from lmk_eval.haystacks.make import DOCUMENTS, QUERIES
from lmk_eval.suites import Suite, Task, task_sizes
from lmk_eval.suites.task import HAYSTACKS, LENGTHS
from lmk_experiments.builders import is_builtin_reference, locate
from lmk_experiments.datasets import is_data_reference, load_data_set, parse_reference
from lmk_train.config import PretrainConfig, TrainConfig

CHARACTERS_A_TOKEN = 4.0
"""Of most languages, and of code."""
CHARACTERS_A_TOKEN_OF = {"zh": 1.5, "ja": 1.7, "ko": 2.0, "th": 2.5}
"""Of languages whose characters hold more."""
_FILES = ("corpus.jsonl", "queries.jsonl", "train.jsonl", "test.jsonl")
"""Of a task's own folder."""


@dataclass(frozen=True)
class Tokens:
    """Tokens to compute, texts to embed, characters to keep, and where the lengths come from."""

    tokens: float
    basis: str
    texts: int | None = None
    characters: int | None = None
    largest: int | None = None
    """Texts of the largest corpus alone."""


def mean_cut(mean: float, longest: int) -> float:
    """The mean length after texts are cut to ``longest`` tokens, lengths being taken as exponentially distributed.

    >>> round(mean_cut(77, 512)), round(mean_cut(1600, 8192)), round(mean_cut(400, 512))
    (77, 1590, 289)
    """
    return mean * (1 - math.exp(-longest / mean))


def training_tokens(config: TrainConfig) -> Tokens:
    """Tokens of a fine-tune's batches, padding left out: ``steps * rows * (query + (1 + negatives) * passage)``.

    Data sets of a mixture count alike, with the batch and the negatives that the training itself names.
    """
    data = config.data
    query, passage, basis = _row_lengths(data.paths, data.query_max_length, data.passage_max_length)
    row = query + (1 + data.negatives) * passage
    return Tokens(config.optim.steps * config.optim.batch_size * row, basis)


def pretraining_tokens(config: PretrainConfig) -> Tokens:
    """Tokens of a pre-training's texts: ``steps * texts * length``."""
    _, text, basis = _row_lengths(config.data.train, 1, config.data.max_length)
    return Tokens(config.optim.steps * config.optim.batch_size * text, basis)


def _row_lengths(references: tuple[str, ...], query_cut: int, passage_cut: int) -> tuple[float, float, str]:
    """Mean tokens of a query and of a passage; the longest allowed where some data's lengths are not declared."""
    if not all(map(is_data_reference, references)):
        return query_cut, passage_cut, "every text at its longest"
    sets = [load_data_set(parse_reference(reference)[0]) for reference in references]
    queries = [mean_cut(found.mean_tokens.query or query_cut, query_cut) for found in sets]
    passages = [mean_cut(found.mean_tokens.passage, passage_cut) for found in sets]
    names = ", ".join(dict.fromkeys(found.name for found in sets))
    return sum(queries) / len(sets), sum(passages) / len(sets), f"mean lengths of {names}"


def suite_tokens(suite: Suite, max_length: int, root: Path) -> Tokens | None:
    """Tokens of all documents and queries of a suite; ``None`` where a task's size is not known."""
    tokens, texts, characters, largest = 0.0, 0, 0, 0
    counted = True
    for task in suite.tasks:
        found = _task_tokens(task, max_length, root)
        if found is None:
            return None
        tokens += found.tokens
        texts += found.texts or 0
        characters += found.characters or 0
        largest = max(largest, found.largest or 0)
        counted = counted and found.texts is not None
    known = texts if counted else None
    return Tokens(tokens, "sizes of the tasks", known, characters, largest if counted else None)


def _task_tokens(task: Task, max_length: int, root: Path) -> Tokens | None:
    if task.kind in HAYSTACKS:
        return _haystack_tokens(task, max_length)
    if task.local is not None:
        return _folder_tokens(task.local, root)
    sizes = task_sizes(task)
    if sizes is None:
        return None
    languages = task.subsets if task.subsets and len(task.subsets) == len(sizes) else ("",) * len(sizes)
    tokens = 0.0
    for language, size in zip(languages, sizes, strict=True):
        a_token = CHARACTERS_A_TOKEN_OF.get(language, CHARACTERS_A_TOKEN)
        for texts, characters in ((size.documents, size.document_characters), (size.queries, size.query_characters)):
            if texts:
                tokens += texts * mean_cut(characters / texts / a_token, max_length)
    texts = sum(size.documents + size.queries for size in sizes)
    characters = sum(size.document_characters + size.query_characters for size in sizes)
    return Tokens(tokens, "", texts, characters, max(size.documents for size in sizes))


def _haystack_tokens(task: Task, max_length: int) -> Tokens:
    """Tokens of documents that are cut to given lengths from any text."""
    lengths = task.lengths or LENGTHS
    tokens = float(sum(min(length, max_length) for length in lengths) * DOCUMENTS)
    characters = int(sum(lengths) * DOCUMENTS * (task.characters_a_token or CHARACTERS_A_TOKEN))
    texts = len(lengths) * (DOCUMENTS + QUERIES)
    return Tokens(tokens, "", texts, characters, DOCUMENTS)


def _folder_tokens(folder: str, root: Path) -> Tokens | None:
    """Tokens of a local set, by the size of its files."""
    if is_data_reference(folder):
        return None
    place = locate(folder, root) if is_builtin_reference(folder) else Path(folder)
    files = [file for name in _FILES if (file := place / name).is_file()]
    if not files:
        return None
    size = sum(file.stat().st_size for file in files)
    return Tokens(size / CHARACTERS_A_TOKEN, "", None, size)

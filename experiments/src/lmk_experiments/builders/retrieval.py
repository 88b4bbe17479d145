"""Evaluation sets of the BEIR layout: finding a function among functions, and among whole modules of a given length."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmk_experiments.builders.pairs import Pair, digest
from lmk_experiments.builders.sources import Function

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FULL = 0.9
"""A document is filled to at least this share of its length, so that quarters mean the same in all of them."""

SEPARATOR = "\n\n"


@dataclass(frozen=True, slots=True)
class LongDocument:
    """Whole functions of one module in a drawn order.

    Attributes:
        spans: first token and token after the last of every function, by its id; special tokens are not counted.
    """

    module: str
    text: str
    spans: dict[str, tuple[int, int]]


def write_beir(folder: Path, corpus: Iterable[dict[str, Any]], queries: list[dict[str, Any]]) -> None:
    """Write the three files of a BEIR data set; a query's key ``"answer"`` is the id of its document."""
    (folder / "qrels").mkdir(parents=True)
    write_lines(folder / "corpus.jsonl", corpus)
    write_lines(
        folder / "queries.jsonl",
        ({key: value for key, value in query.items() if key != "answer"} for query in queries),
    )
    lines = ["query-id\tcorpus-id\tscore", *(f"{query['_id']}\t{query['answer']}\t1" for query in queries)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_lines(path: Path, values: Iterable[Mapping[str, Any]]) -> int:
    """Write one JSON object a line; returns how many there were."""
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        for value in values:
            stream.write(json.dumps(value, ensure_ascii=False) + "\n")
            count += 1
    return count


def write_short(folder: Path, pairs: Iterable[Pair], *, candidates: int) -> int:
    """Function search: each query has one right function among all candidates. Returns the number of queries."""
    chosen = sorted(pairs, key=lambda pair: digest(f"short {pair.function.id}"))[:candidates]
    write_beir(
        folder,
        ({"_id": pair.function.id, "title": "", "text": pair.function.code} for pair in chosen),
        [
            {
                "_id": f"q:{pair.function.id}",
                "text": pair.query,
                "metadata": {"module": pair.function.module},
                "answer": pair.function.id,
            }
            for pair in chosen
        ],
    )
    return len(chosen)


def token_counts(functions: Iterable[Function], tokenizer: Tokenizer) -> dict[str, int]:
    """Tokens of every function by its id, special tokens not counted."""
    members = list(functions)
    encoded = tokenizer.encode_batch([function.code for function in members], add_special_tokens=False)
    return {function.id: len(encoding.ids) for function, encoding in zip(members, encoded, strict=True)}


def long_documents(
    modules: Mapping[str, list[Function]], asked: set[str], sizes: Mapping[str, int], *, tokens: int, count: int
) -> list[LongDocument]:
    """At most ``count`` modules, chosen by a draw, that fill a document of ``tokens`` tokens to at least `FULL`.

    Args:
        asked: ids of the functions that have a query; they come into the document before the others.
        sizes: tokens of every function, see `token_counts`.
    """
    documents: list[LongDocument] = []
    for module in sorted(modules, key=lambda module: digest(f"long {module}")):
        if len(documents) == count:
            break
        document = _fill(modules[module], asked, sizes, tokens)
        if document is not None:
            documents.append(document)
    return documents


def _fill(functions: list[Function], asked: set[str], sizes: Mapping[str, int], tokens: int) -> LongDocument | None:
    drawn = sorted(functions, key=lambda function: (function.id not in asked, digest(f"fill {function.id}")))
    chosen: list[Function] = []
    filled = 0
    for function in drawn:
        # Nothing longer than a quarter: it would stand in no quarter in particular.
        if sizes[function.id] <= tokens // 4 and filled + sizes[function.id] <= tokens:
            chosen.append(function)
            filled += sizes[function.id]
    if filled < FULL * tokens:
        return None
    # Drawn again: where a function stands must say nothing about what kind of function it is.
    chosen.sort(key=lambda function: digest(f"order {tokens} {function.id}"))
    spans, start = {}, 0
    for function in chosen:
        spans[function.id] = (start, start + sizes[function.id])
        start += sizes[function.id]
    return LongDocument(chosen[0].module, SEPARATOR.join(function.code for function in chosen), spans)


def write_long(
    folder: Path, documents: list[LongDocument], pairs: Iterable[Pair], *, tokens: int, each: int
) -> dict[str, int]:
    """Module search at one length: find the module that holds a function.

    The queries' metadata says in which quarter of ``tokens`` the function's middle stands ("1" to "4"). At most
    ``each`` queries a quarter are kept, by a draw.

    Returns:
        The number of queries by quarter.
    """
    by_id = {document.module: document for document in documents}
    quarters: dict[str, list[dict[str, Any]]] = {quarter: [] for quarter in "1234"}
    for pair in sorted(pairs, key=lambda pair: digest(f"ask {tokens} {pair.function.id}")):
        document = by_id.get(pair.function.module)
        if document is None or pair.function.id not in document.spans:
            continue
        quarter = str(quarter_of(document.spans[pair.function.id], tokens))
        if len(quarters[quarter]) < each:
            metadata = {"quarter": quarter, "module": document.module, "function": pair.function.name}
            query = {"_id": f"q:{pair.function.id}", "text": pair.query, "metadata": metadata}
            quarters[quarter].append({**query, "answer": document.module})
    corpus = ({"_id": document.module, "title": "", "text": document.text} for document in documents)
    write_beir(folder, corpus, [query for group in quarters.values() for query in group])
    return {quarter: len(group) for quarter, group in quarters.items()}


def quarter_of(span: tuple[int, int], tokens: int) -> int:
    """Which quarter (1 to 4) of ``tokens`` tokens the middle of a span stands in.

    >>> quarter_of((500, 600), 2048), quarter_of((0, 100), 512), quarter_of((412, 512), 512)
    (2, 1, 4)
    """
    return min(int(4 * (span[0] + span[1]) / (2 * tokens)), 3) + 1

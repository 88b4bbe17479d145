"""A sample of texts for RetroMAE pre-training (section 6.3), equally many of each source."""

from __future__ import annotations

import contextlib
import hashlib
import heapq
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lmk_experiments.builders.published import Bar, found_whole, manifest, new_folder
from lmk_experiments.builders.quickstart import Report
from lmk_experiments.datasets import MANIFEST, load_data_set
from lmk_experiments.records.atomic import write_json
from lmk_train.data.reading import Findings, data_files
from lmk_train.pretraining.reading import CHARACTERS_A_TOKEN, check_findings, read_texts

SHORT_NAME, RETROMAE = "retromae", "retromae-225k"
MAX_LENGTH = 8192
"""Tokens of a text, for the pieces into which a plain text is cut: the preset's."""
FILE = "texts.jsonl"


def build_texts(
    sources: list[Path],
    out: Path,
    *,
    seed: int = 0,
    any_count: bool = False,
    max_faulty: float = 0.0,
    report: Report,
    progress: Bar | None = None,
) -> Path:
    """Write a sample of the sources' texts to ``out``, and return it; at once where it is whole already.

    A text is drawn by the digest of the seed and the text itself: the sample is the same however a source is cut into
    files, and holds no text twice.

    Args:
        sources: each a file or a folder of JSON lines or parquet with the key `text`, or of plain text.
        seed: which sample.
        any_count: fewer texts than the paper's are fine. The folder is marked as an excerpt then, and ``data:NAME``
            refuses it: name it by its path.
        max_faulty: the share of a file's rows that may be faulty, and are left out.
        report: called with a line of text at each step.
        progress: opens a bar for a file.

    Raises:
        ValueError: a source is missing or damaged, or has too few texts.
    """
    declared = load_data_set(RETROMAE)
    if out.exists():
        return found_whole(declared, out)
    total = declared.rows or 0
    with new_folder(out) as writing:
        if writing is None:
            return found_whole(declared, out)
        findings, read, short = Findings(keep=None), [], []
        for number, source in enumerate(sources):
            wanted = total // len(sources) + (number < total % len(sources))
            drawn = _draw(source, wanted, seed, findings, read, max_faulty, report, progress)
            if len(drawn) < wanted:
                short.append(f"{source} has {len(drawn):,} texts, and {wanted:,} are to be drawn")
            for text in drawn:
                writing.write(FILE, {"text": text, "source": source.name})
        problem = "; ".join(short) or None
        if problem and not any_count:
            raise ValueError(f"{problem}; --any-count takes what there is, as an excerpt")
        written = writing.close()
        findings.rows = sum(one["rows"] for one in written)
        value = manifest(declared, problem, read, written, findings)
        write_json(writing.folder / MANIFEST, {**value, "seed": seed})
    report(f"{findings.rows:,} texts from {len(sources)} sources" + (f": {problem}" if problem else ""))
    return out


def _draw(
    source: Path,
    wanted: int,
    seed: int,
    findings: Findings,
    read: list[dict[str, Any]],
    max_faulty: float,
    report: Report,
    progress: Bar | None,
) -> list[str]:
    """The ``wanted`` texts with the smallest digests, smallest first."""
    if not wanted:
        return []
    heap: list[tuple[int, str]] = []
    held: set[int] = set()
    for digest, text in _digested(source, seed, findings, read, max_faulty, report, progress):
        if digest in held or (len(heap) == wanted and digest > -heap[0][0]):
            continue
        held.add(digest)
        if len(heap) < wanted:
            heapq.heappush(heap, (-digest, text))
        else:
            held.discard(-heapq.heapreplace(heap, (-digest, text))[0])
    return [text for _, text in sorted(heap, reverse=True)]


def _digested(
    source: Path,
    seed: int,
    findings: Findings,
    read: list[dict[str, Any]],
    max_faulty: float,
    report: Report,
    progress: Bar | None,
) -> Iterator[tuple[int, str]]:
    for file in data_files(source, plain_text=True):
        report(f"reading {file}")
        own = Findings()
        with contextlib.nullcontext() if progress is None else progress(str(file)) as bar:
            for _, text in read_texts(file, own, characters=CHARACTERS_A_TOKEN * MAX_LENGTH, progress=bar):
                key = f"{seed}\n{text}".encode(errors="surrogatepass")
                yield int.from_bytes(hashlib.blake2b(key, digest_size=16).digest(), "big"), text
        check_findings(own, file, max_faulty)
        findings.merge(own)
        read.append({"file": str(file), "rows": own.rows, "bytes": file.stat().st_size, "faulty": own.faulty})

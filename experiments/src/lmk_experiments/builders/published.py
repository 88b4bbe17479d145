"""The paper's training data from the parts that were published: the same rows, in the layout that grids name."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import tempfile
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from lmk_experiments.builders.languages import BY_ROW, assigned, language_of
from lmk_experiments.builders.quickstart import Report
from lmk_experiments.builders.store import locked
from lmk_experiments.datasets import MANIFEST, DataSet, load_data_set
from lmk_experiments.records.atomic import read_json, write_json
from lmk_train.data import Findings
from lmk_train.data.reading import data_files, usable_records
from lmk_train.data.reading.rows import Row

Bar = Callable[[str], AbstractContextManager[Any]]
"""Opens a bar of that title; what it gives is called with the bytes that were read and the file's size."""

_KEPT = ("query", "pos", "neg", "pos_scores", "neg_scores", "prompt", "type")


@dataclass(frozen=True, slots=True)
class Published:
    """How one published data set is recognized and laid out."""

    words: tuple[str, ...] = ()
    """What the names of its files hold, in folders that hold other data sets too."""
    by_language: bool = False
    """One file a language; else one file."""
    negatives: int = 0
    """Hard negatives that the paper draws of each row."""


PUBLISHED: dict[str, Published] = {
    "msmarco-passage": Published(("msmarco_passage", "msmarco-passage", "msmarco_psg"), negatives=7),
    "msmarco-document": Published(("msmarco_document", "msmarco-document", "msmarco_doc"), negatives=1),
    "bge-m3": Published(by_language=True, negatives=7),
}


@dataclass
class Writing:
    """The files that are being written, and what is known of them."""

    folder: Path
    streams: dict[str, IO[bytes]] = field(default_factory=dict)
    digests: dict[str, Any] = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)

    def write(self, name: str, values: dict[str, Any]) -> None:
        if name not in self.streams:
            self.streams[name] = (self.folder / name).open("wb")
            self.digests[name] = hashlib.sha256()
        line = json.dumps(values, ensure_ascii=False).encode(errors="surrogatepass") + b"\n"
        self.streams[name].write(line)
        self.digests[name].update(line)
        self.rows[name] += 1

    def close(self) -> list[dict[str, Any]]:
        """Flush all to the disk; the files with their rows, sizes and digests."""
        written = []
        for name, stream in sorted(self.streams.items()):
            stream.flush()
            os.fsync(stream.fileno())
            size = stream.tell()
            written.append(
                {"file": name, "rows": self.rows[name], "bytes": size, "sha256": self.digests[name].hexdigest()}
            )
        return written

    def abandon(self) -> None:
        """Close and remove what is there still."""
        for stream in self.streams.values():
            stream.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def build_published(
    name: str,
    sources: list[Path],
    out: Path,
    *,
    any_count: bool = False,
    max_faulty: float = 0.0,
    languages: list[str] | tuple[str, ...] = (),
    report: Report,
    progress: Bar | None = None,
) -> Path:
    """Write the rows of published files to ``out``, and return it; at once where it is whole already.

    Rows are read and written one at a time, into a folder beside ``out`` that is renamed when it is complete: a build
    that is killed leaves nothing that looks whole. ``DATA.json`` says what was read and written.

    Args:
        sources: its files, or folders with them.
        any_count: an excerpt is fine. It is marked as one, and ``data:NAME`` refuses it: name it by its path.
        max_faulty: the share of a file's rows that may be faulty, and are left out.
        languages: bge-m3: ``PATTERN=CODE`` for files whose path does not say their language.
        report: called with a line of text at each step.
        progress: opens a bar for a file.

    Raises:
        ValueError: files are missing or damaged, a language is not known, or the rows are not as many as there are.
    """
    declared, layout = load_data_set(name), PUBLISHED[name]
    if out.exists():
        return found_whole(declared, out)
    files = _chosen(layout, sources, report)
    wanted = assigned(files, languages) if layout.by_language else dict.fromkeys(files, "rows")
    with new_folder(out) as writing:
        if writing is None:
            return found_whole(declared, out)
        read, findings = [], Findings(keep=None)
        for file in files:
            report(f"reading {file}" + (f" ({wanted[file]})" if layout.by_language else ""))
            with contextlib.nullcontext() if progress is None else progress(str(file)) as bar:
                read.append(_copy(file, wanted[file], writing, findings, layout, max_faulty, bar))
        written = writing.close()
        problem = _other_counts(declared, written)
        if problem and not any_count:
            raise ValueError(f"{problem}; --any-count builds it all the same, as an excerpt")
        write_json(writing.folder / MANIFEST, manifest(declared, problem, read, written, findings))
    report(f"{findings.rows:,} rows in {len(written)} files" + (f": {problem}" if problem else ""))
    return out


@contextlib.contextmanager
def new_folder(out: Path) -> Generator[Writing | None]:
    """A folder beside ``out`` that is renamed when the block has ended well: a build that is killed leaves nothing that
    looks whole. ``None`` where another process has built it meanwhile."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with locked(out.with_name(f".{out.name}.lock")) as is_locked:
        if out.exists():  # another process was building it
            yield None
            return
        prefix = f".{out.name}.{socket.gethostname()}."
        if is_locked:  # what lies here of this machine is of killed builds; another machine may not see the lock
            for left in out.parent.glob(f"{prefix}*"):
                shutil.rmtree(left, ignore_errors=True)
        writing = Writing(Path(tempfile.mkdtemp(prefix=prefix, dir=out.parent)))
        try:
            yield writing
            writing.folder.chmod(0o755)
            writing.folder.rename(out)
        finally:
            writing.abandon()


def found_whole(declared: DataSet, out: Path) -> Path:
    """The folder, if it holds the whole data set in its present version.

    Raises:
        ValueError: it does not.
    """
    manifest = read_json(out / MANIFEST) if out.is_dir() else None
    if isinstance(manifest, dict) and (manifest.get("name"), manifest.get("version")) == (
        declared.name,
        declared.version,
    ):
        return out
    raise ValueError(f"{out} is there and is not a whole {declared.name}; remove it, or give another --out")


def _chosen(layout: Published, sources: list[Path], report: Report) -> dict[Path, tuple[str, ...]]:
    """The files given, with their name and those of the folders that were given with them.

    Of a folder those whose names say that they are this data set, or all where none says so.

    Raises:
        DataError: nothing is there, or a file of another kind.
    """
    chosen: dict[Path, tuple[str, ...]] = {}
    for source in sources:
        files = data_files(source)
        if source.is_dir() and layout.words:
            named = [file for file in files if any(word in file.name.lower() for word in layout.words)]
            if named and len(named) < len(files):
                report(f"{source}: {len(named)} of {len(files)} files, those named {' or '.join(layout.words)}")
            files = named or files
        within = source.resolve().parent if source.is_dir() else None
        chosen |= {file: (file.name,) if within is None else file.resolve().relative_to(within).parts for file in files}
    return chosen


def _copy(
    file: Path,
    target: str,
    writing: Writing,
    findings: Findings,
    layout: Published,
    max_faulty: float,
    bar: Callable[[int, int], None] | None,
) -> dict[str, Any]:
    own = Findings()
    for number, record, row in usable_records(file, own, progress=bar):
        own.rows += 1
        own.scored += row.has_scores
        own.counts.update({"few_negatives": 1} if len(row.negatives) < layout.negatives else {})
        code = target if target != BY_ROW else language_of(record, file, number)
        writing.write(f"{code}.jsonl", _values(record, row))
    own.check(file, max_faulty)
    findings.merge(own)
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"file": str(file), "rows": own.rows, "bytes": file.stat().st_size, "sha256": digest, "faulty": own.faulty}


def _values(record: dict[str, Any], row: Row) -> dict[str, Any]:
    """The record as it is written: its own texts and scores where it has this layout already."""
    if "pos" in record:
        return {key: record[key] for key in _KEPT if record.get(key) is not None}
    return {"query": row.query, "pos": list(row.positives), "neg": list(row.negatives)}


def _other_counts(declared: DataSet, written: list[dict[str, Any]]) -> str | None:
    """How the rows differ from those that were published, or ``None``."""
    found = {one["file"]: one["rows"] for one in written}
    if declared.parts is not None:
        names = sorted({*declared.parts, *found})
        wrong = [name for name in names if declared.parts.get(name, 0) != found.get(name, 0)]
        if wrong:
            told = ", ".join(f"{name} {found.get(name, 0):,} of {declared.parts.get(name, 0):,}" for name in wrong)
            return f"{declared.name} has other rows: {told}"
        return None
    total = sum(found.values())
    if declared.rows is not None and total != declared.rows:
        return f"{declared.name} has {declared.rows:,} rows, and these files hold {total:,}"
    return None


def manifest(
    declared: DataSet,
    problem: str | None,
    read: list[dict[str, Any]],
    written: list[dict[str, Any]],
    findings: Findings,
) -> dict[str, Any]:
    """What ``DATA.json`` says; with a ``problem`` the data is an excerpt."""
    return {
        "schema": 1,
        "name": declared.name,
        "version": f"{declared.version}-excerpt" if problem else declared.version,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": findings.rows,
        "rows_with_scores": findings.scored,
        "counts": dict(sorted(findings.counts.items())),
        "faults": [str(fault) for fault in findings.faults],
        "read": read,
        "written": written,
    }

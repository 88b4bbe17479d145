"""The code that jobs run with: a copy taken when they are submitted, so that later edits change no running job."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import lmk_experiments
from lmk_experiments.records.atomic import read_json, write_json
from lmk_experiments.records.tickets import user_name

MARK = "SNAPSHOT.json"
DIFF = "dirty.diff"
# What a job runs: a change anywhere else (grids, profiles, presets, docs, tests) is in the cells' records or in no job.
_SOURCES = (":(glob)*/src/**", ":(glob)packages/*/src/**")


class SnapshotError(ValueError):
    """The code cannot be copied as it is."""


@dataclass(frozen=True)
class Snapshot:
    """The code of a submission.

    Attributes:
        folder: the copy; ``None`` where the installed packages are used as they are.
        commit: the commit it was made from.
        dirty: whether it holds changes that no commit has.
    """

    folder: Path | None
    commit: str | None
    dirty: bool = False

    @property
    def path(self) -> list[Path]:
        """The folders that go first on a job's path."""
        if self.folder is None:
            return []
        return sorted(path for path in (*self.folder.glob("*/src"), *self.folder.glob("packages/*/src")))

    def setup_lines(self) -> tuple[str, ...]:
        """Shell lines that put the copy first on the path of a job."""
        if self.folder is None:
            return ()
        joined = os.pathsep.join(str(path) for path in self.path)
        return (f'export PYTHONPATH={_quoted(joined)}"${{PYTHONPATH:+:$PYTHONPATH}}"',)

    def describe(self) -> str:
        """For people: where the code comes from."""
        if self.folder is None:
            return "the installed packages (they are no git checkout, so there is nothing to copy)"
        changes = f", with the changes in {DIFF}" if self.dirty else ""
        return f"commit {(self.commit or '')[:12]}{changes}, copied to {self.folder}"


def take_snapshot(folder: Path, *, dirty: bool = False, package: Path | None = None) -> Snapshot:
    """Copy the checkout that this process runs from into ``folder``, once for each commit.

    Args:
        folder: where copies are kept: ``<root>/grids/<grid>/code``.
        dirty: take changes along that are not committed, instead of refusing them.
        package: any folder inside the checkout; default: where this package was imported from.

    Raises:
        SnapshotError: source files are changed or new and ``dirty`` is false; or git fails.
    """
    checkout = find_checkout(package or Path(lmk_experiments.__file__).parent)
    if checkout is None:
        return Snapshot(None, None)
    commit = _git(checkout, "rev-parse", "HEAD").strip()
    changed = source_changes(checkout)
    if changed and not dirty:
        listed = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
        raise SnapshotError(
            f"{checkout} has changes that are not committed: {listed}. Commit them, so that the records can say which "
            "code ran, or use --dirty, which keeps the changes beside the copy"
        )
    changes = _changes(checkout) if changed else None
    name = f"{commit[:12]}-{hashlib.sha256(changes.diff).hexdigest()[:8]}" if changes else commit[:12]
    target = folder / name
    if not (target / MARK).exists():
        _copy(checkout, commit, changes, target)
    return Snapshot(target, commit, changes is not None)


def running_code() -> dict[str, object]:
    """Where this process's own code is from: its folder, and of a copy also its commit."""
    source = Path(lmk_experiments.__file__).resolve().parents[3]
    mark = read_json(source / MARK) or {}
    return {"code": str(source), **{key: mark[key] for key in ("commit", "dirty") if key in mark}}


def find_checkout(inside: Path) -> Path | None:
    """The git checkout whose tracked files hold ``inside``; ``None`` for an installed package, or without git."""
    try:
        top = Path(_git(inside, "rev-parse", "--show-toplevel").strip())
        tracked = _git(inside, "ls-files", "--", ".")
    except (SnapshotError, OSError):
        return None
    return top if tracked.strip() else None


def source_changes(checkout: Path) -> list[str]:
    """The source files that differ from the last commit, and those that git does not know and does not ignore."""
    return [*_names(_git(checkout, "diff", "--name-only", "-z", "HEAD", "--", *_SOURCES)), *_new_sources(checkout)]


def _new_sources(checkout: Path) -> list[str]:
    return _names(_git(checkout, "ls-files", "--others", "--exclude-standard", "-z", "--", *_SOURCES))


def _names(listed: str) -> list[str]:
    return [name for name in listed.split("\0") if name]


@dataclass(frozen=True)
class _Changes:
    """What the sources hold beyond the commit: a tree of git's with everything, and the difference."""

    tree: str
    diff: bytes


def _changes(checkout: Path) -> _Changes:
    """The checkout as it is now, new source files too. It is not touched, nor is what is staged in it."""
    new = _new_sources(checkout)
    with tempfile.TemporaryDirectory() as name:
        index = Path(name) / "index"
        shutil.copyfile(checkout / _git(checkout, "rev-parse", "--git-path", "index").strip(), index)
        _git(checkout, "add", "--update", index=index)
        if new:
            _git(checkout, "--literal-pathspecs", "add", "--", *new, index=index)
        tree = _git(checkout, "write-tree", index=index).strip()
    return _Changes(tree, _git_bytes(checkout, "diff", "--binary", "HEAD", tree, "--", *_SOURCES))


def _copy(checkout: Path, commit: str, changes: _Changes | None, target: Path) -> None:
    """Unpack the commit (or the tree with the changes) beside ``target`` and rename: whole, or not there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".code-", dir=target.parent))
    try:
        archive = _git_bytes(checkout, "archive", "--format=tar", changes.tree if changes else commit)
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(draft, filter="data")
        if changes:
            (draft / DIFF).write_bytes(changes.diff)
        taken = datetime.now(UTC).isoformat(timespec="seconds")
        who = {"user": user_name(), "host": socket.gethostname()}
        mark = {"commit": commit, "dirty": changes is not None, "checkout": str(checkout), "taken": taken, **who}
        write_json(draft / MARK, mark)
        draft.chmod(0o755)
        draft.rename(target)
    except OSError:
        if not (target / MARK).exists():  # else another submit was quicker
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _git(folder: Path, *arguments: str, index: Path | None = None) -> str:
    return _git_bytes(folder, *arguments, index=index).decode()


def _git_bytes(folder: Path, *arguments: str, index: Path | None = None) -> bytes:
    """What git answers; with ``index``, it works on this file instead of the checkout's own."""
    command = ["git", "-C", str(folder), *arguments]
    environment = None if index is None else {**os.environ, "GIT_INDEX_FILE": str(index)}
    done = subprocess.run(command, capture_output=True, check=False, env=environment)  # noqa: S603
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise SnapshotError(f"git {arguments[0]} in {folder}: {words[-1]}")
    return done.stdout


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"

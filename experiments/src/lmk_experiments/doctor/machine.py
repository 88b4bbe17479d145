"""This machine: versions, the code, the root's disk, caches, the tracking store."""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from lmk_experiments.doctor.finding import Finding
from lmk_experiments.submit.snapshot import SnapshotError, find_checkout, running_code, source_changes

PACKAGES = ("torch", "transformers", "lightning", "mteb", "mlflow", "submitit")
SMALL_GB = 50.0
"""A home with less room than this (GB) is no place for models and data sets."""
ROOM_GB = 20.0
"""A root with less room than this (GB) is soon full of checkpoints."""
QUOTA_SECONDS = 10.0
"""`quota` asks the servers of all mounted shares, of which one may be gone."""
MOUNTS = Path("/proc/mounts")
_NETWORK = ("nfs", "lustre", "gpfs", "beegfs", "ceph", "fuse.", "cifs", "smb", "wekafs", "panfs", "afs", "9p")
_ESCAPED = re.compile(r"\\([0-7]{3})")
"""How the list of mounts writes a space in a folder's name."""
_TRY_LOCK = "import fcntl, sys\nfcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"


def look_at_machine(root: Path) -> Iterator[Finding]:
    """Everything that can be told without a scheduler."""
    yield from _versions()
    yield _code()
    yield from _root(root)
    yield from _caches(root)
    yield _quota()
    yield _store(root)


def _versions() -> Iterator[Finding]:
    enough = sys.version_info >= (3, 11)
    yield Finding("ok" if enough else "fail", "python", f"{platform.python_version()} ({sys.executable})")
    found, lacking = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            lacking.append(name)
    yield Finding("ok", "packages", ", ".join(found))
    if lacking:
        yield Finding("fail", "packages", f"not installed: {', '.join(lacking)}; `make setup` installs everything")


def _code() -> Finding:
    checkout = find_checkout(Path(__file__).parent)
    if checkout is None:
        return Finding("note", "code", f"{running_code()['code']} is no git checkout; jobs run what is installed")
    try:
        changed = source_changes(checkout)
    except SnapshotError as error:
        return Finding("fail", "code", str(error))
    if changed:
        return Finding(
            "warn", "code", f"{len(changed)} source files are not committed; `lmk submit` wants --dirty then"
        )
    return Finding("ok", "code", f"{checkout}, every source file is committed; jobs run a copy")


def _root(root: Path) -> Iterator[Finding]:
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".doctor-", dir=root) as name:
            folder = Path(name)
            yield _links(folder)
            yield _locks(folder)
    except OSError as error:
        yield Finding("fail", "root", f"{root} cannot be written: {error}; --root or LMK_ROOT names another")
        return
    free = shutil.disk_usage(root).free / 1e9
    kind = file_system(root)
    level = "ok" if free > ROOM_GB else "warn"
    yield Finding(level, "root", f"{root} ({kind}) can be written, {free:,.0f} GB are free")


def _links(folder: Path) -> Finding:
    """Claims are linked into place, and finished files renamed: both must be whole or not at all."""
    draft, kept = folder / "draft", folder / "kept"
    draft.write_text("x")
    try:
        os.link(draft, kept)
    except OSError as error:
        return Finding("fail", "root", f"hard links do not work there ({error}), and claims of cells need them")
    return Finding("ok", "root", "links and renames work there")


def _locks(folder: Path) -> Finding:
    """Whether a lock of one process keeps another out: SQLite and the mirror rely on it."""
    path = folder / "lock"
    path.touch()
    with path.open("r+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return Finding(
                "warn", "locks", f"none on that file system ({error}); set LMK_STORE to a server or local disk"
            )
        other = [sys.executable, "-c", _TRY_LOCK, str(path)]
        done = subprocess.run(other, capture_output=True, check=False)  # noqa: S603
    if done.returncode == 0:
        return Finding("warn", "locks", "they keep nobody out there; set LMK_STORE to a server or a local disk")
    return Finding("ok", "locks", "they hold there")


def _caches(root: Path) -> Iterator[Finding]:
    home = Path.home()
    free = shutil.disk_usage(home).free / 1e9
    default = {"HF_HOME": home / ".cache" / "huggingface", "TMPDIR": Path(tempfile.gettempdir())}
    for name, fallback in default.items():
        path = Path(os.environ.get(name) or fallback).expanduser()
        said = "" if name in os.environ else " (not set: the default)"
        inside = path.is_relative_to(home)
        if inside and free < SMALL_GB:
            advice = f"is in a home with {free:,.0f} GB free; put it on a large disk: export {name}={root.parent}/..."
            yield Finding("warn", name, f"{path}{said} {advice}")
        elif inside and name not in os.environ and root.exists() and home.stat().st_dev != root.stat().st_dev:
            yield Finding("note", name, f"{path}{said} is in the home, which often has a quota")
        else:
            yield Finding("ok", name, f"{path}{said}")


def _quota() -> Finding:
    if shutil.which("quota") is None:
        return Finding("note", "quota", "no command `quota` here; ask how much you may store")
    command = ["quota", "-s"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=QUOTA_SECONDS)  # noqa: S603
    except subprocess.TimeoutExpired:
        return Finding("note", "quota", f"`quota` does not answer within {QUOTA_SECONDS:g} seconds")
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    over = any("*" in line for line in lines)
    return Finding("warn" if over else "ok", "quota", "; ".join(lines[-2:]) or "none")


def _store(root: Path) -> Finding:
    from lmk_experiments.mirror import StoreError, tracking_uri
    from lmk_experiments.mirror.address import ask, without_credentials
    from lmk_experiments.mirror.store import database_file

    named = "from the environment" if os.environ.get("LMK_STORE") or os.environ.get("MLFLOW_TRACKING_URI") else ""
    try:
        uri = tracking_uri(root)
    except StoreError as error:
        return Finding("fail", "tracking", str(error))
    file = database_file(uri)
    if file is None:
        wrong = ask(uri) if uri.startswith("http") else None
        shown = f"{without_credentials(uri)} ({named})"
        return Finding("ok", "tracking", shown) if wrong is None else Finding("warn", "tracking", f"{shown}: {wrong}")
    kind, place = file_system(file.parent), f"SQLite ({named})" if named else "SQLite under the root"
    if kind.startswith(_NETWORK):
        advice = (
            f"{place}, {file}, is on {kind}, where its locks may not hold between machines: let one machine sync, or "
            "put it on a local disk (export LMK_STORE=/local/disk/mlflow.db), or use a server (`lmk serve --help`)"
        )
        return Finding("warn", "tracking", advice)
    return Finding("ok", "tracking", f"{place} ({file})")


def file_system(path: Path) -> str:
    """The kind of file system that ``path`` is on, such as ``ext4`` or ``nfs4``."""
    best = ("", "unknown")
    try:
        mounts = MOUNTS.read_text().splitlines()
    except OSError:
        return best[1]
    for line in mounts:
        _, escaped, kind, *_ = line.split()
        point = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), escaped)
        if path.is_relative_to(point) and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]


def fresh_folder(root: Path) -> Path:
    """A folder under the root for one probe."""
    folder = root / "probes" / uuid.uuid4().hex[:8]
    folder.mkdir(parents=True)
    return folder

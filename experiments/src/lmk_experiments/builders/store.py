"""Where generated data lies, how it gets there whole, and how a ``built:`` reference names it."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from lmk_experiments.builders import quickstart, small
from lmk_experiments.builders.fingerprints import content_fingerprint, remembered_fingerprint
from lmk_experiments.builders.quickstart import Built, Quickstart, Report, build_quickstart
from lmk_experiments.builders.small import Small, build_small
from lmk_experiments.datasets import data_identity, is_data_reference
from lmk_experiments.records.atomic import read_json, write_json

PREFIX = "built:"
MANIFEST = "BUILT.json"


class BuilderError(ValueError):
    """A ``built:`` reference or a builder's name is wrong; the message lists the valid ones."""


@dataclass(frozen=True, slots=True)
class Builder:
    """Something that fills a folder with data, from what is installed on this machine alone.

    Attributes:
        name: the first part of its references, as in ``built:NAME/train.jsonl``.
        outputs: the files and folders that it makes and that a reference may name or go below.
    """

    name: str
    title: str
    outputs: tuple[str, ...]
    fill: Callable[[Path, Report], Built]


def _quickstart(name: str, title: str, settings: Quickstart) -> Builder:
    return Builder(name, title, settings.outputs, lambda folder, report: build_quickstart(folder, settings, report))


def _small(name: str, title: str, settings: Small) -> Builder:
    return Builder(name, title, settings.outputs, lambda folder, report: build_small(folder, settings, report))


BUILDERS: Mapping[str, Builder] = {
    builder.name: builder
    for builder in (
        _quickstart("quickstart", "function search in installed packages", quickstart.FULL_SIZE),
        _quickstart("quickstart-tiny", "the same, a few hundred pairs and a toy model", quickstart.TINY),
        _small("small", "function search without shared words, documents of growing length", small.SMALL),
        _small("small-tiny", "the same, a few hundred pairs and a toy model", small.SMALL_TINY),
    )
}


def is_builtin_reference(text: str) -> bool:
    """Whether ``text`` names generated data, as ``built:quickstart/train.jsonl`` does."""
    return text.startswith(PREFIX)


def locate(reference: str, root: Path) -> Path:
    """The path that a reference stands for, whether it is built already or not.

    >>> locate("built:quickstart/train.jsonl", Path("runs")).as_posix()
    'runs/built/quickstart/train.jsonl'

    Raises:
        BuilderError: no reference, an unknown builder, or something that the builder doesn't make.
    """
    name, inside = _parse(reference)
    return root / "built" / name / inside


def fingerprint(reference: str, root: Path) -> str | None:
    """Hex SHA-256 of the content of a file or folder.

    A ``built:`` reference's is read from ``BUILT.json``; it is None until it is built. A local path's is computed once
    and remembered in ``root/fingerprints.json``; it is None where nothing is at the path, as for a model's hub name.
    Published data (``data:NAME``) gives its name and version instead, whether it is here or not.

    Raises:
        BuilderError: a wrong ``built:`` reference.
        ConfigError: a ``data:`` reference to what is not declared.
    """
    if is_data_reference(reference):
        return data_identity(reference)
    if not is_builtin_reference(reference):
        return remembered_fingerprint(Path(reference), root)
    name, inside = _parse(reference)
    manifest = _manifest(root / "built" / name)
    if manifest is None:
        return None
    found = manifest["fingerprints"].get(str(inside))
    if found is None:
        known = ", ".join(sorted(manifest["fingerprints"]))
        raise BuilderError(f"{reference}: {PREFIX}{name} holds no {str(inside)!r}; it holds {known}")
    return found


def build(name: str, root: Path, *, report: Report | None = None) -> Path:
    """Make ``root/built/NAME`` and return it; at once where it is made already.

    The data is made in a folder beside it, which is renamed when complete: a killed build never leaves a valid folder,
    and of two builds at once the second waits for the first, or, where files can't be locked, throws its own away.

    Args:
        report: called with a line of text at each step.

    Raises:
        BuilderError: an unknown name; or, as its parent ``ValueError``, too little is installed to build from.
    """
    builder = _builder(name)
    report = report or _say_nothing
    target = root / "built" / name
    if _manifest(target) is not None:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.with_name(f".{name}.lock")) as is_locked:
        if _manifest(target) is not None:
            return target
        prefix = f".{name}.{socket.gethostname()}."
        if is_locked:  # what lies here of this machine is of killed builds; another machine may not see the lock
            for left in target.parent.glob(f"{prefix}*"):
                shutil.rmtree(left, ignore_errors=True)
        working = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
        try:
            working.chmod(0o755)
            _fill(builder, working, report)
            _move(working, target)
        finally:
            shutil.rmtree(working, ignore_errors=True)
    return target


def _fill(builder: Builder, folder: Path, report: Report) -> None:
    built = builder.fill(folder, report)
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
    write_json(
        folder / MANIFEST,
        {
            "schema": 1,
            "name": builder.name,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": built.packages["python"],
            "packages": {key: version for key, version in built.packages.items() if version is not None},
            "missing": [key for key, version in built.packages.items() if version is None],
            "counts": built.counts,
            "fingerprints": {name: content_fingerprint(folder / name) for name in (".", *names)},
        },
    )


def _move(working: Path, target: Path) -> None:
    if target.exists() and _manifest(target) is None:  # damaged by hand: a rename never leaves it so
        shutil.rmtree(target)
    try:
        working.rename(target)
    except OSError:
        if _manifest(target) is None:
            raise


def _manifest(folder: Path) -> dict | None:
    return read_json(folder / MANIFEST)


def _builder(name: str) -> Builder:
    if name not in BUILDERS:
        raise BuilderError(f"nothing is built by the name of {name!r}; valid names: {', '.join(BUILDERS)}")
    return BUILDERS[name]


def _parse(reference: str) -> tuple[str, PurePosixPath]:
    if not is_builtin_reference(reference):
        raise BuilderError(f"{reference!r} is no reference to generated data; these begin with {PREFIX!r}")
    name, _, rest = reference.removeprefix(PREFIX).partition("/")
    if name not in BUILDERS:
        raise BuilderError(f"{reference}: unknown name {name!r}; valid: {', '.join(PREFIX + one for one in BUILDERS)}")
    inside = PurePosixPath(rest)
    if inside.is_absolute() or ".." in inside.parts:
        raise BuilderError(f"{reference}: '..' and a second '/' lead out of {PREFIX}{name}")
    outputs = BUILDERS[name].outputs
    if inside.parts and not any(
        inside.is_relative_to(output) or PurePosixPath(output).is_relative_to(inside) for output in outputs
    ):
        raise BuilderError(f"{reference}: valid: {', '.join(f'{PREFIX}{name}/{output}' for output in outputs)}")
    return name, inside


@contextlib.contextmanager
def locked(path: Path) -> Generator[bool]:
    """Hold a lock that ends with the process; yields False where the system or the file system has none."""
    with path.open("a") as stream:
        try:
            import fcntl

            fcntl.flock(stream, fcntl.LOCK_EX)
        except (ImportError, OSError):
            yield False
            return
        yield True


def _say_nothing(_line: str) -> None:
    pass

"""``data:NAME`` and ``data:NAME/part``: what they mean to an identity, and where they lie on this machine."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from lmk_experiments.datasets.declared import DataSet, load_data_set
from lmk_experiments.records.atomic import read_json

PREFIX = "data:"
MANIFEST = "DATA.json"
"""Written last into a data set's folder: ``{"name": ..., "version": ...}``."""
DATA_VARIABLE = "LMK_DATA"
"""The environment variable that names a folder of data sets, shared by several roots."""


MIRRORS = "mteb"
"""The folder beside the data sets that holds data of MTEB's own tasks, see ``lmk_eval.tasks.redirect``."""


class DataSetMissing(ValueError):
    """A named data set is not (or not whole) on this machine; the message says what to do."""


def is_data_reference(text: str) -> bool:
    """Whether ``text`` names published data, as ``data:msmarco-passage`` does."""
    return text.startswith(PREFIX)


def parse_reference(reference: str) -> tuple[str, PurePosixPath]:
    """The data set's name, and the part of it (``.`` is the whole).

    >>> parse_reference("data:bge-m3/en.jsonl")
    ('bge-m3', PurePosixPath('en.jsonl'))

    Raises:
        ValueError: a path that leads out of the data set.
    """
    name, _, rest = reference.removeprefix(PREFIX).partition("/")
    inside = PurePosixPath(rest)
    if inside.is_absolute() or ".." in inside.parts:
        raise ValueError(f"{reference}: '..' and a second '/' lead out of {PREFIX}{name}")
    return name, inside


def data_identity(reference: str) -> str:
    """What counts in an identity: name, version and part, never a path. Needs no data.

    Raises:
        ConfigError: no data set has this name.
    """
    name, inside = parse_reference(reference)
    whole = f"{name}@{load_data_set(name).version}"
    return f"{whole}/{inside}" if inside.parts else whole


def data_path(reference: str, root: Path) -> Path:
    """The file or folder of a reference, below ``$LMK_DATA`` or ``<root>/data``, whichever holds the data set.

    Raises:
        DataSetMissing: neither holds it, it is incomplete or of another version, or it has no such part.
    """
    name, inside = parse_reference(reference)
    declared = load_data_set(name)
    shared = os.environ.get(DATA_VARIABLE)
    places = [*([Path(shared).expanduser() / name] if shared else []), root / "data" / name]
    folder = next((place for place in places if place.exists()), None)
    if folder is None:
        looked = " nor ".join(map(str, places))
        raise DataSetMissing(f"{PREFIX}{name} is not here: there is no {looked}. {_how(declared, places[0])}")
    found = read_json(folder / MANIFEST)
    if not isinstance(found, dict):
        raise DataSetMissing(f"{PREFIX}{name} is not complete: {folder} has no {MANIFEST}. {_how(declared, folder)}")
    if (found.get("name"), str(found.get("version"))) != (declared.name, declared.version):
        other = f"{found.get('name')!r}, version {found.get('version')!r}"
        wanted = f"{declared.name!r}, version {declared.version!r}"
        raise DataSetMissing(f"{folder}/{MANIFEST} says {other}, but this is to be {wanted}")
    path = folder / inside
    if not path.exists():
        held = ", ".join(sorted(entry.name for entry in folder.iterdir() if entry.name != MANIFEST)) or "nothing"
        raise DataSetMissing(f"{reference}: {folder} holds no {str(inside)!r}; it holds: {held}")
    return path


def mirrors_folder(root: Path) -> Path | None:
    """Where data of MTEB's tasks lies that need not come from the hub: ``$LMK_DATA/mteb`` or ``<root>/data/mteb``."""
    shared = os.environ.get(DATA_VARIABLE)
    places = [*([Path(shared).expanduser()] if shared else []), root / "data"]
    return next((place / MIRRORS for place in places if (place / MIRRORS).is_dir()), None)


def data_files(reference: str, root: Path) -> list[Path]:
    """The files of a reference: itself, or all files of a folder but the manifest and hidden ones, sorted by name.

    Raises:
        DataSetMissing: as ``data_path``, or the folder holds no file.
    """
    path = data_path(reference, root)
    if path.is_file():
        return [path]
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and _is_data(file.relative_to(path))]
    if not files:
        raise DataSetMissing(f"{reference}: {path} holds no files")
    return files


def _is_data(inside: Path) -> bool:
    return inside.name != MANIFEST and not any(part.startswith(".") for part in inside.parts)


def _how(declared: DataSet, folder: Path) -> str:
    build = declared.build.strip()
    manifest = f'{{"name": "{declared.name}", "version": "{declared.version}"}}'
    # Our own command writes it.
    then = "" if "lmk data build" in build else f"Then write {manifest} to {folder / MANIFEST}. "
    return (
        f"Build it in {folder}: {build} (source: {declared.source.strip()}). "
        f"{then}{DATA_VARIABLE} may name another folder than <root>/data"
    )

"""A root's own database where the root was moved or copied: MLflow writes down the whole path of every artifact.

A moved root would have no artifacts any more, and a copy would write over those of its original.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path
from urllib.parse import unquote

from lmk_experiments.mirror.address import StoreError
from lmk_experiments.mirror.lock import locked
from lmk_experiments.mirror.models.place import link_or_copy
from lmk_experiments.mirror.store import ARTIFACTS, DATABASE, default_uri

_ADDRESSES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)
MODELS = "models"
"""Where MLflow keeps logged models, among the folders of an experiment's runs."""
_BRINGING = ".bringing."


def is_moved(root: Path, uri: str) -> bool:
    """Whether ``uri`` is the root's own database, and looks for artifacts where the root was once."""
    return bool(_strangers(root, uri))


def set_right(root: Path, uri: str, *, wait_seconds: float) -> list[str]:
    """Let a root's own database look for its artifacts where the root is now, and bring those that are not there.

    Needs the root's lock of a sync: what others write meanwhile would go to the old place.

    Returns:
        What was done; nothing where all was right.

    Raises:
        StoreError: it cannot be done now.
        LockedError: another process is at the database.
    """
    file, artifacts = root / DATABASE, root / ARTIFACTS
    if not _strangers(root, uri):
        return []
    with locked(file.with_name(f"{file.name}.lock"), wait_seconds=wait_seconds):
        before = _strangers(root, uri)
        try:
            for address in before:
                _bring(_folder(address), artifacts)
            with contextlib.closing(sqlite3.connect(file)) as database, database:
                for address in before:
                    _rewrite(database, address, artifacts.as_uri())
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"{file} still looks for artifacts in {', '.join(before)}, and that cannot be set right now: {error}. "
                "The records are complete; run it again to go on"
            ) from error
    places = [str(_folder(one).parent) for one in before]
    return [f"{root} was at {place} before: its artifacts are looked for where it is now" for place in places]


def _strangers(root: Path, uri: str) -> list[str]:
    """The places of artifacts in the root's own database, but for that of the root as it is now, by whatever path.

    None where the database cannot be read, which whoever opens it says.
    """
    file, artifacts = root / DATABASE, root / ARTIFACTS
    if uri != default_uri(root) or not file.exists():
        return []
    try:
        with contextlib.closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as database:
            places = [str(one) for (one,) in database.execute("SELECT DISTINCT artifact_location FROM experiments")]
    except sqlite3.Error:
        return []
    own = [one for one in places if one.startswith(("file:///", "/")) and one.endswith(f"/{ARTIFACTS}")]
    return [one for one in own if one != artifacts.as_uri() and not _is_here(one, artifacts)]


def _bring(source: Path, artifacts: Path) -> None:
    """Copy what runs and logged models have at the old place alone; weights as hard links where that is possible."""
    for left in (*artifacts.glob(f"{_BRINGING}*"), *artifacts.glob(f"{MODELS}/{_BRINGING}*")):
        shutil.rmtree(left)
    for folder in sorted((*source.glob("*/"), *source.glob(f"{MODELS}/*/"))):
        target = artifacts / folder.relative_to(source)
        if folder.name != MODELS and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            draft = target.with_name(f"{_BRINGING}{target.name}")
            shutil.copytree(folder, draft, copy_function=link_or_copy)
            draft.replace(target)


def _rewrite(database: sqlite3.Connection, before: str, now: str) -> None:
    for table, column in _ADDRESSES:
        if database.execute("SELECT 1 FROM pragma_table_info(?) WHERE name = ?", (table, column)).fetchone() is None:
            continue  # of an older schema
        database.execute(
            f"UPDATE {table} SET {column} = :now || substr({column}, length(:before) + 1)"  # noqa: S608
            f" WHERE {column} = :before OR substr({column}, 1, length(:before) + 1) = :before || '/'",
            {"now": now, "before": before},
        )


def _is_here(address: str, artifacts: Path) -> bool:
    with contextlib.suppress(OSError):
        return _folder(address).samefile(artifacts)
    return False


def _folder(address: str) -> Path:
    return Path(unquote(address.removeprefix("file://")))

"""A root's own database where the root was moved or copied: MLflow writes down the whole path of every artifact."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from urllib.parse import unquote

_ADDRESSES = (("experiments", "artifact_location"), ("runs", "artifact_uri"), ("logged_models", "artifact_location"))


def set_right(file: Path, artifacts: Path) -> str | None:
    """Let a root's own database look for its artifacts where the root is now, and no longer where it was.

    Else a moved root has no artifacts, and a copy writes over those of its original. Needs the file's lock.

    Args:
        file: with the schema of the MLflow that is installed.
        artifacts: the folder of the root's artifacts.

    Returns:
        What was done, or ``None`` where all was right.
    """
    now, done = artifacts.as_uri(), []
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(file)) as database, database:
        places = [one for (one,) in database.execute("SELECT DISTINCT artifact_location FROM experiments")]
        for before in places:
            if not str(before).endswith(f"/{artifacts.name}") or before == now or _is_here(before, artifacts):
                continue
            for table, column in _ADDRESSES:
                database.execute(
                    f"UPDATE {table} SET {column} = :now || substr({column}, length(:before) + 1)"  # noqa: S608
                    f" WHERE {column} = :before OR substr({column}, 1, length(:before) + 1) = :before || '/'",
                    {"now": now, "before": before},
                )
            done.append(str(_folder(before).parent))
    if not done:
        return None
    return f"{file.parent} was at {', '.join(done)} before: its artifacts are looked for where it is now"


def _is_here(address: str, artifacts: Path) -> bool:
    """Whether it is the same folder by another path."""
    with contextlib.suppress(OSError):
        return _folder(address).samefile(artifacts)
    return False


def _folder(address: str) -> Path:
    return Path(unquote(address.removeprefix("file://")))

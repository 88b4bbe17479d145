"""Which root a run is of: an identity that a root keeps when it moves, and a copy of it does not share."""

from __future__ import annotations

import contextlib
import json
import os
import re
import uuid
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from lmk_experiments.records.atomic import read_json, write_json
from lmk_experiments.records.tickets import user_name

FILE = "root.json"
PREFIX = "LMK_EXPERIMENT_PREFIX"
"""The variable with what the names of experiments begin with."""

_PREFIX = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)*", re.ASCII)
_LONGEST_PREFIX = 100


@dataclass(frozen=True)
class RootIdentity:
    """What ``<root>/root.json`` says.

    Attributes:
        id: drawn at random once; the tag ``lmk.root_id`` of every run of this root.
        path: where the root was when it was last looked at, and
        user: whose it was: both tell a root that was moved from a copy.
        adopts: whether it was mirrored before roots had identities, so that runs with its path may be its own.
        adopted: the stores, by their addresses, in which that was settled.
        prefixes: what the names of its experiments begin with, by the address of a store.
    """

    id: str
    path: str
    user: str
    adopts: bool = False
    adopted: tuple[str, ...] = ()
    prefixes: dict[str, str] = field(default_factory=dict)

    def save(self, root: Path) -> None:
        """Write it to ``<root>/root.json``."""
        write_json(root / FILE, asdict(self))

    def with_adopted(self, address: str) -> RootIdentity:
        """The same, where the store at ``address`` has been looked through."""
        return replace(self, adopted=(*self.adopted, address))

    def with_prefix(self, address: str, prefix: str) -> RootIdentity:
        """The same, with this prefix in the store at ``address``."""
        return replace(self, prefixes={**self.prefixes, address: prefix})


def root_identity(root: Path) -> RootIdentity:
    """The identity of ``root``, made where it has none; any number of processes may ask at once.

    A root that was copied gets one of its own: the path in the file still holds the original, or the file is of another
    user and the original is out of sight. A root that was moved, or is seen under another path, keeps its own.

    Raises:
        ValueError: the file cannot be read.
        OSError: it cannot be written.
    """
    root = root.resolve()
    held = _read(root)
    if held is None:
        return _make(root)
    if held.path == str(root):
        return held
    before = Path(held.path)
    with contextlib.suppress(OSError):
        if before.samefile(root):
            return held
    original = _read(before) if before.is_dir() else None
    if (original is not None and original.id == held.id) or (original is None and held.user != user_name()):
        fresh = replace(_new(root), adopts=False)
        fresh.save(root)
        return fresh
    moved = replace(held, path=str(root))
    moved.save(root)
    return moved


def checked_prefix(prefix: str) -> str:
    """What the experiments' names begin with, before a slash; empty for nothing.

    Raises:
        ValueError: something else than words of letters, digits and ``_ . -``, with slashes between them.

    >>> checked_prefix("group/ada")
    'group/ada'
    """
    if prefix and (_PREFIX.fullmatch(prefix) is None or len(prefix) > _LONGEST_PREFIX):
        raise ValueError(
            f"{prefix!r} cannot begin the names of experiments ({PREFIX}, --experiment-prefix); valid: letters, digits "
            f"and _ . -, words of them with / between, {_LONGEST_PREFIX} characters at most, such as group/ada"
        )
    return prefix


def prefix_in_use(root: Path, key: str, identity: RootIdentity) -> tuple[str, RootIdentity]:
    """The prefix in use in the store ``key``: that of the environment, else the one that was last used there.

    It is remembered, so that a shell or a node without the variable makes no second set of runs.
    """
    told = os.environ.get(PREFIX)
    held = identity.prefixes.get(key, "")
    if told is None or checked_prefix(told) == held:
        return held, identity
    identity = identity.with_prefix(key, told)
    identity.save(root)
    return told, identity


def _new(root: Path) -> RootIdentity:
    mirrored = next(root.glob("*/*/mlflow.json"), None) is not None
    return RootIdentity(uuid.uuid4().hex, str(root), user_name(), adopts=mirrored)


def _make(root: Path) -> RootIdentity:
    """Linked into place whole: of several processes one makes it, and the others read that one."""
    root.mkdir(parents=True, exist_ok=True)
    fresh = _new(root)
    draft = root / f".{FILE}.{fresh.id}"
    try:
        draft.write_text(json.dumps(asdict(fresh), indent=2) + "\n", encoding="utf-8")
        os.link(draft, root / FILE)
    except FileExistsError:
        pass
    except OSError:
        # A file system without hard links: of two at the same moment the later one stays, and a sync reads it again.
        if not (root / FILE).exists():
            draft.replace(root / FILE)
    finally:
        draft.unlink(missing_ok=True)
    return _read(root) or fresh


def _read(root: Path) -> RootIdentity | None:
    path = root / FILE
    value = read_json(path)
    if value is None:
        return None
    try:
        return RootIdentity(
            str(value["id"]),
            str(value["path"]),
            str(value["user"]),
            bool(value.get("adopts", False)),
            tuple(map(str, value.get("adopted", ()))),
            {str(store): str(prefix) for store, prefix in dict(value.get("prefixes", {})).items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ValueError(
            f"{path} is damaged: it names the runs of this root in MLflow. Bring it back from a backup, or delete it: "
            "the next `lmk sync` makes a new one, and new runs on a shared server"
        ) from None

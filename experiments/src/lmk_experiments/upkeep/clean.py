"""What a grid's cells hold that is not needed any more. Final weights, records and scores always stay."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmk_experiments.jobs.evaluate import TOKENS, tokens_folder
from lmk_experiments.jobs.shares import FOLDER as SHARES
from lmk_experiments.jobs.shares import shares_of
from lmk_experiments.mirror.models import held_by_mlflow
from lmk_experiments.records import Cell, ClaimedElsewhere, GridRecord, list_cells, training_cell
from lmk_experiments.records.claim import claimed, heartbeat, read_claim

_DAY = 86400.0
_CHECKPOINTS = {"checkpoints": "checkpoints with the optimizer's state"}
_FOLDERS = {
    "pretraining": _CHECKPOINTS,
    "training": _CHECKPOINTS,
    "evaluation": {"results": "MTEB's own result files", "embeddings": "embeddings", SHARES: "records of shares"},
    "analysis": {"evaluations": "evaluations that a figure was made of"},
}
"""Folders of a cell that go, and what they are: the model, per-query scores and every JSON file are not among them."""


@dataclass(frozen=True)
class Leftover:
    """Something that can be deleted; ``size`` is what that frees, in bytes: hard links free nothing."""

    cell: Cell
    path: Path
    what: str
    size: int
    users: tuple[Path, ...] = ()
    """Further folders of cells that may be working with it."""


@dataclass(frozen=True)
class Kept:
    """A cell or a path that is left alone, and why."""

    name: str
    reason: str


def find_leftovers(
    root: Path, grid: GridRecord, *, unfinished: bool = False, log_days: float = 7.0
) -> tuple[list[Leftover], list[Kept]]:
    """What can go of a grid's cells, and what was left alone that could have gone.

    Args:
        unfinished: also of cells that are not done; they start again from nothing. Never of one that somebody is
            working on.
        log_days: logs of at least this age go, in days.
    """
    found: list[Leftover] = []
    kept: list[Kept] = []
    for kind, cell in _cells(root, grid):
        users = _users(cell)
        mine, linked = _leftovers(kind, cell, log_days, users)
        reason = _at_work((cell.folder, *users))
        if not reason and cell.done() is None and not unfinished:
            reason = "it is not finished"
        if not reason:
            found += mine
            kept += linked
        elif mine:
            kept.append(Kept(f"{kind} {cell.id}", f"{reason} ({format_bytes(sum(one.size for one in mine))})"))
    tokens, needed = _tokens(root, grid, unfinished=unfinished)
    return found + tokens, kept + needed


def delete(leftovers: Sequence[Leftover]) -> tuple[int, list[Kept]]:
    """Delete them; a cell that somebody took up meanwhile is left alone. Returns the bytes freed and what was left."""
    freed, kept = 0, []
    groups: dict[tuple[Path, ...], list[Leftover]] = {}
    for one in leftovers:
        groups.setdefault((one.cell.folder, *one.users), []).append(one)
    for folders, group in groups.items():
        try:
            with contextlib.ExitStack() as claims:
                for folder in folders:
                    claims.enter_context(claimed(folder))
                for one in group:
                    _remove(one.path)
                    freed += one.size
        except (ClaimedElsewhere, OSError) as error:
            kept.append(Kept(group[0].cell.id, str(error)))
    return freed, kept


def format_bytes(size: int) -> str:
    """A size for people.

    >>> format_bytes(812), format_bytes(3_400_000)
    ('812 B', '3.4 MB')
    """
    value, unit = float(size), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"


def _cells(root: Path, grid: GridRecord) -> Iterator[tuple[str, Cell]]:
    """Every cell of the grid that has a folder, once."""
    cells = dict.fromkeys((one.kind, one.cell) for one in list_cells(grid, root))
    return ((kind, cell) for kind, cell in cells if (cell.folder / "cell.json").is_file())


def _users(cell: Cell) -> tuple[Path, ...]:
    """The folders of an evaluation's shares: who works on one needs the evaluation's embeddings."""
    return tuple(share.folder for share in shares_of(cell.folder))


def _at_work(folders: Sequence[Path]) -> str:
    """Who is working on one of these cells, in words; nothing where nobody is."""
    for folder in folders:
        claim = read_claim(folder / "claim.json")
        if claim is not None and claim.alive(heartbeat(folder)):
            return f"process {claim.pid} on {claim.host} is working on it"
    return ""


def _tokens(root: Path, grid: GridRecord, *, unfinished: bool) -> tuple[list[Leftover], list[Kept]]:
    """Tokens that readings of the grid's trainings have left, whichever grid the readings belong to.

    The last job of a group of readings removes them; they stay where one has failed and was never done again.
    """
    found: list[Leftover] = []
    kept: list[Kept] = []
    readings = list(_readings(root))
    for training in dict.fromkeys(training.id for training in grid.trainings):
        for path in sorted((root / TOKENS).glob(f"{training}-*")):
            cells = [cell for cell, place in readings if place == path]
            users = tuple(folder for cell in cells for folder in (cell.folder, *_users(cell)))
            size = _size(path)
            reason = _at_work(users)
            if not reason and not unfinished and any(cell.done() is None for cell in cells):
                reason = "a reading that needs them is not finished"
            if reason:
                kept.append(Kept(f"{TOKENS}/{path.name}", f"{reason} ({format_bytes(size)})"))
            elif path.is_symlink():
                kept.append(Kept(f"{TOKENS}/{path.name}", "it is a link to another place"))
            else:
                found.append(Leftover(training_cell(root, training), path, "tokens of texts", size, users))
    return found, kept


def _readings(root: Path) -> Iterator[tuple[Cell, Path]]:
    """Every evaluation of a root with the folder that its tokens would be in."""
    for path in sorted((root / "evaluations").glob("*/cell.json")):
        cell = Cell(path.parent)
        with contextlib.suppress(ValueError, KeyError, TypeError):  # what it is cannot be read: it needs nothing
            yield cell, tokens_folder(root, cell.config)


def _leftovers(kind: str, cell: Cell, log_days: float, users: tuple[Path, ...]) -> tuple[list[Leftover], list[Kept]]:
    found, kept = [], []
    wanted = [(cell.folder / name, what) for name, what in _FOLDERS[kind].items()]
    if cell.done() is not None:  # the shares of what is done say what it cost; else they would speak of vectors that go
        wanted = [(path, what) for path, what in wanted if path.name != SHARES]
    # A model that is being replaced is whole under its draft's name for a moment: only beside a model is that a draft.
    if kind in ("evaluation", "analysis") or (cell.folder / "model").is_dir():
        wanted += [(path, "half-written file") for path in sorted(cell.folder.glob(".*"))]
    logs = [path for folder in (cell.folder, *users) for path in sorted((folder / "logs").glob("*"))]
    wanted += [(path, "log") for path in logs if time.time() - path.lstat().st_mtime >= log_days * _DAY]
    for path, what in wanted:
        if path.is_symlink():
            kept.append(Kept(f"{cell.id}/{path.relative_to(cell.folder)}", "it is a link to another place"))
        elif path.exists():
            found.append(Leftover(cell, path, what, _size(path), users))
    return found, kept


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    facts = (file.lstat() for file in files if not file.is_dir() or file.is_symlink())
    return sum(fact.st_size for fact in facts if fact.st_nlink == 1)


def logged_models(root: Path, grid: GridRecord) -> tuple[int, int]:
    """How many of the grid's models a store of MLflow holds too, and the bytes that are hard links to its files.

    Neither is freed by deleting the cell.
    """
    cells = [training_cell(root, identity) for identity in dict.fromkeys(training.id for training in grid.trainings)]
    logged = [cell.folder / "model" for cell in cells if held_by_mlflow(cell) is not None]
    facts = (file.stat() for folder in logged for file in folder.rglob("*") if file.is_file())
    return len(logged), sum(fact.st_size for fact in facts if fact.st_nlink > 1)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

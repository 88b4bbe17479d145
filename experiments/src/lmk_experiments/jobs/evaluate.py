"""The job of evaluation cells: several readings of one checkpoint in one process."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lmk_experiments.datasets import mirrors_folder
from lmk_experiments.errors import WorkFailed
from lmk_experiments.jobs.references import real_suite
from lmk_experiments.jobs.shares import Share
from lmk_experiments.jobs.startup import quick_imports, quiet_progress
from lmk_experiments.jobs.work import work_on
from lmk_experiments.records import Cell, CellError, CellRecorder, training_cell

TOKENS = "tokens"
"""Of the root: holds the tokens that readings of one training share, until all of them are done."""


class EvaluationsFailed(WorkFailed):
    """Some evaluations of a job failed; each one's cell holds its reason."""


def run_evaluations(folders: str) -> None:
    """Evaluate the cells in ``folders`` unless they are done: the function of an evaluation job.

    Readings of one training on one suite come one behind the other, and the later ones find their texts tokenized.

    Args:
        folders: cell folders joined by ``os.pathsep``, as in ``PATH``.

    Raises:
        EvaluationsFailed: at least one failed; the others were tried all the same.
    """
    cells = [Cell(Path(folder)) for folder in folders.split(os.pathsep)]
    failed: list[str] = []
    for tokens, together in _together(cells):
        for cell in together:
            failed += _tried(cell, lambda cell=cell, tokens=tokens: _run_evaluation(cell, tokens))
        if tokens is not None and all(cell.done() is not None for cell in together):
            shutil.rmtree(tokens, ignore_errors=True)
    _raise(failed, f"of {len(cells)} evaluations")


def run_shares(folders: str) -> None:
    """Encode the shares in ``folders`` unless they are done, and score nothing: the function of a share's job.

    What is encoded already, shard by shard, is not encoded again: a job that was killed goes on where it was.

    Args:
        folders: of shares of several readings of one training, joined by ``os.pathsep``.

    Raises:
        EvaluationsFailed: at least one failed; the others were tried all the same.
    """
    shares = {share.evaluation: share for share in (Share(Path(folder)) for folder in folders.split(os.pathsep))}
    failed: list[str] = []
    for tokens, together in _together(list(shares)):
        for cell in together:
            failed += _tried(cell, lambda cell=cell, tokens=tokens: _run_share(shares[cell], tokens))
    _raise(failed, f"of {len(shares)} shares")


def _tried(cell: Cell, work: Callable[[], None]) -> list[str]:
    """Do the work for a cell. What goes wrong is returned: it is in the cell's records, and others need not wait."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 - told when all were tried
        traceback.print_exc()
        return [f"{cell.id}: {error}"]
    return []


def _raise(failed: list[str], of: str) -> None:
    if failed:
        raise EvaluationsFailed(f"{len(failed)} {of} failed: {'; '.join(failed)}")


def tokens_folder(root: Path, config: Mapping[str, Any]) -> Path:
    """Where readings of one training on one suite keep their texts' tokens.

    Args:
        config: of an evaluation.

    Raises:
        KeyError, TypeError: it is not one.
    """
    suite = json.dumps([config["suite"], config["max_length"]], sort_keys=True)
    return root / TOKENS / f"{config['training']}-{hashlib.sha256(suite.encode()).hexdigest()[:12]}"


def _together(cells: list[Cell]) -> Iterator[tuple[Path | None, list[Cell]]]:
    """The cells in groups of one training and one suite, and where a group keeps its tokens.

    A cell alone keeps none, but finds those that others have left. One that can't be read is a group of its own: it
    fails when it is run, and no other does.
    """
    groups: dict[Any, tuple[Path | None, list[Cell]]] = {}
    for cell in cells:
        try:
            place = tokens_folder(cell.root, cell.config)
            groups.setdefault(place, (place, []))[1].append(cell)
        except (ValueError, KeyError, TypeError):
            groups[cell.folder] = (None, [cell])
    for place, together in groups.values():
        kept = place is not None and (len(together) > 1 or place.is_dir())
        yield (place if kept else None), together


def _run_evaluation(cell: Cell, tokens: Path | None) -> None:
    work_on(cell, lambda recorder: {"scores": _evaluate(cell, recorder, tokens)})


def _run_share(share: Share, tokens: Path | None) -> None:
    def work(recorder: CellRecorder) -> dict[str, Any]:
        if share.evaluation.done() is None:
            _evaluate(share.evaluation, recorder, tokens, share.part)
        return {}

    work_on(share.made(), work)


def _evaluate(
    cell: Cell, recorder: CellRecorder, tokens: Path | None, share: tuple[int, int] | None = None
) -> dict[str, dict[str, float]]:
    with quick_imports():
        import torch

        from lmk_core.pooling import PoolingConfig
        from lmk_eval import Settings, evaluate
        from lmk_eval.suites import Suite
    quiet_progress()

    config = cell.config
    training = training_cell(cell.root, config["training"])
    done = training.done()
    if done is None:
        raise CellError(f"{training.folder} is not done, so there is nothing to evaluate yet")
    gpus = torch.cuda.device_count() if share is None else min(1, torch.cuda.device_count())
    device = torch.cuda.get_device_name() if gpus else "cpu"
    recorder.event("start", device=device, processes=max(1, gpus), torch=str(torch.__version__))
    return evaluate(
        training.folder / done["model"],
        Suite.model_validate(real_suite(config["suite"], cell.root)),
        folder=cell.folder,
        name=f"lmk/{training.id}",
        revision=cell.id,
        max_length=config["max_length"],
        pooling=PoolingConfig.from_dict(config["pooling"]),
        recorder=recorder,
        settings=Settings(
            mirrors=mirrors_folder(cell.root),
            tokens=tokens,
            storage=config.get("storage", "float32"),
            weights=config.get("weights", "float32"),
            share=share,
        ),
    )

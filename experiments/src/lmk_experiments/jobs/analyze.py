"""The job of an analysis cell: several models, or none, some texts, and a figure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmk_experiments.builders import fingerprint
from lmk_experiments.datasets import data_files, is_data_reference, mirrors_folder
from lmk_experiments.fetch import require_model
from lmk_experiments.jobs.references import real
from lmk_experiments.jobs.startup import quick_imports, quiet_progress
from lmk_experiments.jobs.work import work_on
from lmk_experiments.records import Cell, CellError, CellRecorder, read_json, training_cell

if TYPE_CHECKING:
    from lmk_eval.analyses import Analysis, Series

WORK = "evaluations"
"""Of an analysis's folder: what `position` has evaluated, so that it goes on where it was stopped."""
Make = Callable[[dict[str, Any], "list[Series]", Cell, CellRecorder], "Analysis"]


def run_analysis(folder: str) -> None:
    """Make the figure of the cell in ``folder`` unless it is done: the function of an analysis job.

    Of the kinds only ``position`` goes on where it was stopped; the others start again, for they take minutes.
    """
    cell = Cell(Path(folder))
    work_on(cell, lambda recorder: _analyse(cell, recorder))


def _analyse(cell: Cell, recorder: CellRecorder) -> dict[str, Any]:
    with quick_imports():
        import torch

        from lmk_eval.analyses import write_analysis
        from lmk_eval.analyses.figures import summary_metrics
    quiet_progress()
    config = cell.config
    gpu = torch.cuda.is_available()
    device = torch.cuda.get_device_name() if gpu else "cpu"
    recorder.event("start", device=device, processes=1, torch=str(torch.__version__))
    series = [_series(one, config, cell) for one in config["series"]]
    kind = config["analysis"]
    analysis = _MAKERS[kind](config["options"], series, cell, recorder)
    *_, last = write_analysis(analysis, cell.folder)
    files = {**(read_json(last) or {})["files"], last.name: hashlib.sha256(last.read_bytes()).hexdigest()}
    summary = [dict(line) for line in analysis.summary]
    return {"analysis": kind, "files": files, "summary": summary, "metrics": summary_metrics(summary)}


def _series(said: dict[str, Any], config: dict[str, Any], cell: Cell) -> Series:
    """A model, ready.

    Raises:
        CellError: its training is not done.
        ModelMissing: it is on the hub, and this machine has no network.
    """
    from lmk_core import Embedder, PoolingConfig
    from lmk_eval.analyses import Series
    from lmk_experiments.grids.identity import revision

    pooling = None if said["pooling"] is None else PoolingConfig.from_dict(said["pooling"])
    if "training" in said:
        training = training_cell(cell.root, said["training"])
        done = training.done()
        if done is None:
            raise CellError(f"{training.folder} is not done, so there is nothing to analyse yet")
        path, where, weights = training.folder / done["model"], said["training"], said["training"]
        embedder = Embedder.from_pretrained(path, pooling)
    else:
        where = said["model"]
        require_model(where, said["revision"])
        embedder = Embedder.from_pretrained(real(where, cell.root), pooling, revision=said["revision"])
        weights = f"{fingerprint(where, cell.root) or where}@{said['revision']}"
    length = config["options"].get("max_length")
    known = revision(weights, embedder.pooling, length if isinstance(length, int) else 0)
    return Series(said["name"], embedder, where, known)


def _texts(options: dict[str, Any], source: Any, root: Path) -> Iterator[str]:
    """The texts of a source: a file, a folder, a reference, or a task of MTEB."""
    from lmk_experiments.texts import Source

    if not isinstance(source, str):
        from lmk_eval.suites import Task
        from lmk_eval.tasks import task_documents

        yield from task_documents(Task.model_validate(source), mirrors_folder(root))
        return
    keys = tuple(key.strip() for key in options["text_key"].split(","))
    paths = data_files(source, root) if is_data_reference(source) else [Path(real(source, root))]
    for path in paths:
        yield from Source(path.name, path, keys).texts()


def _attention(options: dict[str, Any], series: list[Series], cell: Cell, recorder: CellRecorder) -> Analysis:
    from lmk_eval.analyses import analyse_attention

    length = options["max_length"]
    return analyse_attention(
        series,
        _texts(options, options["texts"], cell.root),
        [length] if isinstance(length, int) else length,
        by=options["by"],
        bins=options["bins"],
        documents=options["documents"],
        min_tokens=options["min_tokens"],
        layer=options["layer"],
        seed=options["seed"],
        recorder=recorder,
    )


def _lengths(options: dict[str, Any], _: list[Series], cell: Cell, recorder: CellRecorder) -> Analysis:
    from lmk_eval.analyses import analyse_lengths
    from lmk_experiments.grids.analyses.load import name_of
    from lmk_experiments.texts import open_tokenizer

    texts = options["texts"]
    several = isinstance(texts, dict) and "mteb" not in texts
    named = texts if several else {name_of(texts) if isinstance(texts, str) else texts["name"]: texts}
    require_model(options["tokenizer"], None)
    return analyse_lengths(
        {name: _texts(options, source, cell.root) for name, source in named.items()},
        open_tokenizer(real(options["tokenizer"], cell.root)),
        options["max_lengths"],
        limit=options["limit"],
        recorder=recorder,
    )


def _landmarks(options: dict[str, Any], series: list[Series], cell: Cell, recorder: CellRecorder) -> Analysis:
    from lmk_eval.analyses import analyse_landmarks

    return analyse_landmarks(
        series,
        _texts(options, options["texts"], cell.root),
        k=options["k"],
        min_chunks=options["min_chunks"],
        max_chunks=options["max_chunks"] or options["min_chunks"],
        max_length=options["max_length"],
        documents=options["documents"],
        seed=options["seed"],
        recorder=recorder,
    )


def _position(options: dict[str, Any], series: list[Series], cell: Cell, recorder: CellRecorder) -> Analysis:
    from lmk_eval.analyses import analyse_position

    return analyse_position(
        series,
        real(options["folder"], cell.root),
        split=options["split"],
        position_key=options["position_key"],
        bins=options["bins"],
        max_length=options["max_length"],
        work=cell.folder / WORK,
        recorder=recorder,
    )


def _geometry(options: dict[str, Any], series: list[Series], cell: Cell, recorder: CellRecorder) -> Analysis:
    from lmk_eval.analyses import analyse_geometry

    texts = _texts(options, options["texts"], cell.root)
    return analyse_geometry(series, texts, max_length=options["max_length"], limit=options["limit"], recorder=recorder)


def _cost(options: dict[str, Any], series: list[Series], cell: Cell, recorder: CellRecorder) -> Analysis:
    from lmk_eval.analyses import analyse_cost

    return analyse_cost(
        series,
        _texts(options, options["texts"], cell.root),
        options["granularity"],
        max_length=options["max_length"],
        limit=options["limit"],
        rounds=options["rounds"],
        recorder=recorder,
    )


_MAKERS: dict[str, Make] = {
    "attention": _attention,
    "cost": _cost,
    "geometry": _geometry,
    "landmarks": _landmarks,
    "lengths": _lengths,
    "position": _position,
}

"""What a path in a YAML file has to lead to: seen when a grid is planned, not hours later when a cell opens it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lmk_experiments.grids.identity import is_local

PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")
"""Weights that are not read: they are programs, or another library's."""
_SHOWN = 12


def check_suite_folder(folder: Path, split: str) -> None:
    """See that ``folder`` has the BEIR layout with this split.

    Raises:
        ValueError: what is missing, and what is there instead.
    """
    expected = f"a suite's folder holds corpus.jsonl, queries.jsonl and qrels/{split}.tsv"
    if not folder.is_dir():
        raise ValueError(f"{folder} is a file; {expected}")
    missing = [name for name in ("corpus.jsonl", "queries.jsonl") if not (folder / name).is_file()]
    if missing:
        raise ValueError(f"{folder} has no {' and no '.join(missing)}; {expected}; it holds: {_held(folder)}")
    if not (folder / "qrels").is_dir():
        raise ValueError(f"{folder} has no folder qrels; {expected}; it holds: {_held(folder)}")
    if not (folder / "qrels" / f"{split}.tsv").is_file():
        splits = _listed(path.stem for path in (folder / "qrels").glob("*.tsv"))
        raise ValueError(f"{folder} has no qrels/{split}.tsv; splits that are there: {splits}")


def check_labels_folder(folder: Path, split: str) -> None:
    """See that ``folder`` holds labelled texts to learn from and of this split.

    Raises:
        ValueError: what is missing, and what is there instead.
    """
    expected = f"a folder of labelled texts holds train.jsonl and {split}.jsonl"
    if not folder.is_dir():
        raise ValueError(f"{folder} is a file; {expected}")
    missing = [name for name in ("train.jsonl", f"{split}.jsonl") if not (folder / name).is_file()]
    if missing:
        raise ValueError(f"{folder} has no {' and no '.join(missing)}; {expected}; it holds: {_held(folder)}")


def check_text_file(file: Path, _: str) -> None:
    """See that ``file`` is a file that holds something.

    Raises:
        ValueError: it is a folder, or empty.
    """
    if not file.is_file():
        raise ValueError(f"{file} is a folder; a file of long text is expected")
    if not file.stat().st_size:
        raise ValueError(f"{file} is empty; a file of long text is expected")


def check_rows(path: Path) -> None:
    """See that ``path`` is a file of rows or a folder of them, and that none is empty.

    Raises:
        ValueError: a folder holds none, or a file has another ending or is empty.
    """
    from lmk_train.data.reading import data_files

    for file in data_files(path):
        if file.suffix in (".jsonl", ".json"):
            check_texts_file(file)
        elif not file.stat().st_size:
            raise ValueError(f"{file} is empty; rows are expected")


def check_texts_file(file: Path) -> None:
    """See that ``file`` is a file with lines.

    Raises:
        ValueError: it is a folder, or is empty.
    """
    if not file.is_file():
        inside = f"; it holds: {_held(file)}" if file.is_dir() else ""
        raise ValueError(f"{file} is a folder; a file with one JSON object a line is expected{inside}")
    with file.open("rb") as stream:
        if not any(line.strip() for line in stream):
            raise ValueError(f"{file} is empty; a file with one JSON object a line is expected")


def check_model_folder(folder: Path) -> None:
    """See that ``folder`` holds a model whose weights are read: ``config.json`` and ``*.safetensors``.

    Raises:
        ValueError: what is missing, and what is there instead.
    """
    expected = "a model's folder holds config.json and its weights as *.safetensors"
    if not folder.is_dir():
        raise ValueError(f"{folder} is a file; {expected}")
    if not (folder / "config.json").is_file():
        raise ValueError(f"{folder} has no config.json; {expected}; it holds: {_held(folder)}")
    if any(folder.glob("*.safetensors")):
        return
    pickled = [path.name for path in folder.iterdir() if path.suffix in PICKLED]
    if pickled:
        raise ValueError(
            f"{folder} has no *.safetensors, and {_listed(pickled)} is refused: pickled weights can run any program; "
            "save them as safetensors"
        )
    raise ValueError(f"{folder} has no *.safetensors; {expected}; it holds: {_held(folder)}")


def _held(folder: Path) -> str:
    return _listed(path.name for path in folder.iterdir())


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    rest = f", ... ({len(ordered)} in all)" if len(ordered) > _SHOWN else ""
    return (", ".join(ordered[:_SHOWN]) or "nothing") + rest


def refuse_missing_path(option: str, name: str) -> None:
    """What looks like a path and is none is not looked for on the hub.

    Raises:
        ValueError: naming the option, or the argument where ``option`` is empty.
    """
    looks_so = is_local(name) or name.endswith("/") or name.count("/") > 1 or "\\" in name
    if looks_so and not Path(name).expanduser().exists():
        said = f"{option} {name}" if option else name
        raise ValueError(f"{said}: there is no such folder here (a model of the hub is written NAME or OWNER/NAME)")

"""An analysis as files in a folder: PNG, SVG, CSV and JSON."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from lmk_eval.analyses.figures.place import check_folder
from lmk_eval.analyses.figures.result import Analysis, Row
from lmk_eval.analyses.figures.style import print_style


def write_analysis(analysis: Analysis, folder: str | Path) -> list[Path]:
    """Write ``<kind>.png``, ``.svg``, ``.csv`` (one a table) and ``.json``, each whole or not at all.

    Everything is made before the first byte is written, so that an error leaves what was there. The JSON file goes
    first and comes back last, with the digests of the others: where it is, the set is whole.

    Args:
        analysis: what was found.
        folder: where to; made where it is missing. Other files in it stay.

    Returns:
        The files, the JSON one last.

    Raises:
        AnalysisError: if the folder is a file.
        ValueError: if a number is not finite.
    """
    folder = Path(folder)
    check_folder(folder)
    made = {f"{analysis.kind}{ending}": data for ending, data in _drawn(analysis).items()}
    for name, rows in analysis.tables.items():
        made[f"{analysis.kind}{'-' if name else ''}{name}.csv"] = _table(rows)
    record = {
        "analysis": analysis.kind,
        "settings": analysis.settings,
        "summary": analysis.summary,
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in made.items()},
    }
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    last = folder / f"{analysis.kind}.json"
    last.unlink(missing_ok=True)
    for name, data in made.items():
        _write(folder / name, data)
    _write(last, text.encode())
    return [*(folder / name for name in made), last]


def _drawn(analysis: Analysis) -> dict[str, bytes]:
    with print_style():
        figure = analysis.draw()
        drawn = {}
        for ending, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
            stream = io.BytesIO()
            figure.savefig(stream, format=ending[1:], metadata=metadata)
            drawn[ending] = stream.getvalue()
    return drawn


def _table(rows: Sequence[Row]) -> bytes:
    stream = io.StringIO(newline="")
    columns = list(dict.fromkeys(column for row in rows for column in row))
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)

"""Where an analysis may put its files. No matplotlib, so that it can be asked first."""

from __future__ import annotations

from pathlib import Path

from lmk_eval.analyses.errors import AnalysisError


def check_folder(folder: Path) -> None:
    """Refuse a place where no files can be put, before the work.

    Raises:
        AnalysisError: if it, or a folder above it, is a file.
    """
    for place in (folder, *folder.parents):
        if place.exists():
            if not place.is_dir():
                raise AnalysisError(f"{folder}: {place} is a file; the results of an analysis need a folder")
            return

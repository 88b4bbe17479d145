"""A quicker start for short jobs: the heavy libraries are imported without garbage collection."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Generator


@contextlib.contextmanager
def quick_imports() -> Generator[None]:
    """Import without collecting, then keep what was imported out of every later collection.

    Torch, transformers and mteb make some millions of objects that never become garbage; walking them over and over
    while importing, and once more at exit, took a quarter of a short job's processor time where it was measured.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def quiet_progress() -> None:
    """No progress bars of transformers in a log that nobody watches: they are for terminals."""
    if not sys.stderr.isatty():
        os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
        from transformers.utils import logging

        logging.disable_progress_bar()

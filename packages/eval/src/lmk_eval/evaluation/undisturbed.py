"""MTEB and its libraries set seeds, draw progress bars and log; none of it may outlast or disturb the caller."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

from datasets import utils as datasets
from transformers.utils import logging as transformers

from lmk_eval._lazy import random_states_kept


@contextmanager
def undisturbed(*, quiet: bool) -> Generator[None]:
    """Restore the global random states on leaving and, when quiet, show neither progress bars nor MTEB's log."""
    with random_states_kept(), ExitStack() as after:
        if quiet:
            _silence(after)
        yield


def _silence(after: ExitStack) -> None:
    """Switch off what is on, and have it switched on again afterwards."""
    logger = logging.getLogger("mteb")
    after.callback(logger.setLevel, logger.level)
    logger.setLevel(logging.ERROR)
    if not datasets.are_progress_bars_disabled():
        after.callback(datasets.enable_progress_bars)
        datasets.disable_progress_bars()
    if transformers.is_progress_bar_enabled():
        after.callback(transformers.enable_progress_bar)
        transformers.disable_progress_bar()

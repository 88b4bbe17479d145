"""Lazy exports that keep the random states MTEB would set."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from lmk_core import lazy


def lazy_exports(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """As `lmk_core.lazy.lazy_exports`, but importing MTEB leaves the global random states as they are."""
    import_name, names = lazy.lazy_exports(package, modules)

    def get(name: str) -> Any:
        if name not in modules:
            return import_name(name)
        with random_states_kept():
            return import_name(name)

    return get, names


@contextmanager
def random_states_kept() -> Generator[None]:
    """Restore the global random states on leaving. Importing MTEB and making one of its tasks both set a seed."""
    with ExitStack() as after:
        after.callback(random.setstate, random.getstate())
        if (numpy := sys.modules.get("numpy")) is not None:
            after.callback(numpy.random.set_state, numpy.random.get_state())
        if (torch := sys.modules.get("torch")) is not None:
            after.callback(torch.random.set_rng_state, torch.random.get_rng_state())
            if torch.cuda.is_initialized():
                after.callback(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all())
        yield

"""Lazy exports (PEP 562), and keeping the random states that MTEB would set."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any


def lazy_exports(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: each exported name is imported from its module when first asked for."""

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with random_states_kept():
            value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get


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

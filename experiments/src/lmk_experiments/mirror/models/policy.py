"""Which models go into the store: a model of the paper's size has 600 MB, and its grids have 42 of them."""

from __future__ import annotations

import os
from typing import Literal, get_args

Policy = Literal["auto", "all", "none"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
ENVIRONMENT = "LMK_LOG_MODELS"


def chosen_policy(given: str | None = None) -> Policy:
    """``given``, else ``LMK_LOG_MODELS``, else "auto".

    - "auto": where it costs neither disk nor transfer, that is where weights can be hard links: the store's artifacts
      are files on the file system that the cells are on, which a root's own database always has.
    - "all": everywhere; copied to another file system, uploaded to a server.
    - "none": nowhere. What is there stays.

    Raises:
        ValueError: for another word, naming where it came from.
    """
    word = given or os.environ.get(ENVIRONMENT) or "auto"
    if word not in POLICIES:
        source = "--models" if given else ENVIRONMENT
        raise ValueError(f"{source}: {word!r}; valid: {', '.join(POLICIES)}")
    return word

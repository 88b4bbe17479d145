"""The processes of one training: who they are, how they start, how they talk, and how they end together.

A *rank* is one process of a training. The first rank (0) alone records, validates and writes files. Importing this
package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_train.ranks.failures import RankFailedError, RankFailure
    from lmk_train.ranks.group import Ranks
    from lmk_train.ranks.line import FirstEnd, OtherEnd, joined_step
    from lmk_train.ranks.place import Place, slurm_place
    from lmk_train.ranks.signals import Preempted

__all__ = [
    "FirstEnd",
    "OtherEnd",
    "Place",
    "Preempted",
    "RankFailedError",
    "RankFailure",
    "Ranks",
    "joined_step",
    "slurm_place",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "FirstEnd": ".line",
        "OtherEnd": ".line",
        "Place": ".place",
        "Preempted": ".signals",
        "RankFailedError": ".failures",
        "RankFailure": ".failures",
        "Ranks": ".group",
        "joined_step": ".line",
        "slurm_place": ".place",
    },
)

"""How an evaluation is carried out on this machine. Nothing here changes what is measured, but `storage` and `weights`
by a rounding, and `prompts`; these three are part of where results are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Weights = Literal["float32", "bfloat16", "float16"]


@dataclass(frozen=True)
class Settings:
    """All of them have defaults.

    Attributes:
        prompts: key to text that stands in front of queries or documents, see `Prompts`; none unless given.
        mirrors: a folder with data of MTEB's tasks, see `lmk_eval.tasks.redirect`.
        tokens: a folder where tokens of texts are kept for other readings; whoever names it removes it.
        storage: the type that vectors of corpora lie in while they are needed: float32, float16 or bfloat16.
        weights: the type of the weights of a model that is given by its folder or name.
        shard_texts: texts in a file of vectors at most: what a stopped evaluation encodes again.
        processes: how many encode a corpus together; one for each GPU unless said. Only for a model that is given by
            its folder or name.
        share: (this one, of how many): only encode this share of every corpus, and score nothing; another call with
            the same folder, without a share, finds the vectors and scores.
    """

    prompts: Mapping[str, str] | None = None
    mirrors: Path | None = None
    tokens: Path | None = None
    storage: Literal["float32", "float16", "bfloat16"] = "float32"
    weights: Weights = "float32"
    shard_texts: int = 16_384
    processes: int | None = None
    share: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.shard_texts < 1:
            raise ValueError(f"shard_texts: {self.shard_texts} is not a number of at least 1")
        if self.share is not None and not 0 <= self.share[0] < self.share[1]:
            raise ValueError(f"share: {self.share} is not (number from 0, how many there are)")


@dataclass(frozen=True)
class Reading:
    """One way to read a model.

    Attributes:
        name: of this reading among others, a safe part of a path: its results have a folder of this name.
        revision: what tells it from other results of the model's name; a safe part of a path.
        pooling: as a dictionary, or None for the model's own.
    """

    name: str
    revision: str
    pooling: dict[str, object] | None = None

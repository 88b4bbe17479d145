"""Which pooling and which sentence splitter a model is read with."""

from __future__ import annotations

from dataclasses import replace

from lmk_core.embedder.saving import SavedConfig
from lmk_core.layouts.sentences import SentenceSplitter, SentenceSplitterError, splitter_from_text
from lmk_core.pooling import PoolingConfig, PoolingConfigError
from lmk_core.pooling.config import Granularity, Overflow


def wanted_pooling(
    name: str,
    saved: SavedConfig | None,
    pooling: str | PoolingConfig | None,
    granularity: Granularity | list[int] | None,
    overflow: Overflow | None,
) -> PoolingConfig:
    """What the arguments of `Embedder.from_pretrained` come to.

    Raises:
        PoolingConfigError: if neither they nor the saved model name a pooling.
    """
    if isinstance(pooling, str):
        # A saved model of the same kind keeps what is not said again.
        same = saved is not None and saved.pooling.kind == pooling
        wanted = saved.pooling if saved is not None and same else PoolingConfig.from_dict({"kind": pooling})
    elif pooling is not None:
        wanted = pooling
    elif saved is not None:
        wanted = saved.pooling
    elif granularity is not None:
        wanted = PoolingConfig("landmark")
    else:
        raise PoolingConfigError(f"{name}: no saved pooling; say which, for example pooling='landmark'", "kind")
    if granularity is not None:
        wanted = wanted.with_granularity(granularity)
    return wanted if overflow is None else replace(wanted, overflow=overflow)


def saved_splitter(name: str, saved: SavedConfig | None, wanted: PoolingConfig) -> SentenceSplitter | None:
    """The splitter that the model was saved with, if it had one.

    Raises:
        SentenceSplitterError: if it is needed and cannot be had.
    """
    if saved is None or saved.sentence_splitter is None:
        return None
    try:
        return splitter_from_text(saved.sentence_splitter, name)
    except SentenceSplitterError:
        # A package that is not installed is missed only where it is needed.
        if wanted.granularity == "sentence":
            raise
        return None


def refuse_loss(name: str, trained: PoolingConfig, wanted: PoolingConfig) -> None:
    """Trained latents must not be dropped or exchanged for random ones.

    Raises:
        PoolingConfigError: if they would be.
    """
    if trained.kind == "latent_attention" and trained != wanted:
        raise PoolingConfigError(
            f"{name}: was trained with {trained.to_dict()}; reading it as {wanted.to_dict()} would lose its latents",
            "kind",
        )

"""`Embedder`: from texts to vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm
from transformers import AutoTokenizer

from lmk_core.embedder.encoding import LandmarkVectors, embed_layouts, evaluating, landmark_vectors, text_windows
from lmk_core.embedder.saving import (
    ForOthers,
    SavedConfig,
    read_config,
    read_reduction,
    read_saved_prompts,
    write_model,
)
from lmk_core.encoders import PooledEncoder, load_encoder
from lmk_core.encoders.loading import max_positions
from lmk_core.layouts import PoolingTokenizer
from lmk_core.layouts.sentences import SentenceSplitter, SentenceSplitterError, splitter_from_text
from lmk_core.layouts.tokenizer import checked_texts
from lmk_core.pooling import PoolingConfig, PoolingConfigError
from lmk_core.pooling.config import Granularity, Overflow

DEFAULT_MAX_LENGTH = 512


class Embedder:
    """A pooled encoder with the tokenizer that lays texts out for it.

    Attributes:
        module: the `PooledEncoder`, to train or to call on batches of ``tokenizer``.
        tokenizer: the `PoolingTokenizer`.
        prompts: texts to put before others, by name; saved with the model, for Sentence Transformers. `encode` puts
            none.
    """

    def __init__(
        self, module: PooledEncoder, tokenizer: PoolingTokenizer, prompts: Mapping[str, str] | None = None
    ) -> None:
        if module.pooling != tokenizer.pooling:
            raise ValueError(f"the module pools {module.pooling}, the tokenizer lays out {tokenizer.pooling}")
        self.module = module
        self.tokenizer = tokenizer
        self.prompts = dict(prompts or {})

    @property
    def pooling(self) -> PoolingConfig:
        """The pooling strategy."""
        return self.module.pooling

    @property
    def max_length(self) -> int:
        """Tokens of a text at most, special tokens and landmarks included."""
        return self.tokenizer.max_length

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        return self.module.dim

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.module.parameters()).device

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | Path,
        pooling: str | PoolingConfig | None = None,
        granularity: Granularity | list[int] | None = None,
        max_length: int | None = None,
        *,
        overflow: Overflow | None = None,
        dtype: str | torch.dtype | None = None,
        device: str | torch.device | None = None,
        causal_ok: bool = False,
        revision: str | None = None,
        sentence_splitter: SentenceSplitter | None = None,
    ) -> Embedder:
        """Load a folder written by `save_pretrained`, or any encoder of transformers. In evaluation mode.

        Args:
            name_or_path: a folder, or a name on the Hugging Face Hub.
            pooling: a strategy or its kind. A saved model remembers its own; another one reads the same weights.
            granularity: landmark chunks; alone it means landmark pooling.
            max_length: in tokens; a saved model remembers its own, else 512.
            overflow: "cut" or "budget" (landmark only).
            dtype: of the encoder's weights, float32 by default.
            device: by default CUDA where there is one, else the CPU.
            causal_ok: load a causal model all the same.
            revision: of the Hub's repository.
            sentence_splitter: for granularity "sentence", from a text to its sentences; by default the saved model's,
                else `sentencex`, English. A function of one's own is not saved: pass it again.

        Raises:
            PoolingConfigError: if no pooling is known, or the wanted one would lose trained parameters.
            EncoderError: if the checkpoint cannot serve as an encoder.
            SentenceSplitterError: if granularity is "sentence" and there is no splitter, or the model was saved with
                one of its own and none is passed.
            ValueError: if ``max_length`` is below 2 or beyond the model's table of positions.
        """
        name = str(name_or_path)
        saved = read_config(name, revision)
        wanted = _wanted_pooling(name, saved, pooling, granularity, overflow)
        if saved is not None:
            _refuse_loss(name, saved.pooling, wanted)
        if max_length is None:
            max_length = DEFAULT_MAX_LENGTH if saved is None else saved.max_length
        module = PooledEncoder(load_encoder(name, dtype=dtype, revision=revision, causal_ok=causal_ok), wanted)
        hf_tokenizer = AutoTokenizer.from_pretrained(name, revision=revision, trust_remote_code=False)
        splitter = sentence_splitter or _saved_splitter(name, saved, wanted)
        tokenizer = PoolingTokenizer(hf_tokenizer, wanted, max_length, splitter)
        if saved is not None and saved.pooling == wanted:
            read_reduction(name, module, revision)
        _check_length(module, max_length)
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        prompts = None if saved is None else read_saved_prompts(name, revision)
        return cls(module.eval().to(device), tokenizer, prompts)

    def with_pooling(self, pooling: PoolingConfig) -> Embedder:
        """Read the same weights (shared, not copied) in another way.

        Raises:
            PoolingConfigError: if one of the two strategies has trained parameters that the other has not.
        """
        _refuse_loss("this model", self.pooling, pooling)
        if pooling.kind == "latent_attention" and self.pooling.kind != "latent_attention":
            raise PoolingConfigError(
                "this model has no trained latents; load it with pooling='latent_attention'", "kind"
            )
        module = PooledEncoder(self.module.encoder, pooling, self.module.reduction)
        module.training = self.module.training
        return Embedder(module, self.tokenizer.with_pooling(pooling), self.prompts)

    def with_granularity(self, granularity: Granularity | list[int]) -> Embedder:
        """Read the same weights (shared, not copied) with other chunks."""
        return self.with_pooling(self.pooling.with_granularity(granularity))

    def encode(
        self,
        texts: Sequence[str],
        *,
        max_length: int | None = None,
        batch_tokens: int = 16384,
        show_progress: bool = False,
    ) -> NDArray[np.float32]:
        """Embed texts: float32 [n, dim], each of length 1, in the order given. No text gives [0, dim].

        Args:
            texts: a list of texts.
            max_length: instead of the model's own.
            batch_tokens: of a batch at most, padding included. It changes memory and speed, not the result.
            show_progress: a progress bar on stderr.

        Raises:
            TypeError: if ``texts`` is a single string.
            ValueError: if ``max_length`` is below 2 or beyond the model's table of positions.
        """
        texts = checked_texts(texts)
        _check_length(self.module, self.max_length if max_length is None else max_length)
        out = np.zeros((len(texts), self.dim), dtype=np.float32)
        with evaluating(self.module), _progress(len(texts), show_progress) as bar:
            for window in text_windows(texts):
                layouts = self.tokenizer.layouts(texts[window.start : window.stop], max_length=max_length)
                for indices, vectors in embed_layouts(self.module, self.tokenizer, layouts, batch_tokens, self.device):
                    out[np.asarray(indices) + window.start] = vectors
                    bar.update(len(indices))
        return out

    def encode_landmarks(
        self, texts: Sequence[str], *, max_length: int | None = None, batch_tokens: int = 16384
    ) -> list[LandmarkVectors]:
        """Each text's landmarks: their vectors [landmarks, dim] and the characters (start, end) each one closes.

        The vectors are not normalised: their mean, normalised, is what `encode` gives. Text behind the last landmark
        (overflow "cut") is in no span.

        Raises:
            TypeError: if ``texts`` is a single string.
            ValueError: if the pooling is not landmark, or ``max_length`` is wrong as in `encode`.
        """
        texts = checked_texts(texts)
        _check_length(self.module, self.max_length if max_length is None else max_length)
        out: list[LandmarkVectors] = []
        with evaluating(self.module):
            for window in text_windows(texts):
                part = texts[window.start : window.stop]
                layouts = self.tokenizer.layouts(part, max_length=max_length, with_spans=True)
                out += landmark_vectors(self.module, self.tokenizer, layouts, batch_tokens, self.device)
        return out

    def save_pretrained(
        self,
        folder: str | Path,
        *,
        training: Mapping[str, Any] | None = None,
        card: Mapping[str, Any] | None = None,
    ) -> Path:
        """Write the model where `from_pretrained` and Sentence Transformers read it, with a model card.

        Args:
            folder: is replaced as a whole, if it holds a saved model.
            training: how it was trained, as plain JSON values, for the card.
            card: for the card: ``name``, ``license``, ``base_model``, ``language``, ``datasets``, ``tags``.

        Raises:
            SavedModelError: if the folder holds something else than a saved model, or ``training`` or ``card`` cannot
                be written.
        """
        return write_model(folder, self.module, self.tokenizer, ForOthers(self.prompts, training, card))


def _wanted_pooling(
    name: str,
    saved: SavedConfig | None,
    pooling: str | PoolingConfig | None,
    granularity: Granularity | list[int] | None,
    overflow: Overflow | None,
) -> PoolingConfig:
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


def _saved_splitter(name: str, saved: SavedConfig | None, wanted: PoolingConfig) -> SentenceSplitter | None:
    if saved is None or saved.sentence_splitter is None:
        return None
    try:
        return splitter_from_text(saved.sentence_splitter, name)
    except SentenceSplitterError:
        # A package that is not installed is missed only where it is needed.
        if wanted.granularity == "sentence":
            raise
        return None


def _refuse_loss(name: str, trained: PoolingConfig, wanted: PoolingConfig) -> None:
    """Trained latents must not be dropped or exchanged for random ones."""
    if trained.kind == "latent_attention" and trained != wanted:
        raise PoolingConfigError(
            f"{name}: was trained with {trained.to_dict()}; reading it as {wanted.to_dict()} would lose its latents",
            "kind",
        )


def _check_length(module: PooledEncoder, max_length: int) -> None:
    limit = max_positions(module.encoder)
    if limit is not None and max_length > limit:
        raise ValueError(f"max_length: {max_length} is beyond the model's table of positions; at most {limit}")


def _progress(total: int, show: bool) -> tqdm:
    return tqdm(total=total, unit="text", disable=not show)

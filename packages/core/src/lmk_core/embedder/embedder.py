"""`Embedder`: from texts to vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Unpack, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoTokenizer

from lmk_core.embedder.choosing import refuse_loss, saved_splitter, wanted_pooling
from lmk_core.embedder.encoding import LandmarkVectors, read_landmarks, read_rows
from lmk_core.embedder.files import VectorFile, encoding_settings
from lmk_core.embedder.options import EncodeOptions, Job, check_landmarks, check_one_prompt, check_options, progress
from lmk_core.embedder.saving import ForOthers, read_config, read_reduction, read_saved_prompts, write_model
from lmk_core.encoders import PooledEncoder, load_encoder
from lmk_core.encoders.loading import refuse_too_long, refuse_unknown_place
from lmk_core.layouts import PoolingTokenizer
from lmk_core.layouts.sentences import SentenceSplitter
from lmk_core.pooling import PoolingConfig, PoolingConfigError
from lmk_core.pooling.config import Granularity, Overflow
from lmk_core.texts.reading import Text, checked_prompts, checked_texts_and_pairs

DEFAULT_MAX_LENGTH = 512


class Embedder:
    """A pooled encoder with the tokenizer that lays texts out for it.

    Attributes:
        module: the `PooledEncoder`, to train or to call on batches of ``tokenizer``.
        tokenizer: the `PoolingTokenizer`.
        prompts: by name, saved with the model. `encode` puts none before texts but the one that it is given.
        include_prompt: whether prompts are pooled where `encode` is not told; saved with the model.
    """

    def __init__(
        self,
        module: PooledEncoder,
        tokenizer: PoolingTokenizer,
        prompts: Mapping[str, str] | None = None,
        include_prompt: bool = True,
    ) -> None:
        if module.pooling != tokenizer.pooling:
            raise ValueError(f"the module pools {module.pooling}, the tokenizer lays out {tokenizer.pooling}")
        self.module = module
        self.tokenizer = tokenizer
        self.prompts = dict(prompts or {})
        self.include_prompt = include_prompt

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
            OSError: if the Hub does not answer, or refuses the model: what it says of itself is not known then.
        """
        name = str(name_or_path)
        refuse_unknown_place(name)
        saved = read_config(name, revision)
        wanted = wanted_pooling(name, saved, pooling, granularity, overflow)
        if saved is not None:
            refuse_loss(name, saved.pooling, wanted)
        if max_length is None:
            max_length = DEFAULT_MAX_LENGTH if saved is None else saved.max_length
        module = PooledEncoder(load_encoder(name, dtype=dtype, revision=revision, causal_ok=causal_ok), wanted)
        hf_tokenizer = AutoTokenizer.from_pretrained(name, revision=revision, trust_remote_code=False)
        splitter = sentence_splitter or saved_splitter(name, saved, wanted)
        tokenizer = PoolingTokenizer(hf_tokenizer, wanted, max_length, splitter)
        if saved is not None and saved.pooling == wanted:
            read_reduction(name, module, revision)
        refuse_too_long(module.encoder, max_length)
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        return cls(module.eval().to(device), tokenizer, *(read_saved_prompts(name, revision) if saved else ()))

    def with_pooling(self, pooling: PoolingConfig) -> Embedder:
        """Read the same weights (shared, not copied) in another way.

        Raises:
            PoolingConfigError: if one of the two strategies has trained parameters that the other has not.
        """
        refuse_loss("this model", self.pooling, pooling)
        if pooling.kind == "latent_attention" and self.pooling.kind != "latent_attention":
            raise PoolingConfigError(
                "this model has no trained latents; load it with pooling='latent_attention'", "kind"
            )
        module = PooledEncoder(self.module.encoder, pooling, self.module.reduction)
        module.training = self.module.training
        return Embedder(module, self.tokenizer.with_pooling(pooling), self.prompts, self.include_prompt)

    def with_granularity(self, granularity: Granularity | list[int]) -> Embedder:
        """Read the same weights (shared, not copied) with other chunks."""
        return self.with_pooling(self.pooling.with_granularity(granularity))

    @overload
    def encode(
        self, texts: Sequence[Text], *, output: Literal["numpy"] = "numpy", **options: Unpack[EncodeOptions]
    ) -> NDArray[np.float32]: ...
    @overload
    def encode(
        self, texts: Sequence[Text], *, output: Literal["torch"], **options: Unpack[EncodeOptions]
    ) -> Tensor: ...
    def encode(
        self, texts: Sequence[Text], *, output: str = "numpy", **options: Unpack[EncodeOptions]
    ) -> NDArray[np.float32] | Tensor:
        """Embed texts: float32 [n, dim], each of length 1, in the order given. No text gives [0, dim].

        Args:
            texts: a list of texts (or of pairs of texts that become one vector each).
            output: "numpy", or "torch" for a tensor on the CPU.
            options: see `EncodeOptions`.

        Raises:
            TypeError: if ``texts`` is a single string, or an option is not known.
            ValueError: if ``max_length`` is below 2 or beyond the model's table of positions, or another option is
                out of its range.
        """
        if output not in ("numpy", "torch"):
            raise ValueError(f"output: {output!r}; valid: numpy, torch")
        (vectors,) = self.encode_readings(texts, [self.pooling], **options)
        return torch.from_numpy(vectors) if output == "torch" else vectors

    def encode_readings(
        self, texts: Sequence[Text], readings: Sequence[PoolingConfig], **options: Unpack[EncodeOptions]
    ) -> list[NDArray[np.float32]]:
        """Embed texts in several ways with the same weights, and tokenize them once: for each way what `encode` gives.

        Raises:
            PoolingConfigError: if a reading would lose trained parameters, as in `with_pooling`.
            TypeError: as `encode`.
            ValueError: as `encode`.
        """
        given = checked_texts_and_pairs(texts)
        if not readings:
            return []
        job = self._job(readings, options, len(given))
        with job.running() as runs, progress(len(given) * len(readings), 0, options) as bar:
            return read_rows(runs, job.readings, given, job.dim, bar.update)

    def encode_to_file(
        self, texts: Iterable[Text], file: str | Path, **options: Unpack[EncodeOptions]
    ) -> NDArray[np.float32]:
        """Embed more texts than fit in memory, into a ``.npy`` file that comes back memory-mapped and read-only.

        Stopped, by a kill too, it goes on with the same call: finished shards are kept, after a look whether the texts
        and the model are still those. A finished file is opened again.

        Args:
            texts: anything that can be gone through once, a generator too; it must give the same texts again to go on.
            file: where the vectors go; ``FILE.json`` beside it is the record of what is finished.
            options: see `EncodeOptions`; ``prompt`` is one for all texts.

        Raises:
            VectorFileError: if the file is of other texts, another model or other options, or not ours.
            TypeError: as `encode`.
            ValueError: as `encode`.
        """
        if isinstance(texts, (str, bytes)):
            raise TypeError(f"texts: expected many strings, found one {type(texts).__name__}; pass [text]")
        check_one_prompt(options)
        job = self._job([self.pooling], options, 0)
        store = VectorFile(Path(file), job.dim, encoding_settings(self, options))
        total = len(texts) if isinstance(texts, Sized) else None
        shards = store.unfinished(iter(texts))
        first = next(shards, None)
        if first is None:
            if store.done:
                return store.open()
            with store.writing():
                return store.finish()
        with store.writing() as add, job.running() as runs, progress(total, store.rows, options) as bar:
            for shard in chain([first], shards):
                add(shard, *read_rows(runs, job.readings, shard, job.dim, bar.update))
            return store.finish()

    def encode_landmarks(self, texts: Sequence[Text], **options: Unpack[EncodeOptions]) -> list[LandmarkVectors]:
        """Each text's landmarks: their vectors [landmarks, dim] and the characters (start, end) each one closes.

        The vectors are not normalised: their mean, normalised, is what `encode` gives. Text behind the last landmark
        (overflow "cut") is in no span.

        Raises:
            TypeError: as `encode`.
            ValueError: if the pooling is not landmark, or as in `encode`.
        """
        given = checked_texts_and_pairs(texts)
        check_landmarks(self.pooling)
        job = self._job([self.pooling], options, len(given), landmarks=True)
        with job.running() as runs, progress(len(given), 0, options) as bar:
            return read_landmarks(runs, job.readings, given, bar.update)

    def encode_parts(
        self, parts: Iterable[Sequence[Text]], *, landmarks: bool = False, **options: Unpack[EncodeOptions]
    ) -> Iterator[NDArray[np.float32] | list[LandmarkVectors]]:
        """Embed many lists of texts, one after the other: for each what `encode` or `encode_landmarks` gives.

        The processes of ``devices`` start once for all. Until the end the model is in evaluation mode.

        Raises:
            TypeError: as `encode`; or for a list of prompts: one is for all texts here.
            ValueError: as `encode`, or as `encode_landmarks`.
        """
        check_one_prompt(options)
        if landmarks:
            check_landmarks(self.pooling)
        job = self._job([self.pooling], options, 0, landmarks=landmarks)
        parts = iter(parts)
        first = next(parts, None)
        if first is None:
            return
        with job.running() as runs, progress(None, 0, options) as bar:
            for part in chain([first], parts):
                given = checked_texts_and_pairs(part)
                if landmarks:
                    yield read_landmarks(runs, job.readings, given, bar.update)
                else:
                    yield from read_rows(runs, job.readings, given, job.dim, bar.update)

    def _job(
        self, readings: Sequence[PoolingConfig], options: EncodeOptions, num_texts: int, *, landmarks: bool = False
    ) -> Job:
        """What is to be run, with every option checked."""
        check_options(options, self.dim)
        options = {"include_prompt": self.include_prompt, **options}
        refuse_too_long(self.module.encoder, options.get("max_length") or self.max_length)
        checked_prompts(options.get("prompt"), num_texts)
        modes = [self if pooling == self.pooling else self.with_pooling(pooling) for pooling in readings]
        return Job.of([(mode.module, mode.tokenizer) for mode in modes], options, dim=self.dim, landmarks=landmarks)

    def save_pretrained(
        self, folder: str | Path, *, training: Mapping[str, Any] | None = None, card: Mapping[str, Any] | None = None
    ) -> Path:
        """Write the model where `from_pretrained` and Sentence Transformers read it, with a card; replace an old one.

        Args:
            folder: new, empty, or one that holds a saved model.
            training: how it was trained, as plain JSON values; shown on the card.
            card: ``name``, ``license``, ``base_model``, ``language``, ``datasets``, ``tags``, see `model_card`.

        Raises:
            SavedModelError: if the folder holds something else, or ``training`` or ``card`` cannot be written.
        """
        others = ForOthers(self.prompts, training, card, self.include_prompt)
        return write_model(folder, self.module, self.tokenizer, others)

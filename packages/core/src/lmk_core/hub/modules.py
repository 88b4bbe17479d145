"""Sentence Transformers modules for every pooling kind: a layout before the encoder, a reduction behind it.

`travelling_source` joins this file and all that it uses into the one file that a saved model carries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import torch
from safetensors.torch import load_file, save
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from torch.utils.data import get_worker_info

from lmk_core.hub.config import CONFIG_FILE, REDUCTION_FILE, SavedConfig
from lmk_core.hub.features import Features, both_layouts, layout_features, one_layout
from lmk_core.layouts import PoolingTokenizer
from lmk_core.layouts.sentences import SentenceSplitter, splitter_from_text, splitter_to_text
from lmk_core.pooling.config import PoolingConfig
from lmk_core.pooling.draw import draw_granularity
from lmk_core.reductions.build import build_reduction


class LayoutTransformer(Transformer):
    """Lays texts out and encodes them, in padded batches: what is pooled is a mask of positions.

    With several chunk sizes each text's is drawn in training, and the smallest is taken in evaluation. A trainer makes
    batches ahead, also while the model still evaluates. So a batch that is made with gradients enabled holds both
    layouts, and `forward` takes the one that fits the mode it finds. The draw is determined by torch's initial seed
    (which a trainer sets), the number of training passes so far, the row and the text; no generator is used.

    Args:
        model_name_or_path: the encoder's folder or name.
        pooling: the strategy, or its dictionary.
        sentence_splitter: for granularity "sentence".
        options: of Sentence Transformers' ``Transformer``. Inputs are always padded, whatever ``unpad_inputs`` says.
    """

    def __init__(
        self,
        model_name_or_path: str,
        *,
        pooling: PoolingConfig | Mapping[str, Any],
        sentence_splitter: SentenceSplitter | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model_name_or_path, **(options | {"unpad_inputs": False}))
        self.pooling = PoolingConfig.from_dict(pooling)
        self.sentence_splitter = sentence_splitter
        self._passes = 0

    def _can_flatten_inputs(self) -> bool:
        """Texts in one row without padding have no pooling mask."""
        return False

    def preprocess(
        self,
        inputs: Sequence[Any],
        prompt: str | None = None,
        processing_kwargs: Any = None,
        **kwargs: Any,
    ) -> Features:
        """Lay texts or pairs of texts out, the prompt before each, and pad them on the right: see `layout_features`.

        Raises:
            TypeError: if an input is neither a text nor a pair.
            ValueError: for an option of the tokenizer other than its ``max_length``.
        """
        if not inputs:
            return {}
        length = self._length(processing_kwargs, kwargs.get("task"), kwargs.get("max_length"))
        tokenizer = self._layout_tokenizer()
        texts = tokenizer.tokenize(inputs, max_length=length, prompt=prompt, include_prompt=False)
        features = layout_features(tokenizer, texts, length)
        if self.pooling.is_variable and torch.is_grad_enabled():
            drawn = layout_features(tokenizer, texts, length, self._draw(inputs))
            features = both_layouts(features, drawn, tokenizer.tokens.pad)
        return features | {"modality": "text"}

    def forward(self, features: Features, **kwargs: Any) -> Features:
        """Add ``token_embeddings`` [batch, tokens, dim]; of two layouts keep the one for this mode."""
        self._passes += self.training
        features = one_layout(features, drawn=self.training)
        # Not all of them: an encoder would be handed the masks it does not know.
        own = {name: features[name] for name in ("input_ids", "attention_mask", "modality") if name in features}
        return features | super().forward(own, **kwargs)

    def _layout_tokenizer(self) -> PoolingTokenizer:
        return PoolingTokenizer(self.tokenizer, self.pooling, self.max_seq_length or 512, self.sentence_splitter)

    def _length(
        self, options: Mapping[str, Mapping[str, Any]] | None, task: str | None, asked: int | None
    ) -> int | None:
        """The call's maximum length; None for the model's own."""
        given = {f"{group}.{name}": value for group, part in (options or {}).items() for name, value in part.items()}
        length = given.pop("text.max_length", asked)
        if given:
            raise ValueError(f"processing_kwargs: {', '.join(given)}: unknown here; valid: text.max_length")
        if length is None and task in ("query", "document"):
            length = self.query_length if task == "query" else self.document_length
        return length

    def _draw(self, inputs: Sequence[Any]) -> list[int]:
        """A chunk size for each text."""
        sizes: Any = self.pooling.granularity
        if get_worker_info() is not None:
            self._passes += 1  # a worker's own copy, which sees no training pass
        key = (torch.initial_seed(), self._passes)
        texts = [text if isinstance(text, str) else "\0".join(text) for text in inputs]
        hashes = [crc32(text.encode("utf-8", "surrogatepass")) for text in texts]
        return [draw_granularity(sizes, *key, row, value) for row, value in enumerate(hashes)]

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Write encoder, tokenizer and ``lmk_config.json``."""
        super().save(output_path, *args, **kwargs)
        splitter = None if self.sentence_splitter is None else splitter_to_text(self.sentence_splitter)
        SavedConfig(self.pooling, self.max_seq_length or 512, splitter).write(output_path)

    @classmethod
    def load_config(cls, model_name_or_path: str, **kwargs: Any) -> dict[str, Any]:  # ty: ignore[incompatible-method-override]
        """Sentence Transformers' own values, and what ``lmk_config.json`` says."""
        config = super().load_config(model_name_or_path, **kwargs)
        kwargs.pop("config_filename", None)
        path = cls.load_file_path(model_name_or_path, CONFIG_FILE, **kwargs)
        if path is None:
            raise FileNotFoundError(f"{model_name_or_path}: {CONFIG_FILE} is missing")
        saved = SavedConfig.read(path)
        config |= {"pooling": saved.pooling, "max_seq_length": saved.max_length}
        if saved.sentence_splitter is not None:
            config["sentence_splitter"] = splitter_from_text(saved.sentence_splitter, model_name_or_path)
        return config


class LayoutPooling(Pooling):
    """The reduction of a pooling strategy, over the positions that `LayoutTransformer` marked. Gives float32.

    Args:
        embedding_dimension: width of the hidden states.
        pooling: the strategy, or its dictionary.
        include_prompt: whether a prompt's positions are pooled too.
    """

    config_keys: list[str] = ["embedding_dimension", "include_prompt", "pooling"]  # noqa: RUF012

    def __init__(
        self, embedding_dimension: int, pooling: PoolingConfig | Mapping[str, Any], include_prompt: bool = True
    ) -> None:
        super().__init__(embedding_dimension, "mean", include_prompt)
        self.pooling = PoolingConfig.from_dict(pooling)
        self.reduction = build_reduction(self.pooling, embedding_dimension)

    def forward(self, features: Features, **kwargs: Any) -> Features:  # noqa: ARG002
        """Add ``sentence_embedding`` [batch, dim].

        Raises:
            ValueError: if the features come from something else than the model's own ``preprocess``.
        """
        if "pooling_mask" not in features:
            raise ValueError("no pooling_mask: features must come from this model's own preprocess(texts)")
        mask = features["pooling_mask"]
        if not self.include_prompt:
            mask = features.get("text_mask", mask)
        features["sentence_embedding"] = self.reduction(features["token_embeddings"], mask)
        return features

    def get_config_dict(self) -> dict[str, Any]:
        """Plain values: what ``__init__`` takes."""
        return super().get_config_dict() | {"pooling": self.pooling.to_dict()}

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Write the configuration, and ``reduction.safetensors`` if there are weights."""
        super().save(output_path, *args, **kwargs)
        weights = {name: value.detach().cpu().contiguous() for name, value in self.reduction.state_dict().items()}
        if weights:
            # Not `save_file`, which keeps what it writes for its owner alone.
            (Path(output_path) / REDUCTION_FILE).write_bytes(save(weights))

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any) -> LayoutPooling:  # ty: ignore[incompatible-method-override]
        """Read what `save` wrote; the weights may also lie in the model's own folder, where `Embedder` puts them."""
        places = ("token", "cache_folder", "revision", "local_files_only")
        where = {name: kwargs[name] for name in places if name in kwargs}
        module = cls(**cls.load_config(model_name_or_path, subfolder=subfolder, **where))
        if not module.reduction.state_dict():
            return module
        path = cls.load_file_path(model_name_or_path, REDUCTION_FILE, subfolder=subfolder, **where)
        path = path or cls.load_file_path(model_name_or_path, REDUCTION_FILE, **where)
        if path is None:
            raise FileNotFoundError(f"{model_name_or_path}: {REDUCTION_FILE} is missing; the reduction would be random")
        module.reduction.load_state_dict(load_file(path))
        return module

"""The head that turns an encoder's hidden states into scores of the vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForMaskedLM
from transformers.utils import logging

from lmk_core.encoders.loading import EncoderError, native_config, refuse_unknown_place


def load_language_head(
    name_or_path: str | Path, encoder: nn.Module, *, revision: str | None = None
) -> tuple[nn.Module, bool]:
    """The masked language model's head of a checkpoint, with the embeddings of ``encoder`` as its output matrix.

    Args:
        name_or_path: the checkpoint that ``encoder`` was loaded from.
        encoder: gives its input embeddings to the head, where the model ties both.
        revision: of the Hub's repository.

    Returns:
        The head, from hidden states [..., dim] to scores [..., vocabulary] and on the encoder's device; and whether its
        weights are the checkpoint's. Those of a checkpoint without a head (one that was saved as an embedding model)
        are new, drawn from torch's generator.

    Raises:
        EncoderError: for a type of model that transformers has no masked language model of.
    """
    name = str(name_or_path)
    refuse_unknown_place(name)
    config = native_config(name, revision)
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # a missing head is told by what is returned
    try:
        model, info = AutoModelForMaskedLM.from_pretrained(
            name,
            config=config,
            dtype=torch.float32,
            revision=revision,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
        )
    except ValueError as error:
        raise EncoderError(f"{name}: it has no masked language model to pre-train: {error}") from error
    finally:
        logging.set_verbosity(verbosity)
    own = {key for key, _ in model.named_parameters() if not key.startswith(f"{model.base_model_prefix}.")}
    parts = [part for child, part in model.named_children() if child != model.base_model_prefix]
    head = nn.Sequential(*parts)
    model_of: Any = encoder
    inputs = model_of.get_input_embeddings()
    output = model.get_output_embeddings()
    if output.weight is model.get_input_embeddings().weight:
        output.weight = inputs.weight
    loaded = not any(str(key) in own for key in info["missing_keys"])
    return head.to(inputs.weight.device), loaded

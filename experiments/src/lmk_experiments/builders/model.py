"""A small ModernBERT with random weights and its tokenizer, made from numbers alone."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL_TOKENS = {
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "mask_token": "[MASK]",
}


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a ModernBERT.

    Attributes:
        global_layers: the layers that see the whole text, counted from 0; the others see ``local_attention`` tokens.
            The last one should be among them, else CLS couldn't hear of anything but the text's beginning there.
        seed: decides the weights.
    """

    hidden: int
    layers: int
    heads: int
    intermediate: int
    vocabulary: int
    global_layers: tuple[int, ...] = (1,)
    local_attention: int = 128
    positions: int = 8192
    seed: int = 0

    @property
    def initializer_range(self) -> float:
        """Standard deviation of the weights: ModernBERT-base's 0.02 at 768 dimensions, scaled to equal activations.

        With 0.02 itself attention starts out uniform in so small a model, and CLS learns next to nothing for hundreds
        of steps.
        """
        return round(0.02 * math.sqrt(768 / self.hidden), 4)


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """Train a byte-level BPE for code and prose; equal texts give an equal tokenizer.

    Case is dropped and names are split at ``camelCase``, ``snake_case`` and punctuation, so that a docstring's words
    are the tokens of the names in the code: a vocabulary and a model this small can't learn these ties by themselves.
    """
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE(unk_token=SPECIAL_TOKENS["unk_token"]))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFC(),
            normalizers.Replace(Regex(r"(?<=[a-z0-9])(?=[A-Z])"), " "),
            normalizers.Lowercase(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL_TOKENS.values()),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    first, last = SPECIAL_TOKENS["cls_token"], SPECIAL_TOKENS["sep_token"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last} $B {last}",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (first, last)],
    )
    return tokenizer


def save_model(folder: Path, tokenizer: Tokenizer, shape: ModelShape) -> None:
    """Save tokenizer and initial weights so that `AutoModel` and `AutoTokenizer` load them.

    Equal shapes and seeds give equal weights, and the process's own random state is left as it was.
    """
    import torch
    from transformers import ModernBertConfig, ModernBertModel, PreTrainedTokenizerFast
    from transformers.utils import logging

    from lmk_core.encoders import save_encoder

    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=shape.positions,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        **SPECIAL_TOKENS,
    )
    wrapped.save_pretrained(folder)
    config = ModernBertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        max_position_embeddings=shape.positions,
        local_attention=shape.local_attention,
        initializer_range=shape.initializer_range,
        layer_types=[
            "full_attention" if layer in shape.global_layers else "sliding_attention" for layer in range(shape.layers)
        ],
        pad_token_id=wrapped.pad_token_id,
        cls_token_id=wrapped.cls_token_id,
        sep_token_id=wrapped.sep_token_id,
        bos_token_id=wrapped.cls_token_id,
        eos_token_id=wrapped.sep_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(shape.seed)
        model = ModernBertModel(config).float()
    was_shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # a bar of its own for one file of a few megabytes
    try:
        save_encoder(model, folder)
    finally:
        if was_shown:
            logging.enable_progress_bar()

"""`RetroMae`: the encoder, the head of its language model, and the decoder that is only there while it trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lmk_core.encoders import PooledEncoder
from lmk_train.retromae.batches import MaskedBatch
from lmk_train.retromae.decoder import PooledDecoder
from lmk_train.retromae.scores import token_loss

_HEAD_WIDTH = 64
"""Of the decoder's heads where the encoder's config does not say how many it has."""


@dataclass(frozen=True)
class Losses:
    """Sums over the tokens of some texts; each divided by its number of tokens, they add up to the step's loss."""

    encoder: Float[Tensor, ""]
    """Of the masked tokens, from what the encoder made of them."""
    decoder: Float[Tensor, ""]
    """Of all the texts' own tokens, from their pooled vectors."""


class RetroMae(nn.Module):
    """RetroMAE (Xiao et al. 2022, https://arxiv.org/abs/2205.12035) with any pooling; section 6.3 of the paper.

    The encoder reads a text of which few words are masked, and guesses these. Its hidden states are pooled, as they
    will be after fine-tuning: CLS in RetroMAE, the mean of the landmarks here. From that vector and the embeddings of
    half of the words, drawn anew for each position, the decoder guesses every word. One head of the language model
    serves both.

    Args:
        encoder: the pooled encoder that is pre-trained.
        head: from its hidden states to scores of the vocabulary.
        packed: whether texts are encoded one behind the other; else padded, which is the reference.
    """

    def __init__(self, encoder: PooledEncoder, head: nn.Module, *, packed: bool = True) -> None:
        super().__init__()
        config: Any = encoder.encoder.config
        self.encoder, self.head, self.packed = encoder, head, packed
        self.vocabulary = int(config.vocab_size)
        self.decoder = PooledDecoder(
            encoder.dim,
            int(getattr(config, "num_attention_heads", None) or encoder.dim // _HEAD_WIDTH),
            int(getattr(config, "intermediate_size", None) or 4 * encoder.dim),
            float(getattr(config, "initializer_range", 0.02)),
        )

    def forward(self, batch: MaskedBatch) -> Losses:
        """Both losses of some texts."""
        hidden = self.hidden_states(batch)
        return Losses(
            self._guess(hidden.index_select(0, batch.masked), batch, batch.masked),
            self.decoder_loss(self.pooled(hidden, batch), batch),
        )

    def hidden_states(self, batch: MaskedBatch) -> Float[Tensor, "tokens dim"]:
        """The encoder's last hidden states of what it reads, one text behind the other."""
        if self.packed:
            return self.encoder.hidden_states_packed(batch.read, batch.cu_seqlens, batch.max_seqlen)
        shape = (len(batch.bounds) - 1, batch.max_seqlen)
        ids = batch.read.new_zeros(shape)
        is_real = torch.zeros(shape, dtype=torch.long, device=ids.device)
        ids[batch.texts, batch.positions] = batch.read
        is_real[batch.texts, batch.positions] = 1
        return self.encoder.hidden_states(ids, is_real)[batch.texts, batch.positions]

    def pooled(self, hidden: Float[Tensor, "tokens dim"], batch: MaskedBatch) -> Float[Tensor, "texts dim"]:
        """The texts' vectors, as the reduction gives them: in float32, of any length."""
        reduction: Any = self.encoder.reduction
        return reduction.packed(hidden.index_select(0, batch.pooled), batch.pooled_texts, len(batch.bounds) - 1).float()

    def decoder_loss(self, pooled: Float[Tensor, "texts dim"], batch: MaskedBatch) -> Float[Tensor, ""]:
        """What the decoder loses on the texts, given their vectors."""
        encoder: Any = self.encoder.encoder
        embeddings = encoder.get_input_embeddings()
        made = self.decoder(pooled, embeddings(batch.ids), batch.sight, batch.positions, batch.texts)
        return self._guess(made.index_select(0, batch.guessed), batch, batch.guessed)

    def _guess(self, hidden: Tensor, batch: MaskedBatch, places: Tensor) -> Float[Tensor, ""]:
        return token_loss(self.head, hidden, batch.ids[places], vocabulary=self.vocabulary)

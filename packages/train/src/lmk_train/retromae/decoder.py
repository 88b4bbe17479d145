"""`PooledDecoder`: one layer that has to rebuild a text from its pooled vector and half of its tokens."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from lmk_train.retromae.attention import Sight, blocked_attention

THETA = 160_000.0
"""Base of the rotary frequencies: that of ModernBERT's global layers, of mmBERT's and of gte's."""


class PooledDecoder(nn.Module):
    """The decoder of RetroMAE (section 3.3): "enhanced decoding" with one layer, discarded after pre-training.

    Each position asks with the pooled vector and its own place, and is answered by the pooled vector (at its text's
    first position) and the embeddings of the tokens that it may see. It never sees what the encoder made of a token,
    but in that one vector. Positions are rotary, since encoders with rotary positions have no table of them: BERT's
    layer, which the published code takes, would see no order here.

    Args:
        dim: width of the encoder's hidden states.
        heads: of the attention.
        intermediate: width of the feed-forward layer.
        std: of the new weights.
    """

    def __init__(self, dim: int, heads: int, intermediate: int, std: float = 0.02) -> None:
        super().__init__()
        if dim % heads or (dim // heads) % 2:
            raise ValueError(f"a decoder of {dim} dimensions has no {heads} heads of an even width")
        self.heads = heads
        self.pooled_norm, self.token_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.query, self.key, self.value = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.attention_norm, self.out_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.wide, self.narrow = nn.Linear(dim, intermediate), nn.Linear(intermediate, dim)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=std)
                nn.init.zeros_(layer.bias)

    def forward(
        self,
        pooled: Float[Tensor, "texts dim"],
        embedded: Float[Tensor, "tokens dim"],
        sight: Sight,
        positions: Int[Tensor, " tokens"],
        texts: Int[Tensor, " tokens"],
    ) -> Float[Tensor, "tokens dim"]:
        """What the decoder makes of each position, for the language model's head.

        Args:
            pooled: the texts' pooled vectors, of any length.
            embedded: the embeddings of the texts' own tokens, those that were masked for the encoder too.
            sight: what each position sees.
            positions: each token's place in its text.
            texts: the text of each token.
        """
        asked = self.pooled_norm(pooled)
        answered = self.token_norm(embedded).index_copy(0, _firsts(sight, texts), asked.to(embedded.dtype))
        query = rotate(self._by_head(self.query(asked)[texts]), positions)
        key = rotate(self._by_head(self.key(answered)), positions)
        value = self._by_head(self.value(answered))
        seen = attention(query, key, value, sight).flatten(1)
        hidden = self.attention_norm(asked[texts] + self.out(seen))
        return self.out_norm(hidden + self.narrow(functional.gelu(self.wide(hidden))))

    def _by_head(self, states: Float[Tensor, "tokens dim"]) -> Float[Tensor, "tokens heads width"]:
        return states.unflatten(-1, (self.heads, -1))


def attention(query: Tensor, key: Tensor, value: Tensor, sight: Sight) -> Tensor:
    """FlexAttention on a GPU, blocks of rows elsewhere: neither has a whole mask."""
    if query.is_cuda:
        from lmk_train.retromae.flex import flex

        return flex(query, key, value, sight)
    return blocked_attention(query, key, value, sight)


def rotate(
    states: Float[Tensor, "tokens heads width"], positions: Int[Tensor, " tokens"]
) -> Float[Tensor, "tokens heads width"]:
    """Rotary positions (Su et al. 2021, https://arxiv.org/abs/2104.09864), computed in float32."""
    half = states.shape[-1] // 2
    frequencies = THETA ** (-torch.arange(half, device=states.device, dtype=torch.float32) / half)
    angles = (positions[:, None].float() * frequencies)[:, None]
    first, second = states.float().split(half, dim=-1)
    sine, cosine = angles.sin(), angles.cos()
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1).to(states.dtype)


def _firsts(sight: Sight, texts: Tensor) -> Int[Tensor, " texts"]:
    return torch.tensor(sight.bounds[:-1], device=texts.device)

"""Figure 2: rows equal to those of the full eager matrix, no memory of the square of a length, bins by position."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoConfig, AutoModel, AutoTokenizer

from lmk_core import Embedder, PooledEncoder, PoolingConfig, PoolingTokenizer
from lmk_eval.analyses import AnalysisError, Series, analyse_attention
from lmk_eval.analyses.attention import attention_rows, mean_attention
from lmk_eval.analyses.attention.profile import bin_density

SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "cls_token_id": 1, "eos_token_id": 2, "sep_token_id": 2}
SMALL = {
    "vocab_size": 512,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_attention_heads": 2,
    "initializer_range": 0.3,
    "max_position_embeddings": 9000,
}
WORDS = ["the", "river", "stone", "house", "light", "water", "garden", "window", "letter", "morning", "winter"]
LANDMARK = PoolingConfig("landmark", granularity=8)


def text_of(words: int, seed: int = 0) -> str:
    return " ".join(np.random.default_rng(seed).choice(WORDS, words))


@pytest.fixture(scope="module")
def embedder_of(tiny_model):
    """An `Embedder` of a random model: ModernBERT (layers 0 and 3 see all, the others 8 tokens), gte or BERT."""

    def make(kind: str, pooling: PoolingConfig, max_length: int = 200, layers: int = 4) -> Embedder:
        local = {"local_attention": 16} if kind == "modernbert" else {}
        config = AutoConfig.for_model(kind, **SMALL, num_hidden_layers=layers, **local, **SPECIAL)
        with torch.random.fork_rng():
            torch.manual_seed(3)
            encoder = AutoModel.from_config(config).eval()
        tokenizer = AutoTokenizer.from_pretrained(tiny_model)
        return Embedder(PooledEncoder(encoder, pooling), PoolingTokenizer(tokenizer, pooling, max_length))

    return make


@pytest.mark.parametrize("pooling", [PoolingConfig("cls"), LANDMARK], ids=lambda pooling: pooling.kind)
@pytest.mark.parametrize("layer", [-1, 2, 0])
@pytest.mark.parametrize("kind", ["modernbert", "gte", "bert"])
def test_rows_are_those_of_the_full_eager_matrix(embedder_of, kind, layer, pooling) -> None:
    embedder = embedder_of(kind, pooling)
    (layout,) = embedder.tokenizer.layouts([text_of(60)])
    found = attention_rows(embedder, layout, layer)
    encoder = embedder.module.encoder
    encoder.set_attn_implementation("eager")
    ids = torch.tensor([layout.input_ids])
    with torch.no_grad():
        full = encoder(input_ids=ids, attention_mask=torch.ones_like(ids), output_attentions=True).attentions[layer][0]
    torch.testing.assert_close(found, full[:, layout.pooled], atol=1e-5, rtol=0)
    torch.testing.assert_close(found.sum(dim=-1), torch.ones(found.shape[:2]), atol=1e-5, rtol=0)
    assert full.max() > 3 / len(layout)  # not so flat that anything would be equal


def test_the_mean_of_rows_in_blocks_is_the_mean_of_the_rows(embedder_of, monkeypatch) -> None:
    embedder = embedder_of("modernbert", LANDMARK)
    (layout,) = embedder.tokenizer.layouts([text_of(60)])
    wanted = attention_rows(embedder, layout).mean(dim=(0, 1)).double().numpy()
    monkeypatch.setattr("lmk_eval.analyses.attention.rows._BLOCK_NUMBERS", 3 * 2 * len(layout))
    shares, window = mean_attention(embedder, layout)
    np.testing.assert_allclose(shares, wanted, atol=1e-6)
    assert window is None
    assert shares.sum() == pytest.approx(1, abs=1e-6)


def test_a_local_layer_says_how_far_it_sees(embedder_of) -> None:
    embedder = embedder_of("modernbert", PoolingConfig("cls"))
    (layout,) = embedder.tokenizer.layouts([text_of(60)])
    shares, window = mean_attention(embedder, layout, layer=1)
    assert window == 8
    assert (shares[:9] > 0).all()
    assert (shares[9:] == 0).all()


class Largest(TorchDispatchMode):
    """Remembers how many numbers the largest tensor has that any operation makes."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for made in tree_leaves(out):
            if isinstance(made, torch.Tensor) and not made._is_view():
                self.numbers = max(self.numbers, made.numel())
        return out


@pytest.mark.parametrize("kind", ["modernbert", "gte"])
def test_8192_tokens_need_no_matrix_of_the_whole_text(embedder_of, kind) -> None:
    embedder = embedder_of(kind, PoolingConfig("landmark", granularity=64), max_length=8192, layers=1)
    (layout,) = embedder.tokenizer.layouts([text_of(9000)])
    assert len(layout) == 8192
    with Largest() as largest:
        shares, _ = mean_attention(embedder, layout)
    assert shares.sum() == pytest.approx(1, abs=1e-4)
    assert largest.numbers < 8192 * 8192 / 16  # a block of rows, 16 MB; one head's matrix would be 16 times as large


def test_bins_are_multiples_of_uniform_attention() -> None:
    shares = np.array([0.5, 0.1, 0.1, 0.1, 0.1, 0.1, 0.0, 0.0])
    np.testing.assert_allclose(bin_density(shares, 4, "fraction", 99), [2.4, 0.8, 0.8, 0.0])
    # Of 16 tokens this document has the first half only.
    np.testing.assert_allclose(bin_density(shares, 4, "tokens", 16), [1.6, 0.4, np.nan, np.nan])
    uniform = np.full(10, 0.1)
    np.testing.assert_allclose(bin_density(uniform, 3, "fraction", 10), [1, 1, 1])


def test_several_models_and_lengths_over_long_documents(embedder_of) -> None:
    series = [
        Series("first", embedder_of("modernbert", PoolingConfig("cls"))),
        Series("landmarks", embedder_of("gte", LANDMARK)),
    ]
    texts = ["too short", *(text_of(300, seed) for seed in range(4))]
    analysis = analyse_attention(series, texts, [64, 128], bins=8, documents=3)
    rows = analysis.tables[""]
    assert len(rows) == 2 * 2 * 8
    assert {row["documents"] for row in rows} == {3}
    for name in ("first", "landmarks"):
        for length in (64, 128):
            values = [
                row["attention_relative_to_uniform"]
                for row in rows
                if row["series"] == name and row["max_length"] == length
            ]
            assert np.mean(values) == pytest.approx(1, abs=1e-5)  # equal bins of whole documents
    for line in analysis.summary:
        assert 0 < line["share_of_first_tenth"] < 1
        assert 0 < line["share_of_special_tokens"] < 1
    assert analysis.settings["documents"] == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"texts": ["short"]}, "none of 1 has 64 tokens or more, the longest has"),
        ({"layer": 7}, "layer: 7; valid: -4 to 3"),
        ({"max_lengths": []}, "max_lengths: .*different numbers of at least 2"),
        ({"bins": 65}, "bins: 65; valid: 1 to 64"),
    ],
)
def test_what_cannot_be_analysed_is_said(embedder_of, changes, message) -> None:
    series = [Series("one", embedder_of("modernbert", PoolingConfig("cls")))]
    settings = {"texts": [text_of(200)], "max_lengths": [64], "bins": 8, **changes}
    with pytest.raises(AnalysisError, match=message):
        analyse_attention(series, settings.pop("texts"), settings.pop("max_lengths"), **settings)


def test_a_length_beyond_the_table_of_positions_is_refused(embedder_of) -> None:
    series = [Series("one", embedder_of("bert", PoolingConfig("cls")))]
    with pytest.raises(ValueError, match="9001 is beyond the model's table of positions; at most 9000"):
        analyse_attention(series, [text_of(200)], [9001])


def test_a_model_that_shows_no_attention_is_refused(embedder_of) -> None:
    embedder = embedder_of("bert", PoolingConfig("cls"))
    embedder.module.encoder.set_attn_implementation("eager")
    with pytest.raises(AnalysisError, match="attention implementation is 'eager'"):
        analyse_attention([Series("one", embedder)], [text_of(200)], [64], bins=8)

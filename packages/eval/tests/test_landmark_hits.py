"""Figure 4: on an encoder whose landmarks look left and right in a known proportion, that proportion comes back."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from transformers import AutoTokenizer

from lmk_core import Embedder, PooledEncoder, PoolingConfig, PoolingTokenizer
from lmk_eval.analyses import AnalysisError, Series, analyse_landmarks
from lmk_eval.analyses.landmarks import chunk_document, neighbour_hits
from lmk_eval.analyses.landmarks.vectors import Encoder

SEP = 2
CHUNK = 4


class Looking(nn.Module):
    """A landmark's state is a sum over one chunk's tokens: the right one's for every fourth, else the left one's.

    A landmark that has nothing to its right looks left.
    """

    def __init__(self, dim: int = 64, vocabulary: int = 512) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.table = nn.Parameter(torch.randn(vocabulary, dim, generator=generator))
        self.config = SimpleNamespace(hidden_size=dim, model_type="looking")

    def chunk(self, ids):
        """Weighted by place, so that no two chunks have the same."""
        return (self.table[ids] * torch.arange(1, len(ids) + 1)[:, None]).sum(dim=0)

    def forward(self, input_ids, attention_mask):
        states = self.table[input_ids].clone()
        for row, ids in enumerate(input_ids):
            places = [0, *torch.nonzero(ids == SEP).flatten().tolist()]
            sums = [self.chunk(ids[a + 1 : b]) for a, b in pairwise(places)]
            for number, place in enumerate(places[1:]):
                right = number % 4 == 3 and number + 1 < len(sums)
                states[row, place] = sums[number + 1 if right else number]
        return SimpleNamespace(last_hidden_state=states)


@pytest.fixture
def looking(tiny_model) -> Embedder:
    pooling = PoolingConfig("landmark", granularity=CHUNK)
    tokenizer = PoolingTokenizer(AutoTokenizer.from_pretrained(tiny_model), pooling, 4096)
    return Embedder(PooledEncoder(Looking(), pooling), tokenizer)


def text_of(words: int, seed: int) -> str:
    return " ".join(str(number) for number in np.random.default_rng(seed).integers(10**6, 10**7, words))


def test_the_bias_of_a_constructed_encoder_comes_back(looking) -> None:
    texts = ["too short", *(text_of(40, seed) for seed in range(3))]
    analysis = analyse_landmarks([Series("looking", looking)], texts, k=1, min_chunks=33, max_chunks=33, documents=2)
    # 32 landmarks have two neighbours; every fourth of them copies its right chunk, the others their left one.
    (found, reverse) = analysis.summary
    assert (found["find"], found["left"], found["right"]) == ("chunk", 0.75, 0.25)
    assert found["bias"] == pytest.approx(0.5)
    assert found["bias_standard_error"] == pytest.approx(0)
    assert found["chance"] == pytest.approx(1 / 33)
    assert (found["documents"], found["chunks"]) == (2, 33)
    assert reverse["find"] == "landmark"
    far = {row["distance"]: row["hit"] for row in analysis.tables["distance"] if row["find"] == "chunk"}
    assert far[-1] == 0.75
    assert far[1] == 0.25
    assert max(far[distance] for distance in far if abs(distance) > 1) == 0
    by_k = [row for row in analysis.tables[""] if row["find"] == "chunk"]
    assert [row["k"] for row in by_k] == list(range(1, len(by_k) + 1))
    assert all(after["left"] >= before["left"] for before, after in pairwise(by_k))


def test_chunks_alone_have_the_tokens_of_the_whole(looking) -> None:
    text = text_of(10, 0)
    (layout,) = looking.tokenizer.layouts([text])
    chunked = chunk_document(looking, text, 4096, 5)
    assert chunked.whole.input_ids == layout.input_ids[: layout.pooled[4] + 1]
    assert chunked.whole.pooled == layout.pooled[:5]
    assert [one.pooled for one in chunked.alone] == [[CHUNK + 1]] * 5
    assert chunked.alone[0].input_ids == layout.input_ids[: CHUNK + 2]
    assert chunked.alone[1].input_ids == [1, *layout.input_ids[CHUNK + 2 : 2 * CHUNK + 3]]


def test_vectors_are_those_of_encode_landmarks(tiny_model) -> None:
    embedder = Embedder.from_pretrained(tiny_model, granularity=CHUNK, max_length=256)
    texts = [text_of(30, 1), text_of(12, 2)]
    chunked = [chunk_document(embedder, text, 256, None) for text in texts]
    found = Encoder(embedder)([one.whole for one in chunked])
    wanted = np.concatenate([one.vectors[: len(one.vectors)] for one in embedder.encode_landmarks(texts)])
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_hits_by_hand() -> None:
    chunks = np.eye(4)
    # The first landmark is nearest to chunk 0, then 1; the second to 2, then 1; the third to 0, 3, then 2 and 1 alike.
    landmarks = np.array([[3, 2, 0, 0], [0, 1, 2, 0], [5, 1, 1, 4], [9, 9, 9, 9]], dtype=float)
    np.testing.assert_allclose(neighbour_hits(landmarks, chunks, -1, 4), [1 / 3, 2 / 3, 2 / 3 + 1 / 6, 1])
    np.testing.assert_allclose(neighbour_hits(landmarks, chunks, 1, 2), [1 / 3, 1])
    np.testing.assert_allclose(neighbour_hits(landmarks, chunks, -2, 1), [0])
    # Chunk 0 looks for landmark 0 and finds landmark 2 as near as the cosines say.
    cosines = landmarks / np.linalg.norm(landmarks, axis=1, keepdims=True)
    ranks = [1 + int((cosines[:, place] > cosines[place, place]).sum()) for place in range(3)]
    wanted = [np.mean([rank <= k for rank in ranks]) for k in (1, 2, 3)]
    np.testing.assert_allclose(neighbour_hits(landmarks, chunks, -1, 3, "landmark"), wanted)


def test_equal_vectors_score_what_guessing_does() -> None:
    same = np.ones((8, 3))
    np.testing.assert_allclose(neighbour_hits(same, same, -1, 4), [1 / 8, 2 / 8, 3 / 8, 4 / 8])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "none of 1 has 256 chunks or more within 1281 tokens for one, the most are"),
        ({"k": 256}, "k: 256; valid: 1 to 255"),
        ({"max_chunks": 10}, "max_chunks: 10 is below min_chunks, 256"),
        ({"max_chunks": None}, "max_length: must be given"),
    ],
)
def test_what_cannot_be_analysed_is_said(looking, changes, message) -> None:
    with pytest.raises(AnalysisError, match=message):
        analyse_landmarks([Series("one", looking)], [text_of(20, 0)], **changes)


def test_only_landmarks_have_neighbours(tiny_model) -> None:
    with pytest.raises(AnalysisError, match="one: is read as 'cls'"):
        analyse_landmarks([Series("one", Embedder.from_pretrained(tiny_model, "cls"))], ["a"])

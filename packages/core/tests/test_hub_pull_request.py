"""Beside Sentence Transformers' open pull request on landmark pooling (number 3642): what is equal, what differs.

Written here from what its three public versions do, in as few lines as possible: the layout is a list of ids, and
what is pooled is every attended position that holds the landmark's id, or all of them where there is none.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lmk_core import Embedder, PoolingConfig, load_sentence_transformer

CLS, SEP = 1, 2
PAPER, FIRST, LAST = "c76ed3e9", "a819254a", "25838254"
"""The version of the paper's layout, the one before it, and the maintainer's."""


def their_ids(tokenizer, text, size, max_length, version=PAPER):
    """One text as the version lays it out; special tokens are found in texts, and outer white space is dropped."""
    ids = tokenizer(text.strip(), add_special_tokens=False)["input_ids"]
    body = [token for start in range(0, len(ids), size) for token in [*ids[start : start + size], SEP]]
    if not ids:
        body = {PAPER: [SEP], FIRST: [], LAST: [SEP]}[version]
    out = [CLS, *body, *([SEP] if version == LAST else [])][:max_length]
    return out if SEP in out else [*out[:-1], SEP]


def their_vectors(embedder, rows):
    """Padded, attended and pooled by ids, and normalised."""
    pad = embedder.tokenizer.hf_tokenizer.pad_token_id
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=pad)
    attention = ids != pad
    with torch.no_grad():
        hidden = embedder.module.hidden_states(ids, attention.long())
    pooled = (ids == SEP) & attention
    pooled = torch.where(pooled.any(1, keepdim=True), pooled, attention)
    means = torch.stack([states[mask].mean(0) for states, mask in zip(hidden, pooled, strict=True)])
    return torch.nn.functional.normalize(means, dim=-1).numpy()


@pytest.fixture
def embedder(tiny_model_folder):
    return Embedder.from_pretrained(tiny_model_folder, "landmark", 8, max_length=60)


@pytest.fixture
def texts(texts_of):
    return ["", *texts_of([1, 7, 8, 9, 16, 17, 49, 51, 52, 53, 120])]


def both(embedder, texts, version=PAPER, size=8, max_length=60):
    theirs = [their_ids(embedder.tokenizer.hf_tokenizer, text, size, max_length, version) for text in texts]
    ours = [layout.input_ids for layout in embedder.tokenizer.layouts(texts, granularity=size, max_length=max_length)]
    return theirs, ours


@pytest.mark.parametrize("size", [1, 8, 59, 100])
@pytest.mark.parametrize("max_length", [2, 9, 10, 11, 60])
def test_the_papers_layout_is_equal(embedder, texts, size, max_length):
    theirs, ours = both(embedder, texts, size=size, max_length=max_length)
    assert theirs == ours


def test_its_vectors_are_equal(embedder, texts, tmp_path):
    model = load_sentence_transformer(embedder.save_pretrained(tmp_path / "model"))
    theirs, _ = both(embedder, texts)
    np.testing.assert_allclose(model.encode(texts), their_vectors(embedder, theirs), atol=1e-5)


def test_the_maintainers_version_ends_in_one_more_landmark(embedder, texts):
    """It keeps the tokenizer's own SEP behind the last landmark, and pools both. A text that is cut is the same."""
    theirs, ours = both(embedder, texts, LAST)
    fits = [len(row) < 60 for row in ours]
    assert True in fits
    assert False in fits
    for their_row, row, whole in zip(theirs, ours, fits, strict=True):
        assert their_row == (([*row, SEP]) if whole else row)
    difference = np.abs(embedder.encode(texts) - their_vectors(embedder, theirs)).max(axis=1)
    assert (difference[np.array(fits)] > 1e-3).all()
    assert (difference[~np.array(fits)] < 1e-5).all()


def test_an_empty_text_of_the_first_version_has_no_cls(embedder):
    theirs, ours = both(embedder, [""], FIRST)
    assert (theirs, ours) == ([[SEP]], [[CLS, SEP]])


def test_characters_of_special_tokens_are_text_here(embedder):
    """There they become landmarks."""
    text = "the [SEP] river [SEP] of stone"
    (theirs,), (ours,) = both(embedder, [text])
    assert (theirs.count(SEP), ours.count(SEP)) == (3, len(embedder.tokenizer.layouts([text])[0].pooled))
    assert embedder.tokenizer.hf_tokenizer.decode([token for token in ours if token not in (CLS, SEP)]) == text


def test_outer_white_space_is_text_here(embedder):
    """There it is dropped."""
    theirs, ours = both(embedder, ["  the river ", "the river"])
    assert theirs[0] == theirs[1] == ours[1]
    assert ours[0] != ours[1]


def test_a_padding_token_that_is_the_landmark_hides_nothing_here(embedder, texts):
    """There no landmark is attended: what is pooled is all the rest."""
    theirs, ours = both(embedder, texts[3:])
    expected = embedder.encode(texts[3:])
    embedder.tokenizer.hf_tokenizer.pad_token = "[SEP]"
    assert theirs == ours
    again = Embedder(embedder.module, embedder.tokenizer.with_pooling(embedder.pooling))
    np.testing.assert_allclose(again.encode(texts[3:]), expected, atol=1e-5)
    assert np.abs(their_vectors(embedder, theirs) - expected).max(axis=1).min() > 1e-3


def test_a_tokenizer_without_cls_is_taken_here(embedder):
    """The version of the paper's layout refuses it; the maintainer's starts with the text, as it is here."""
    embedder.tokenizer.hf_tokenizer.cls_token = None
    again = embedder.tokenizer.with_pooling(embedder.pooling)
    theirs = their_ids(again.hf_tokenizer, "the river", 8, 60)
    assert again.layouts(["the river"])[0].input_ids == theirs[1:]


def test_several_sizes_are_read_at_the_smallest(embedder, texts, tmp_path):
    """There another size may be named for reading; here the saved model is opened with it. No draw when reading."""
    variable = embedder.with_pooling(PoolingConfig("landmark", granularity=(8, 16, 32)))
    folder = variable.save_pretrained(tmp_path / "model")
    model = load_sentence_transformer(folder)
    theirs, _ = both(embedder, texts)
    wanted = their_vectors(embedder, theirs)
    for _ in range(2):
        np.testing.assert_allclose(model.encode(texts), wanted, atol=1e-5)
    theirs, _ = both(embedder, texts, size=16)
    wanted = their_vectors(embedder, theirs)
    np.testing.assert_allclose(Embedder.from_pretrained(folder, granularity=16).encode(texts), wanted, atol=1e-5)

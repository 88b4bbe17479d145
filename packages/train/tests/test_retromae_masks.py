from __future__ import annotations

import gzip
import itertools
import shutil

import numpy as np
import pytest
from transformers import AutoTokenizer

from lmk_core.layouts import PoolingTokenizer
from lmk_core.pooling import PoolingConfig
from lmk_core.texts.words import tokenize_words
from lmk_train.retromae import MaskedText, Masking
from lmk_train.retromae.masks import PATTERNS, hide_patterns, hide_words, replace_masked

LANDMARK = PoolingConfig("landmark", granularity=4)


def words_of(begins):
    return np.cumsum(begins) - 1


def random_words(tokens, seed=0):
    begins = np.random.RandomState(seed).random_sample(tokens) < 0.6
    begins[0] = True
    return begins


@pytest.mark.parametrize("share", [0.3, 0.5])
@pytest.mark.parametrize("tokens", [1, 2, 7, 100, 8192])
def test_whole_words_are_hidden_without_a_cap(tokens, share):
    """The published code stops at 512 tokens, which is 6% of a long text."""
    begins = random_words(tokens)
    hidden = hide_words(begins, share, np.random.RandomState(1))
    longest = np.bincount(words_of(begins)).max()
    wanted = max(round(share * tokens), 1)
    assert wanted - longest < hidden.sum() <= wanted
    if longest <= wanted:
        for word in range(words_of(begins).max() + 1):
            assert len(set(hidden[words_of(begins) == word])) == 1


def test_every_word_is_hidden_as_often_as_any_other():
    begins = random_words(200)
    counts = sum(hide_words(begins, 0.4, np.random.RandomState(seed)).astype(int) for seed in range(2000))
    assert (abs(counts / 2000 - 0.4) < 0.05).all()


def test_a_text_that_is_one_word_is_masked_token_by_token():
    begins = np.zeros(100, dtype=bool)
    hidden = hide_words(begins, 0.3, np.random.RandomState(0))
    assert hidden.sum() == 30
    assert not hide_words(np.zeros(0, dtype=bool), 0.3, np.random.RandomState(0)).size


def test_the_decoder_has_a_pattern_for_each_position():
    begins = random_words(1000)
    hidden, patterns = hide_patterns(begins, 0.5, np.random.RandomState(0))
    assert hidden.shape == (PATTERNS, 1000)
    assert len({row.tobytes() for row in hidden}) == PATTERNS
    assert (abs(hidden.mean(axis=1) - 0.5) < 0.01).all()
    assert set(patterns) == set(range(PATTERNS))
    few, of_few = hide_patterns(begins[:5], 0.5, np.random.RandomState(0))
    assert few.shape == (5, 5)
    assert of_few.max() < 5


def test_masked_tokens_become_mask_another_or_stay():
    ids = np.full(20_000, 7, dtype=np.int32)
    chosen = np.arange(20_000) % 2 == 0
    read = replace_masked(ids, chosen, np.random.RandomState(0), mask_id=3, ordinary=np.arange(10, 60, dtype=np.int32))
    assert (read[~chosen] == 7).all()
    assert abs((read[chosen] == 3).mean() - 0.8) < 0.02
    assert abs((read[chosen] == 7).mean() - 0.1) < 0.02
    others = read[chosen][(read[chosen] != 3) & (read[chosen] != 7)]
    assert set(others) == set(range(10, 60))


@pytest.mark.parametrize("pooling", [PoolingConfig("cls"), LANDMARK], ids=["cls", "landmark"])
@pytest.mark.parametrize("max_length", [9, 32])
def test_special_tokens_stand_once_and_are_never_masked_or_guessed(pooling, max_length, tiny_model):
    """The published collators write `[CLS][CLS] ... [SEP][SEP]`, and mask CLS."""
    hf = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer = PoolingTokenizer(hf, pooling, max_length)
    masking = Masking.of_tokenizer(hf, encoder=0.9, decoder=0.9)
    text = "kabalo mipu nure, kaba [SEP] sota veba lodo kagi mina rado sova taba"
    ids, _, begins = tokenize_words(hf, [text], None)
    layout = tokenizer.layouts([text])[0]
    made = MaskedText.make(layout, begins, masking, landmarks=pooling.kind == "landmark", draw=np.random.RandomState(0))
    special = {hf.cls_token_id, hf.sep_token_id}
    is_special = [token in special for token in layout.input_ids]
    assert is_special[0]
    assert not any(one and other for one, other in itertools.pairwise(is_special))
    assert (~made.is_text == np.array(is_special)).all()
    assert np.array(layout.input_ids)[made.is_text].tolist() == ids[: made.is_text.sum()].tolist()
    for array in (made.masked, *made.hidden):
        assert array[made.is_text].any()
        assert not array[~made.is_text].any()
    assert (made.read == np.array(layout.input_ids))[~made.masked].all()
    masked = made.masked[made.is_text]
    assert all(masked[i] == masked[i - 1] for i in range(1, len(masked)) if not begins[i])


def test_a_tokenizer_without_mask_is_refused(tiny_model):
    hf = AutoTokenizer.from_pretrained(tiny_model)
    hf.mask_token = None
    with pytest.raises(ValueError, match="no MASK token"):
        Masking.of_tokenizer(hf, encoder=0.3, decoder=0.5)


@pytest.fixture(params=["modernbert-base", "bert-base-uncased", "xlm-roberta-base", "gemma2"])
def published(request, shared, tmp_path):
    """A tokenizer of the paper's encoders."""
    for file in (shared / "data/tokenizers" / request.param).iterdir():
        if file.suffix == ".gz":
            (tmp_path / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
        else:
            shutil.copy(file, tmp_path)
    return AutoTokenizer.from_pretrained(tmp_path)


def test_words_of_every_kind_of_vocabulary(published):
    """WordPiece, BPE over bytes and SentencePiece, which mark words in different ways, or not at all."""
    text = "The unquestionable antidisestablishmentarianism of 1234 photosynthesizers [SEP] ended"
    ids, lengths, begins = tokenize_words(published, [text], None)
    assert lengths.tolist() == [len(ids)]
    plain = published(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert ids.tolist() == plain
    pieces = np.split(ids, np.flatnonzero(begins)[1:])
    words = [published.decode(piece).strip().lower() for piece in pieces]
    for word in ("unquestionable", "antidisestablishmentarianism", "photosynthesizers", "ended"):
        assert word in words, words
    cut, *_, of_cut = tokenize_words(published, [text], 5)
    assert cut.tolist() == ids[:5].tolist()
    assert of_cut.tolist() == begins[:5].tolist()

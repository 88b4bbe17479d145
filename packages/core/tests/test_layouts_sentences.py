"""One landmark after each sentence."""

from __future__ import annotations

import builtins
import pickle

import numpy as np
import pytest

from lmk_core import LandmarkTokenizer
from lmk_core.layouts.sentences import SentenceSplitterError, SentencexSplitter, sentence_pieces

TEXT = "The river of Mr. Stone is dark.  Who knows?\n\nThe light! 我很好。你呢？ "


def pieces(text, splitter=None):
    return [text[start:end] for start, end in sentence_pieces(text, splitter or SentencexSplitter())]


def test_pieces_cover_the_text():
    assert pieces(TEXT) == ["The river of Mr. Stone is dark.", "  Who knows?", "\n\nThe light!", " 我很好。", "你呢？ "]
    assert pieces("") == [""]
    assert pieces(" \n ") == [" \n "]
    assert pieces("  One.  ") == ["  One.  "]


def test_a_splitter_may_strip_but_not_change():
    assert pieces("a. b!  c", lambda text: text.split()) == ["a.", " b!", "  c"]
    assert pieces("a. b! c", lambda text: ["a."]) == ["a.", " b! c"]
    assert pieces("a. b", lambda text: []) == ["a. b"]
    for changed in (["A."], ["b!", "a."], ["a.", "a."]):
        with pytest.raises(SentenceSplitterError, match="does not follow"):
            pieces("a. b!", lambda text, changed=changed: changed)


def test_a_landmark_after_each_sentence(tiny_tokenizer):
    tokenizer = LandmarkTokenizer(tiny_tokenizer, "sentence", 512)
    texts = [TEXT, "", "one sentence", " \n "]
    layouts = tokenizer.layouts(texts, with_spans=True)
    plain = tiny_tokenizer(texts, add_special_tokens=False)["input_ids"]
    for text, ids, layout in zip(texts, plain, layouts, strict=True):
        chunks = tiny_tokenizer(pieces(text), add_special_tokens=False)["input_ids"]
        assert layout.input_ids == [1, *[token for chunk in chunks for token in [*chunk, 2]]]
        # White space stays with the following word, so that nothing is lost and the ids are those of the whole text.
        assert np.delete(layout.input_ids, layout.pooled)[1:].tolist() == ids
        assert [text[start:end] for start, end in layout.spans] == pieces(text)
    assert [len(layout.pooled) for layout in layouts] == [5, 1, 1, 1]


def test_overflow(tiny_tokenizer):
    full = LandmarkTokenizer(tiny_tokenizer, "sentence", 512).layouts([TEXT])[0]
    for max_length in range(2, len(full) + 2):
        cut = LandmarkTokenizer(tiny_tokenizer, "sentence", max_length).layouts([TEXT])[0]
        left = [position for position in full.pooled if position < max_length]
        assert cut.pooled == (left or [max_length - 1])
        assert cut.input_ids[:-1] == full.input_ids[: max_length - 1][: len(cut) - 1]
        budget = LandmarkTokenizer(tiny_tokenizer, "sentence", max_length, "budget").layouts([TEXT])[0]
        assert max_length - 1 <= len(budget) <= max_length or budget == full
        assert budget.pooled[-1] == len(budget) - 1
        assert budget.input_ids[:-1] == full.input_ids[: len(budget) - 1]


def test_own_splitter_and_several_texts_in_one_call(tiny_tokenizer):
    tokenizer = LandmarkTokenizer(tiny_tokenizer, "sentence", 512, sentence_splitter=str.splitlines)
    texts = ["a b\nc", "", "d\ne. f\n\ng h"]
    together = tokenizer.layouts(texts)
    assert together == [tokenizer.layouts([text])[0] for text in texts]
    assert [len(layout.pooled) for layout in together] == [2, 1, 3]
    with pytest.raises(SentenceSplitterError, match="does not follow at character 3"):
        LandmarkTokenizer(tiny_tokenizer, "sentence", sentence_splitter=lambda text: text.split("|")).layouts(["a b|c"])


def test_missing_package_says_how_to_install(tiny_tokenizer, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "sentencex":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SentenceSplitterError, match=r"pip install 'lmk-core\[sentences\]'"):
        LandmarkTokenizer(tiny_tokenizer, "sentence")
    LandmarkTokenizer(tiny_tokenizer, "sentence", sentence_splitter=str.splitlines)


def test_a_tokenizer_can_be_sent_to_workers(tiny_tokenizer):
    tokenizer = LandmarkTokenizer(tiny_tokenizer, "sentence", 64)
    assert pickle.loads(pickle.dumps(tokenizer)).layouts([TEXT]) == tokenizer.layouts([TEXT])

"""Where landmarks stand: the paper's counts, edge lengths, overflow, and properties that hold for every text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmk_core import LandmarkTokenizer, PoolingConfig, PoolingTokenizer, SpecialTokens
from lmk_core.layouts import TokenizedTexts
from lmk_core.layouts.landmarks import landmark_layouts
from lmk_core.texts.chunks import Chunks, chunk_parts

TOKENS = SpecialTokens(first=1, landmark=2, pad=0)
HEADLESS = SpecialTokens(first=None, landmark=2, pad=0)


def lay_out(num_tokens, granularity, max_length, overflow="cut", tokens=TOKENS):
    ids = np.arange(100, 100 + num_tokens, dtype=np.int32)
    return landmark_layout(ids, granularity, tokens, max_length, overflow)


def landmark_layout(ids, granularity, tokens, max_length, overflow):
    """The layout of one text, with chunks of a size or with given ends."""
    text = TokenizedTexts(np.array(ids, dtype=np.int32), np.array([0, len(ids)]))
    if isinstance(granularity, int):
        chunks = chunk_parts(*text.parts(), np.array([granularity]))
    else:
        chunks = Chunks(granularity, np.array([0, len(granularity)]))
    (layout,) = landmark_layouts(text, chunks, tokens, max_length, overflow)
    return layout


# Landmarks and text tokens behind the last one, for a text that is longer than max_length.
COUNTS = {
    128: {32: (3, 28), 64: (1, 62), 128: (1, 0), 256: (1, 0)},
    512: {32: (15, 16), 64: (7, 56), 128: (3, 124), 256: (1, 254)},
    8192: {32: (248, 7), 64: (126, 1), 128: (63, 64), 256: (31, 224)},
    32768: {32: (992, 31), 64: (504, 7), 128: (254, 1), 256: (127, 128)},
}


@pytest.mark.parametrize("overflow", ["cut", "budget"])
@pytest.mark.parametrize("granularity", [32, 64, 128, 256])
@pytest.mark.parametrize("max_length", COUNTS)
def test_counts_of_a_text_that_is_cut(max_length, granularity, overflow):
    layout = lay_out(40_000, granularity, max_length, overflow)
    landmarks, tail = COUNTS[max_length][granularity]
    overwritten = max_length - 1 < granularity + 1
    ids = np.array(layout.input_ids)
    assert ids[0] == 1
    assert (ids[layout.pooled] == 2).all()
    assert (ids == 2).sum() == len(layout.pooled)
    if overflow == "cut":
        assert len(layout) == max_length
        assert len(layout.pooled) == landmarks
        assert max_length - 1 - layout.pooled[-1] == tail
        regular = ((1 + np.arange(landmarks)) * (granularity + 1)).tolist()
        assert layout.pooled == ([max_length - 1] if overwritten else regular)
    else:
        assert layout.pooled[-1] == len(layout) - 1
        # One more text token would need one more place than there is; a lone new landmark is never worth one.
        assert len(layout) == max_length - (tail == 1)
        assert len(layout.pooled) == (1 if overwritten else landmarks + (tail > 1))


@pytest.mark.parametrize("granularity", [1, 2, 7, 32, 128])
def test_untruncated_lengths(granularity):
    for num_tokens in (1, granularity - 1, granularity, granularity + 1, 2 * granularity, 3 * granularity + 1):
        if num_tokens < 1:
            continue
        layout = lay_out(num_tokens, granularity, 512)
        chunks = -(-num_tokens // granularity)
        assert len(layout) == 1 + num_tokens + chunks
        assert len(layout.pooled) == chunks
        assert layout.pooled[-1] == len(layout) - 1


def test_one_chunk_exactly_and_one_token_more():
    assert lay_out(4, 4, 512).input_ids == [1, 100, 101, 102, 103, 2]
    assert lay_out(4, 4, 512).pooled == [5]
    assert lay_out(5, 4, 512).input_ids == [1, 100, 101, 102, 103, 2, 104, 2]
    assert lay_out(5, 4, 512).pooled == [5, 7]
    assert lay_out(3, 4, 512).pooled == [4]


@pytest.mark.parametrize("overflow", ["cut", "budget"])
def test_an_empty_text_is_cls_and_one_landmark(overflow):
    layout = lay_out(0, 32, 2, overflow)
    assert layout.input_ids == [1, 2]
    assert layout.pooled == [1]
    assert lay_out(0, 32, 2, overflow, HEADLESS).input_ids == [2]


@pytest.mark.parametrize(
    ("max_length", "overflow", "expected", "pooled"),
    [
        (2, "cut", [1, 2], [1]),
        (3, "cut", [1, 100, 2], [2]),  # the last id is overwritten
        (4, "cut", [1, 100, 101, 2], [3]),
        (5, "cut", [1, 100, 101, 102, 2], [4]),  # the first real landmark
        (6, "cut", [1, 100, 101, 102, 2, 103], [4]),
        (2, "budget", [1, 2], [1]),
        (3, "budget", [1, 100, 2], [2]),
        (5, "budget", [1, 100, 101, 102, 2], [4]),
        (6, "budget", [1, 100, 101, 102, 2], [4]),  # the last place would be a landmark of nothing
        (7, "budget", [1, 100, 101, 102, 2, 103, 2], [4, 6]),
    ],
)
def test_short_maximum_lengths(max_length, overflow, expected, pooled):
    layout = lay_out(50, 3, max_length, overflow)
    assert layout.input_ids == expected
    assert layout.pooled == pooled


def test_without_cls_the_text_comes_first():
    assert lay_out(5, 3, 512, tokens=HEADLESS).input_ids == [100, 101, 102, 2, 103, 104, 2]
    assert lay_out(5, 3, 512, tokens=HEADLESS).pooled == [3, 6]
    assert lay_out(9, 3, 2, tokens=HEADLESS).input_ids == [100, 2]
    assert lay_out(9, 3, 5, "budget", HEADLESS).input_ids == [100, 101, 102, 2]
    assert lay_out(9, 3, 6, "budget", HEADLESS).input_ids == [100, 101, 102, 2, 103, 2]


@pytest.mark.parametrize("granularity", [32, 128, 256])
@pytest.mark.parametrize("num_tokens", range(120, 131))
def test_texts_around_the_maximum_length(num_tokens, granularity):
    for overflow in ("cut", "budget"):
        layout = lay_out(num_tokens, granularity, 128, overflow)
        full = 1 + num_tokens + -(-num_tokens // granularity)
        assert len(layout) <= min(full, 128)
        assert overflow == "budget" or len(layout) == min(full, 128)
        assert layout.pooled
        if full <= 128 or overflow == "budget":
            assert layout.pooled[-1] == len(layout) - 1


def naive(ids, granularity, max_length):
    """Insert, then cut, one token after the other."""
    out, pooled = [1], []
    for start in range(0, len(ids), granularity):
        out += [*ids[start : start + granularity], 2]
        pooled.append(len(out) - 1)
    if not ids:
        out.append(2)
        pooled = [1]
    out, pooled = out[:max_length], [position for position in pooled if position < max_length]
    if not pooled:
        out[-1] = 2
        pooled = [len(out) - 1]
    return out, pooled


@given(
    ids=st.lists(st.integers(0, 50), max_size=120),  # ids of CLS, LMK and PAD among them
    granularity=st.integers(1, 40),
    max_length=st.integers(2, 140),
)
@settings(deadline=None)
def test_cut_is_insert_then_cut(ids, granularity, max_length):
    layout = landmark_layout(ids, granularity, TOKENS, max_length, "cut")
    assert (layout.input_ids, layout.pooled) == naive(ids, granularity, max_length)


@given(
    ids=st.lists(st.integers(0, 50), max_size=120),
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=120),
    max_length=st.integers(2, 140),
    overflow=st.sampled_from(["cut", "budget"]),
    tokens=st.sampled_from([TOKENS, HEADLESS]),
)
@settings(deadline=None)
def test_properties_of_any_chunks(ids, lengths, max_length, overflow, tokens):
    """Chunks of any lengths, as sentences make them."""
    ends = np.cumsum(lengths)
    ends = np.append(ends[ends < len(ids)], len(ids))
    layout = landmark_layout(ids, ends, tokens, max_length, overflow)
    head = 0 if tokens.first is None else 1
    assert len(layout) <= max_length
    assert layout.pooled
    assert layout.pooled == sorted(set(layout.pooled))
    assert all(layout.input_ids[position] == 2 for position in layout.pooled)
    text = np.delete(layout.input_ids, layout.pooled)[head:].tolist()
    assert text == ids[: len(text)]
    whole = head + len(ids) + max(len(ends), 1)
    if whole <= max_length:
        assert len(layout) == whole
    elif overflow == "budget":
        assert layout.pooled[-1] == len(layout) - 1
        assert len(layout) >= max_length - 1
    else:
        assert len(layout) == max_length


@given(text=st.text(max_size=200), granularity=st.integers(1, 20), max_length=st.integers(2, 60))
@settings(deadline=None)
def test_removing_landmarks_gives_the_plain_ids_back(tiny_tokenizer_folder, text, granularity, max_length):
    tokenizer = loaded(tiny_tokenizer_folder)
    (layout,) = LandmarkTokenizer(tokenizer, granularity, max_length).layouts([text])
    clean = text.encode("utf-8", "replace").decode() if any("\ud800" <= c <= "\udfff" for c in text) else text
    plain = tokenizer([clean], add_special_tokens=False, split_special_tokens=True)["input_ids"][0]
    assert len(layout) <= max_length
    kept = np.delete(layout.input_ids, layout.pooled).tolist()
    assert kept == [1, *plain[: len(kept) - 1]]


LOADED = {}


def loaded(folder):
    """One tokenizer for all the examples of a property."""
    from transformers import AutoTokenizer

    if folder not in LOADED:
        LOADED[folder] = AutoTokenizer.from_pretrained(folder)
    return LOADED[folder]


def test_variable_sizes_are_given_one_for_each_text(tiny_tokenizer, texts_of):
    texts = texts_of([100, 100, 100])
    variable = PoolingTokenizer(tiny_tokenizer, PoolingConfig("landmark", granularity=(8, 16, 32)), 512)
    sizes = [32, 8, 16]
    layouts = variable.layouts(texts, granularity=sizes)
    for text, size, layout in zip(texts, sizes, layouts, strict=True):
        assert LandmarkTokenizer(tiny_tokenizer, size, 512).layouts([text]) == [layout]
        assert layout.pooled[:2] == [size + 1, 2 * size + 2]
    assert variable.layouts(texts) == variable.layouts(texts, granularity=8)
    assert variable.layouts(texts, granularity=tuple(sizes)) == layouts
    with pytest.raises(ValueError, match="2 sizes for 3 texts"):
        variable.layouts(texts, granularity=[8, 8])
    with pytest.raises(ValueError, match="at least 1"):
        variable.layouts(texts, granularity=0)

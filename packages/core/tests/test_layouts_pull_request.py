"""How the layout of Sentence Transformers' open pull request on landmark pooling (#3642) differs from ours, exactly.

That one keeps the tokenizer's own final SEP behind the last landmark. As it takes the SEP for the landmark too, and
pools every position that holds this id, a text that fits has one pooled position more. A text that is cut has the same
ids and the same pooled positions in both.
"""

from __future__ import annotations

import pytest

from lmk_core import LandmarkTokenizer

NAMES = ["modernbert-base", "bert-base-uncased", "xlm-roberta-base"]
TEXTS = ["", "the", "the river", "Ein kürzerer Text über Häuser.", "many words and rivers " * 30, "stone " * 200]


def of_the_pull_request(tokenizer, text, interval, max_length):
    """The ids and pooled positions by its rules: its own special tokens stay, and the id says what is pooled."""
    ids = tokenizer(text, verbose=False)["input_ids"]
    landmark, special = tokenizer.sep_token_id, set(tokenizer.all_special_ids)
    head = next((index for index, token in enumerate(ids) if token not in special), len(ids))
    tail = next((index for index in range(len(ids), head, -1) if ids[index - 1] not in special), head)
    content, out = ids[head:tail], ids[:head]
    for start in range(0, max(len(content), 1), interval):
        out = [*out, *content[start : start + interval], landmark]
    out = [*out, *ids[tail:]][:max_length]
    if landmark not in out:
        out[-1] = landmark
    return out, [index for index, token in enumerate(out) if token == landmark]


@pytest.mark.parametrize("name", NAMES)
def test_one_final_sep_is_the_difference(real_tokenizer, name):
    tokenizer = real_tokenizer(name)
    seen = set()
    for interval in (1, 2, 8, 32, 128):
        for max_length in (4, 9, 33, 34, 128, 512):
            layouts = LandmarkTokenizer(tokenizer, interval, max_length).layouts(TEXTS)
            for text, layout in zip(TEXTS, layouts, strict=True):
                ids, pooled = of_the_pull_request(tokenizer, text, interval, max_length)
                fits = len(layout) < max_length
                seen.add(fits)
                assert ids == layout.input_ids + [tokenizer.sep_token_id] * fits
                assert pooled == layout.pooled + [len(layout)] * fits
    assert seen == {True, False}


def test_special_tokens_in_a_text_are_landmarks_there_and_text_here(real_tokenizer):
    tokenizer = real_tokenizer("bert-base-uncased")
    text = "the river [SEP] the house"
    ids, pooled = of_the_pull_request(tokenizer, text, 32, 64)
    assert ids == [101, 1996, 2314, 102, 1996, 2160, 102, 102]
    assert pooled == [3, 6, 7]
    (layout,) = LandmarkTokenizer(tokenizer, 32, 64).layouts([text])
    assert layout.pooled == [len(layout) - 1]
    assert layout.input_ids.count(102) == 1

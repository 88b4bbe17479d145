"""Passkeys and needles in any long text: what is made, and that it measures what it says."""

from __future__ import annotations

import hashlib
import re
from itertools import pairwise

import numpy as np
import pytest

from lmk_core import Embedder, PoolingConfig
from lmk_eval import EvaluationError, Suite, Task
from lmk_eval.haystacks import make_haystack, words
from lmk_eval.suites.task import LENGTHS

TEXT = " ".join(
    f"The {word} stood beside the river for {number} days." for number, word in enumerate(words.THINGS * 40)
)


NAMES = [f"{first} {last}" for first in words.FIRST_NAMES for last in words.LAST_NAMES]
NAME = f"(?:{'|'.join(words.FIRST_NAMES)}) (?:{'|'.join(words.LAST_NAMES)})"


class Oracle:
    """Knows the names that can be asked for: a text is the unit vector of the one name it holds."""

    def encode(self, texts, *, max_length=None, batch_tokens=16384):
        out = np.zeros((len(texts), len(NAMES)), dtype=np.float32)
        for row, text in enumerate(texts):
            (name,) = set(re.findall(NAME, text))
            out[row, NAMES.index(name)] = 1
        return out


class Chance:
    """A vector for each text that has nothing to do with it but is always the same."""

    def encode(self, texts, *, max_length=None, batch_tokens=16384):
        seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") for text in texts]
        out = np.stack([np.random.default_rng(seed).normal(size=32) for seed in seeds]).astype(np.float32)
        return out / np.linalg.norm(out, axis=1, keepdims=True)


@pytest.mark.parametrize("kind", ["passkey", "needle"])
@pytest.mark.parametrize("length", [256, 4096])
def test_what_is_made(kind, length):
    made = make_haystack(TEXT, kind, length)
    assert (len(made.documents), len(made.queries)) == (100, 50)
    for text in made.documents.values():
        assert length * 3.5 - 60 < len(text) <= length * 3.5, "about as long as asked for, and never longer"
        assert len(set(re.findall(NAME, text))) == 1
    for query, document in made.relevant.items():
        name = re.search(NAME, made.queries[query])
        assert name is not None
        assert name.group() in made.documents[document]
        assert sum(name.group() in text for text in made.documents.values()) == 1
        place = made.documents[document].index(name.group()) / len(made.documents[document])
        assert abs(place - (made.depths[query] - 0.5) / 4) < 0.25
    assert set(made.depths.values()) == {1, 2, 3, 4}
    assert make_haystack(TEXT, kind, length) == made
    assert make_haystack(TEXT[:-100], kind, length) != made


def test_the_hidden_sentence_stands_between_sentences():
    made = make_haystack(TEXT, "passkey", 1024)
    starts = [text.index(re.search("The passkey of", text).group()) for text in made.documents.values()]
    before = [text[:start].rstrip()[-1:] for text, start in zip(made.documents.values(), starts, strict=True)]
    assert before.count(".") > 90


def test_a_text_without_spaces_and_one_that_is_too_short():
    made = make_haystack("山" * 500 + "。", "passkey", 512, characters_a_token=2.0)
    assert all(len(text) <= 1024 for text in made.documents.values())
    with pytest.raises(ValueError, match=r"64 tokens of 0\.5 characters do not hold"):
        make_haystack(TEXT, "passkey", 64, characters_a_token=0.5)
    with pytest.raises(ValueError, match="no text"):
        make_haystack(" \n", "passkey", 256)


@pytest.mark.parametrize("kind", ["passkey", "needle"])
def test_an_oracle_finds_all_and_chance_finds_none_at_every_length(run, tmp_path, kind):
    (tmp_path / "book.txt").write_text(TEXT)
    task = Task(name="hay", group_by="split", **{kind: str(tmp_path / "book.txt")})
    suite = Suite(name="hay", tasks=(task,))
    best = run(Oracle(), suite, tmp_path / "best")["hay"]
    assert best["main_score"] == best["precision_at_1"] == 1.0
    lengths = [name for name in best if name.startswith("precision_at_1[split=")]
    assert [
        int(name[:-1].rpartition("_")[2]) for name in sorted(lengths, key=lambda n: int(n[:-1].rpartition("_")[2]))
    ] == list(LENGTHS)
    assert all(best[name] == 1.0 for name in lengths)
    worst = run(Chance(), suite, tmp_path / "worst")["hay"]
    # 400 queries, each with a chance of 1 in 100: 4 are expected, 13 or more have a probability below 0.0003.
    assert worst["main_score"] <= 12 / 400
    assert worst["main_score"] == worst["precision_at_1"]


def test_an_untrained_encoder_finds_by_chance(run, tiny_model, tmp_path):
    """A real one, at short lengths; ``tests/acceptance/passkey.py`` does all eight."""
    (tmp_path / "book.txt").write_text(TEXT)
    suite = Suite(name="hay", tasks=(Task(name="hay", passkey=str(tmp_path / "book.txt"), lengths=(64, 128)),))
    scores = run(tiny_model, suite, tmp_path / "out", pooling=PoolingConfig("cls"), max_length=512)["hay"]
    # 100 queries, each with a chance of 1 in 100: 7 or more hits have a probability below 0.0001.
    assert scores["main_score"] <= 6 / 100
    assert scores["recall_at_100"] == 1.0, "all documents are ranked"
    assert 0.02 < scores["recall_at_10"] < 0.25, "10 of 100 by chance"


def test_scores_by_depth(run, tiny_model, tmp_path):
    (tmp_path / "book.txt").write_text(TEXT)
    task = Task(name="hay", needle=str(tmp_path / "book.txt"), lengths=(64,), group_by="depth")
    scores = run(Embedder.from_pretrained(tiny_model, "landmark", 8, 64), Suite(name="hay", tasks=(task,)), tmp_path)[
        "hay"
    ]
    assert {name for name in scores if "[" in name} == {
        f"{metric}[depth={quarter}]"
        for metric in ("ndcg_at_10", "precision_at_1", "recall_at_10")
        for quarter in range(1, 5)
    }


def test_texts_that_cannot_be_used(run, tmp_path):
    (tmp_path / "empty.txt").write_text(" ")
    (tmp_path / "bytes.txt").write_bytes(b"ab\xff")
    for name, message in (("empty.txt", "is empty"), ("bytes.txt", "not UTF-8"), ("none.txt", "No such file")):
        suite = Suite(name="hay", tasks=(Task(name="hay", passkey=str(tmp_path / name)),))
        with pytest.raises(EvaluationError, match=rf"task 'hay': .*{name}: {message}"):
            run(Oracle(), suite, tmp_path / "out")


def test_no_two_hidden_names_hold_one_another():
    names = sorted(NAMES)
    assert not [pair for pair in pairwise(names) if pair[1].startswith(pair[0])]
    assert len(set(names)) == len(words.FIRST_NAMES) * len(words.LAST_NAMES)

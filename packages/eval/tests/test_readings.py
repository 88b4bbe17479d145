"""Several readings of one model in one evaluation: tokenized once, and each as it would be alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lmk_core import Embedder, PoolingConfig
from lmk_core.layouts import PoolingTokenizer
from lmk_core.layouts.sentences import SentencexSplitter
from lmk_eval import Reading, Settings, Suite, Task, evaluate_readings
from lmk_eval.corpus import TokenCache

LANDMARKS = {f"landmark-{size}": PoolingConfig("landmark", granularity=size) for size in (2, 3, 4, 8)}


@pytest.fixture
def tokenized(monkeypatch) -> list[str]:
    """Every text that is given to a tokenizer, in order."""
    seen: list[str] = []
    own = PoolingTokenizer.tokenize

    def tokenize(self, texts, **more):
        seen.extend(texts)
        return own(self, texts, **more)

    monkeypatch.setattr(PoolingTokenizer, "tokenize", tokenize)
    return seen


@pytest.fixture
def both(toy_folder, tmp_path) -> Suite:
    """A retrieval set, and labelled texts with the two documents of every label."""
    (tmp_path / "labels").mkdir()
    lines = [f'{{"text": "river {number} stone", "labels": ["{number % 3}", "all"]}}' for number in range(9)]
    for name in ("train", "test"):
        (tmp_path / "labels" / f"{name}.jsonl").write_text("\n".join(lines))
    tasks = (Task(name="toy", folder=str(toy_folder)), Task(name="labels", labels=str(tmp_path / "labels")))
    return Suite(name="both", tasks=tasks)


def readings(poolings: dict[str, PoolingConfig]) -> list[Reading]:
    return [Reading(name, f"0123-{name}", pooling.to_dict()) for name, pooling in poolings.items()]


def test_four_granularities_are_tokenized_once_and_equal_four_evaluations(
    run, tiny_model, both, tmp_path, tokenized, remembering
):
    poolings = {**LANDMARKS, "multi_cls-4": PoolingConfig("multi_cls", every=4)}
    together = evaluate_readings(
        tiny_model,
        both,
        readings(poolings),
        folder=tmp_path / "together",
        name="lmk/model",
        max_length=64,
        recorder=remembering,
    )
    # 12 documents and 5 queries, and the 9 labelled texts both to learn from and to be scored: found by their content.
    assert len(tokenized) == len(set(tokenized)) == 12 + 5 + 9
    assert not (tmp_path / "together" / "tokens").exists()
    assert [event["reading"] for event in remembering.events] == list(poolings) * 2
    for name, pooling in poolings.items():
        alone = run(tiny_model, both, tmp_path / name, pooling=pooling, revision=f"0123-{name}")
        assert together[name] == alone
        found, wanted = (sorted(path.rglob("local.*.json")) for path in (tmp_path / "together" / name, tmp_path / name))
        assert [path.relative_to(tmp_path / "together" / name) for path in found] == [
            path.relative_to(tmp_path / name) for path in wanted
        ]
    assert len({str(scores) for scores in together.values()}) > 1
    before = len(tokenized)
    again = evaluate_readings(
        tiny_model, both, readings(poolings), folder=tmp_path / "together", name="lmk/model", max_length=64
    )
    assert again == together
    assert len(tokenized) == before


def test_sentences_have_tokens_of_their_own(tiny_model, toy_folder, tmp_path, tokenized):
    pytest.importorskip("sentencex")
    poolings = {"landmark-4": LANDMARKS["landmark-4"], "sentence": PoolingConfig("landmark", granularity="sentence")}
    suite = Suite.from_folder("toy", toy_folder)
    found = evaluate_readings(
        tiny_model, suite, readings(poolings), folder=tmp_path / "out", name="lmk/model", max_length=64
    )
    assert len(tokenized) == 2 * (12 + 5)
    assert set(found) == {"landmark-4", "sentence"}


def test_each_way_to_cut_sentences_has_tokens_of_its_own(tiny_model, tmp_path):
    """Two languages of one class of splitters, and two functions of one class."""
    pytest.importorskip("sentencex")
    by_sentence = PoolingConfig("landmark", granularity="sentence")
    texts = ["Er kam am 5. Mai. a river", "a stone"]

    def halves(text: str) -> list[str]:
        return [text[: len(text) // 2], text[len(text) // 2 :]]

    def wholes(text: str) -> list[str]:
        return [text]

    embedder = Embedder.from_pretrained(tiny_model, "landmark", 4, 64)
    cache = TokenCache(tmp_path / "tokens")
    for splitter in (SentencexSplitter("en"), SentencexSplitter("de"), halves, wholes):
        tokenizer = PoolingTokenizer(embedder.tokenizer.hf_tokenizer, by_sentence, 64, splitter)
        found, alone = cache.tokens(tokenizer, texts, 64), tokenizer.tokenize(texts, max_length=64)
        np.testing.assert_array_equal(found.piece_bounds, alone.piece_bounds)
        np.testing.assert_array_equal(found.pieces, alone.pieces)
    assert (cache.tokenized, cache.found) == (8, 0)
    for splitter in (SentencexSplitter("de"), wholes):
        tokenizer = PoolingTokenizer(embedder.tokenizer.hf_tokenizer, by_sentence, 64, splitter)
        cache.tokens(tokenizer, texts, 64)
    assert (cache.tokenized, cache.found) == (8, 4)


def test_tokens_are_found_again_by_another_evaluation(run, tiny_model, toy_folder, tmp_path, tokenized):
    suite, settings = Suite.from_folder("toy", toy_folder), Settings(tokens=tmp_path / "tokens")
    first = run(tiny_model, suite, tmp_path / "a", pooling=LANDMARKS["landmark-2"], settings=settings)
    assert len(tokenized) == 17
    again = run(tiny_model, suite, tmp_path / "b", pooling=LANDMARKS["landmark-2"], settings=settings)
    assert (again, len(tokenized)) == (first, 17)
    # Another length needs other tokens.
    run(tiny_model, suite, tmp_path / "c", pooling=LANDMARKS["landmark-2"], settings=settings, max_length=32)
    assert len(tokenized) == 34


def test_kept_tokens_that_were_cut_off_are_made_again(run, tiny_model, toy_folder, tmp_path, tokenized):
    suite, settings = Suite.from_folder("toy", toy_folder), Settings(tokens=tmp_path / "tokens")
    first = run(tiny_model, suite, tmp_path / "a", pooling=PoolingConfig("mean"), settings=settings)
    for path in (tmp_path / "tokens").rglob("ids.npy"):
        path.write_bytes(path.read_bytes()[:40])
    assert run(tiny_model, suite, tmp_path / "b", pooling=PoolingConfig("mean"), settings=settings) == first
    assert len(tokenized) == 34


def test_readings_of_one_name_or_revision(tiny_model, toy_folder, tmp_path):
    suite = Suite.from_folder("toy", toy_folder)
    pooling = PoolingConfig("mean").to_dict()
    for pair, what in (
        ([Reading("a", "1", pooling), Reading("a", "2", pooling)], "names"),
        ([Reading("a", "1", pooling), Reading("b", "1", pooling)], "revisions"),
    ):
        with pytest.raises(ValueError, match=f"readings need different {what}"):
            evaluate_readings(tiny_model, suite, pair, folder=tmp_path / "out", name="lmk/model", max_length=64)


def test_an_open_model_in_several_readings(tiny_model, toy_folder, tmp_path):
    """Nothing is loaded twice, and the model is left as it was."""
    embedder = Embedder.from_pretrained(tiny_model, "landmark", 4, 64)
    suite = Suite.from_folder("toy", toy_folder)
    found = evaluate_readings(
        embedder, suite, readings(LANDMARKS), folder=Path(tmp_path / "out"), name="lmk/model", max_length=64
    )
    assert list(found) == list(LANDMARKS)
    assert embedder.pooling == PoolingConfig("landmark", granularity=4)

from __future__ import annotations

import pickle
from collections import Counter

import pytest
import torch
from transformers import AutoTokenizer

from lmk_core.layouts import PoolingTokenizer
from lmk_core.pooling import PoolingConfig, draw_granularity
from lmk_train.data import Collator, Example, Row
from lmk_train.data.cache import text_keys, tokenize_row

VARIABLE = PoolingConfig("landmark", granularity=(2, 4, 8))
TEXT = "kaba lodo migi nupu rekaba sodo tagi vepu kado logi mipu nuba redo sogi tapu veba"


@pytest.fixture
def collator(tiny_model):
    def make(pooling: PoolingConfig = VARIABLE, *, seed: int = 0, query_max_length: int = 64) -> Collator:
        tokenizer = PoolingTokenizer(AutoTokenizer.from_pretrained(tiny_model), pooling, 64)
        return Collator(tokenizer, pooling, seed=seed, query_max_length=query_max_length, passage_max_length=64)

    return make


@pytest.fixture
def example(collator):
    def make(row: int, *, epoch: int = 0, scores=None, passages=None, pooling: PoolingConfig = VARIABLE) -> Example:
        texts = passages_of(row) if passages is None else passages
        content = Row(f"{TEXT} {row}", texts[:1], texts[1:])
        tokens, keys = tokenize_row(content, collator(pooling).tokenizer, 64)
        return Example("a set", row, (epoch, row), tokens, keys, scores)

    return make


def passages_of(row: int) -> tuple[str, ...]:
    return (f"kaba {row}", TEXT, f"{TEXT} {TEXT}")


def test_shapes_and_order(collator, example):
    batch = collator()([example(3), example(5)])
    assert len(batch.queries) == 2
    assert len(batch.passages) == 6
    assert batch.tokens == sum(map(len, [*batch.queries, *batch.passages]))
    decoded = collator().tokenizer.hf_tokenizer.decode(batch.passages[3].input_ids, skip_special_tokens=True)
    assert decoded == "kaba 5"
    assert (batch.dataset, batch.rows.tolist()) == ("a set", [3, 5])


def test_each_text_has_the_size_of_its_own_key(collator, example):
    ours = collator(seed=7)
    batch = ours([example(3, epoch=2), example(5, epoch=2)])
    for place, row in enumerate((3, 5)):
        size = draw_granularity((2, 4, 8), 7, 2, row, 0)
        assert batch.queries[place] == ours.tokenizer.layouts([f"{TEXT} {row}"], granularity=size)[0]
        for slot, text in enumerate(passages_of(row)):
            size = draw_granularity((2, 4, 8), 7, 2, row, 1 + slot)
            assert batch.passages[3 * place + slot] == ours.tokenizer.layouts([text], granularity=size)[0]


def test_the_rest_of_the_batch_changes_nothing(collator, example):
    together = collator()([example(row) for row in range(6)])
    alone = collator()([example(4)])
    assert together.queries[4] == alone.queries[0]
    assert list(together.passages)[12:15] == list(alone.passages)


def test_sizes_vary_by_text_row_and_epoch(collator):
    ours = collator()
    keys = [(epoch, row, slot) for epoch in range(5) for row in range(20) for slot in range(3)]
    counts = Counter(ours.granularities(keys))
    assert set(counts) == {2, 4, 8}
    assert min(counts.values()) > 70
    assert len({tuple(ours.granularities([(epoch, row, slot) for slot in range(3)])) for epoch, row, _ in keys}) > 20


@pytest.mark.parametrize("kind", ["cls", "landmark", "sentence"])
def test_a_pooling_of_one_size_draws_nothing(collator, example, kind):
    size = {"cls": None, "landmark": 4, "sentence": "sentence"}[kind]
    pooling = PoolingConfig("cls") if size is None else PoolingConfig("landmark", granularity=size)
    ours = collator(pooling)
    assert ours.granularities([(0, 0, 0)]) is None
    texts = ("Kaba lodo. Migi nupu! Re.", "Sodo tagi. Vepu kado?")
    batch = ours([example(1, pooling=pooling, passages=texts), example(2, pooling=pooling, passages=texts[1:])])
    assert list(batch.queries) == list(ours.tokenizer.layouts([f"{TEXT} 1", f"{TEXT} 2"]))
    assert list(batch.passages) == list(ours.tokenizer.layouts([*texts, texts[1]]))
    if kind == "sentence":
        assert [len(layout.pooled) for layout in batch.passages] == [3, 2, 2]


def test_queries_have_their_own_length(collator, example):
    batch = collator(query_max_length=9)([example(1)])
    assert len(batch.queries[0]) == 9
    assert max(map(len, batch.passages)) > 9


def test_equal_texts_have_equal_keys(collator, example):
    batch = collator()([example(3), example(5)])
    assert batch.passage_keys[1] == batch.passage_keys[4]
    assert batch.passage_keys.unique().numel() == 4
    assert batch.query_keys.unique().numel() == 2
    (expected,) = text_keys([TEXT])
    assert batch.passage_keys[1].item() == expected - (1 << 64 if expected >= 1 << 63 else 0)
    assert text_keys(["kaba"]) == [12813189608013215120], "the same on every machine, in every run"


def test_teacher_scores(collator, example):
    batch = collator()([example(0, scores=(3.0, 1.0, 2.0)), example(1)])
    assert batch.scored.tolist() == [True, False]
    assert batch.teacher.tolist() == [[3.0, 1.0, 2.0], [0.0, 0.0, 0.0]]
    without = collator()([example(0), example(1)])
    assert without.teacher is None
    assert without.scored.tolist() == [False, False]


def test_groups_may_differ_in_size(collator, example):
    """A row without negatives has its positive alone; no column is made up for what isn't there."""
    alone = example(7, passages=("kaba 7",), scores=(4.0,))
    batch = collator()([example(3), alone, example(5, scores=(3.0, 1.0, 2.0))])
    assert batch.sizes.tolist() == [3, 1, 3]
    assert len(batch.passages) == 7
    assert batch.scored.tolist() == [False, True, True]
    assert batch.teacher.tolist() == [[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [3.0, 1.0, 2.0]]
    together = collator()([example(5)])
    assert list(batch.passages)[4:] == list(together.passages)
    assert collator()([example(3), example(5)]).sizes.tolist() == [3, 3]


def test_a_batch_goes_to_other_processes_and_devices(collator, example):
    batch = collator()([example(3, scores=(3.0, 1.0, 2.0)), example(5)])
    there = pickle.loads(pickle.dumps(batch)).to("meta")
    assert there.sizes.is_meta
    assert there.teacher.is_meta
    assert list(there.queries) == list(batch.queries)
    assert torch.equal(pickle.loads(pickle.dumps(batch)).passage_keys, batch.passage_keys)

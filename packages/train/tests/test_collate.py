from __future__ import annotations

from collections import Counter

import pytest
import torch
from transformers import AutoTokenizer

from lmk_core.layouts import PoolingTokenizer
from lmk_core.pooling import PoolingConfig, draw_granularity
from lmk_train.data import Collator, Example

VARIABLE = PoolingConfig("landmark", granularity=(2, 4, 8))
TEXT = "kaba lodo migi nupu rekaba sodo tagi vepu kado logi mipu nuba redo sogi tapu veba"


@pytest.fixture
def collator(tiny_model):
    def make(pooling: PoolingConfig = VARIABLE, *, seed: int = 0, query_max_length: int = 64) -> Collator:
        tokenizer = PoolingTokenizer(AutoTokenizer.from_pretrained(tiny_model), pooling, 64)
        return Collator(tokenizer, pooling, seed=seed, query_max_length=query_max_length, passage_max_length=64)

    return make


def example(row: int, *, epoch: int = 0, scores: tuple[float, ...] | None = None) -> Example:
    return Example(epoch, row, f"{TEXT} {row}", (f"kaba {row}", TEXT, f"{TEXT} {TEXT}"), scores)


def trimmed(side: dict[str, torch.Tensor], row: int) -> tuple[list[int], list[int]]:
    length = int(side["attention_mask"][row].sum())
    return side["input_ids"][row, :length].tolist(), side["pooling_mask"][row].nonzero().flatten().tolist()


def test_shapes_and_order(collator):
    batch = collator()([example(3), example(5)])
    assert batch["queries"]["input_ids"].shape[0] == 2
    assert batch["passages"]["input_ids"].shape[0] == 6
    tokens = int(batch["queries"]["attention_mask"].sum() + batch["passages"]["attention_mask"].sum())
    assert batch["tokens"] == tokens
    decoded = collator().tokenizer.hf_tokenizer.decode(batch["passages"]["input_ids"][3], skip_special_tokens=True)
    assert decoded == "kaba 5"


def test_each_text_has_the_size_of_its_own_key(collator):
    ours = collator(seed=7)
    batch = ours([example(3, epoch=2), example(5, epoch=2)])
    for place, row in enumerate((3, 5)):
        size = draw_granularity((2, 4, 8), 7, 2, row, 0)
        expected = ours.tokenizer.layouts([f"{TEXT} {row}"], granularity=size)[0]
        assert trimmed(batch["queries"], place) == (expected.input_ids, expected.pooled)
        for slot, text in enumerate(example(row).passages):
            size = draw_granularity((2, 4, 8), 7, 2, row, 1 + slot)
            expected = ours.tokenizer.layouts([text], granularity=size)[0]
            assert trimmed(batch["passages"], 3 * place + slot) == (expected.input_ids, expected.pooled)


def test_the_rest_of_the_batch_changes_nothing(collator):
    together = collator()([example(row) for row in range(6)])
    alone = collator()([example(4)])
    assert trimmed(together["queries"], 4) == trimmed(alone["queries"], 0)
    for slot in range(3):
        assert trimmed(together["passages"], 12 + slot) == trimmed(alone["passages"], slot)


def test_sizes_vary_by_text_row_and_epoch(collator):
    ours = collator()
    keys = [(epoch, row, slot) for epoch in range(5) for row in range(20) for slot in range(3)]
    counts = Counter(ours.granularities(keys))
    assert set(counts) == {2, 4, 8}
    assert min(counts.values()) > 70
    assert len({tuple(ours.granularities([(epoch, row, slot) for slot in range(3)])) for epoch, row, _ in keys}) > 20


@pytest.mark.parametrize("pooling", [PoolingConfig("cls"), PoolingConfig("landmark", granularity=4)])
def test_a_pooling_of_one_size_draws_nothing(collator, pooling):
    ours = collator(pooling)
    assert ours.granularities([(0, 0, 0)]) is None
    batch = ours([example(1)])
    expected = ours.tokenizer([f"{TEXT} 1"])
    for key, tensor in expected.items():
        assert torch.equal(batch["queries"][key], tensor)


def test_queries_have_their_own_length(collator):
    batch = collator(query_max_length=9)([example(1)])
    assert batch["queries"]["input_ids"].shape[1] == 9
    assert batch["passages"]["input_ids"].shape[1] > 9


def test_teacher_scores(collator):
    batch = collator()([example(0, scores=(3.0, 1.0, 2.0)), example(1)])
    assert batch["scored"].tolist() == [True, False]
    assert batch["teacher"].tolist() == [[3.0, 1.0, 2.0], [0.0, 0.0, 0.0]]
    without = collator()([example(0), example(1)])
    assert without["teacher"] is None
    assert without["scored"].tolist() == [False, False]


def test_groups_may_differ_in_size(collator):
    """A row without negatives has its positive alone; no column is made up for what isn't there."""
    alone = Example(0, 7, TEXT, ("kaba 7",), (4.0,))
    batch = collator()([example(3), alone, example(5, scores=(3.0, 1.0, 2.0))])
    assert batch["sizes"].tolist() == [3, 1, 3]
    assert batch["passages"]["input_ids"].shape[0] == 7
    assert batch["scored"].tolist() == [False, True, True]
    assert batch["teacher"].tolist() == [[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [3.0, 1.0, 2.0]]
    together = collator()([example(5)])
    for slot in range(3):
        assert trimmed(batch["passages"], 4 + slot) == trimmed(together["passages"], slot)
    assert collator()([example(3), example(5)])["sizes"].tolist() == [3, 3]

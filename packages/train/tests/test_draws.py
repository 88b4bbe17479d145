from __future__ import annotations

from collections import Counter

import pytest

from lmk_train.data import BatchOrder
from lmk_train.data.sampling import MixedSet, Part, draw_negatives, row_key


def draw(available=10, *, seed=0, epoch=0, row=0, negatives=4):
    return draw_negatives(available, seed=seed, epoch=epoch, row=row, negatives=negatives)


def rows_of(batch):
    return [key.row for key in batch]


def test_negatives_are_drawn_without_replacement():
    for row in range(50):
        assert len(set(draw(row=row))) == 4
    assert set(draw(negatives=10)) == set(range(10))


def test_draws_depend_on_seed_epoch_and_row_alone():
    assert draw() == draw()
    keys = [{}, {"seed": 1}, {"epoch": 1}, {"row": 1}, {"row": row_key(1, 0)}, {"seed": 2, "epoch": 3}]
    assert len({tuple(draw(**key)) for key in keys}) == 6


def test_every_negative_is_drawn_about_equally_often():
    counts = Counter(place for row in range(2000) for place in draw(row=row))
    assert set(counts) == set(range(10))
    assert all(700 < count < 900 for count in counts.values())


def test_too_few_negatives_are_repeated_evenly():
    drawn = draw(3, negatives=7)
    assert set(drawn[:3]) == {0, 1, 2}
    assert drawn[3:] == [*drawn[:3], drawn[0]]


def test_no_negatives():
    assert draw(negatives=0) == []
    assert draw(0) == []


def test_an_epoch_is_a_permutation_in_full_batches():
    order = BatchOrder.of_rows(10, 3, seed=0, steps=7)
    batches = list(order)
    assert len(batches) == len(order) == 7
    assert [{key.epoch for key in batch} for batch in batches] == [{0}, {0}, {0}, {1}, {1}, {1}, {2}]
    for start in (0, 3):
        rows = [row for batch in batches[start : start + 3] for row in rows_of(batch)]
        assert len(set(rows)) == 9
        assert set(rows) <= set(range(10))
    assert rows_of(batches[0]) != rows_of(batches[3])
    assert list(BatchOrder.of_rows(10, 3, seed=1, steps=7)) != batches


@pytest.mark.parametrize("start", [0, 1, 3, 4, 6, 7])
def test_a_resumed_order_is_the_rest_of_the_undisturbed_one(start):
    whole = list(BatchOrder.of_rows(10, 3, seed=0, steps=7))
    assert list(BatchOrder.of_rows(10, 3, seed=0, steps=7, start=start)) == whole[start:]


def test_the_order_is_pinned():
    """A change here changes every training: raise recipe_version."""
    assert rows_of(BatchOrder.of_rows(10, 5, seed=3, steps=1).batch(0)) == [9, 1, 0, 8, 2]
    assert draw(seed=3, epoch=1, row=2) == [0, 2, 7, 6]
    sets = [MixedSet([Part(0, 10, 5)]), MixedSet([Part(0, 4, 2), Part(4, 7, 3)], spread=True, weight=1.5)]
    mixed = BatchOrder(sets, 3, steps=9)
    assert [(batch[0].dataset, batch[0].epoch, rows_of(batch)) for batch in mixed] == PINNED


PINNED = [
    (0, 0, [2, 5, 3, 4, 1]),
    (1, 0, [0, 3]),
    (1, 0, [1, 2]),
    (1, 0, [4, 5, 6]),
    (1, 1, [6, 4, 5]),
    (0, 0, [9, 8, 7, 0, 6]),
    (1, 1, [3, 1]),
    (1, 1, [0, 2]),
    (1, 2, [5, 6, 4]),
]


def test_too_few_rows_for_a_batch():
    with pytest.raises(ValueError, match="5 rows can't fill a batch of 6"):
        BatchOrder.of_rows(5, 6, seed=0, steps=1)

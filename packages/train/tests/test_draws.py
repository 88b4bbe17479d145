from __future__ import annotations

from collections import Counter

import pytest

from lmk_train.data import BatchOrder, DataError, ExampleDataset, Row, draw_example

NEGATIVES = tuple(f"n{i}" for i in range(10))
ROW = Row("q", ("p0", "p1"), NEGATIVES, (9.0, 8.0), tuple(float(i) for i in range(10)))


def draw(row=ROW, *, seed=0, epoch=0, index=0, negatives=4):
    return draw_example(row, seed=seed, epoch=epoch, index=index, negatives=negatives)


def test_negatives_are_drawn_without_replacement_and_scores_stay_with_their_texts():
    for index in range(50):
        example = draw(index=index)
        assert example.passages[0] == "p0"
        assert len(set(example.passages[1:])) == 4
        assert example.scores == (9.0, *(float(text[1:]) for text in example.passages[1:]))
    everything = draw(negatives=10)
    assert set(everything.passages[1:]) == set(NEGATIVES)


def test_draws_depend_on_seed_epoch_and_row_alone():
    assert draw() == draw()
    others = {draw(**key).passages for key in ({}, {"seed": 1}, {"epoch": 1}, {"index": 1}, {"seed": 2, "epoch": 3})}
    assert len(others) == 5


def test_every_negative_is_drawn_about_equally_often():
    counts = Counter(text for index in range(2000) for text in draw(index=index).passages[1:])
    assert set(counts) == set(NEGATIVES)
    assert all(700 < count < 900 for count in counts.values())


def test_too_few_negatives_are_repeated_evenly():
    row = Row("q", ("p",), ("a", "b", "c"), (1.0,), (0.1, 0.2, 0.3))
    example = draw(row, negatives=7)
    first = example.passages[1:4]
    assert set(first) == {"a", "b", "c"}
    assert example.passages[4:] == (*first, first[0])
    scores = {"a": 0.1, "b": 0.2, "c": 0.3}
    assert example.scores == (1.0, *(scores[text] for text in example.passages[1:]))


def test_no_negatives():
    row = Row("q", ("p",), ())
    assert draw(row, negatives=0).passages == ("p",)
    assert draw(row).passages == ("p",)
    assert draw(Row("q", ("p",), (), (2.0,), ())).scores == (2.0,)


def test_an_epoch_is_a_permutation_in_full_batches():
    order = BatchOrder(rows=10, batch_size=3, seed=0, steps=7)
    batches = list(order)
    assert len(batches) == len(order) == 7
    assert [{epoch for epoch, _ in batch} for batch in batches] == [{0}, {0}, {0}, {1}, {1}, {1}, {2}]
    for start in (0, 3):
        rows = [row for batch in batches[start : start + 3] for _, row in batch]
        assert len(set(rows)) == 9
        assert set(rows) <= set(range(10))
    assert [row for _, row in batches[0]] != [row for _, row in batches[3]]
    assert list(BatchOrder(rows=10, batch_size=3, seed=1, steps=7)) != batches


@pytest.mark.parametrize("start", [0, 1, 3, 4, 6, 7])
def test_a_resumed_order_is_the_rest_of_the_undisturbed_one(start):
    whole = list(BatchOrder(rows=10, batch_size=3, seed=0, steps=7))
    assert list(BatchOrder(rows=10, batch_size=3, seed=0, steps=7, start=start)) == whole[start:]


def test_the_order_is_pinned():
    """A change here changes every training: raise recipe_version."""
    assert [row for _, row in BatchOrder(rows=10, batch_size=5, seed=3, steps=1).batch(0)] == [9, 1, 0, 8, 2]
    assert draw(seed=3, epoch=1, index=2).passages == ("p0", "n0", "n2", "n7", "n6")


def test_too_few_rows_for_a_batch(tmp_path, make_rows, write_rows):
    path = write_rows(tmp_path / "rows.jsonl", make_rows(5))
    with pytest.raises(ValueError, match="5 rows can't fill a batch of 6"):
        BatchOrder(rows=5, batch_size=6, seed=0, steps=1)
    with pytest.raises(DataError, match=r"rows.jsonl: 5 rows can't fill a batch of 6.*optim.batch_size of at most 5"):
        ExampleDataset([path], negatives=2, seed=0, batch_size=6)


def test_a_dataset_draws_by_epoch_and_row(tmp_path, make_rows, write_rows):
    rows = make_rows(5, negatives=3, scores=True)
    dataset = ExampleDataset([write_rows(tmp_path / "rows.jsonl", rows)], negatives=2, seed=4)
    example = dataset[(1, 3)]
    assert example.query == rows[3]["query"]
    assert (example.epoch, example.row) == (1, 3)
    assert example == dataset[(1, 3)]
    assert len({dataset[(epoch, 3)].passages for epoch in range(8)}) > 1

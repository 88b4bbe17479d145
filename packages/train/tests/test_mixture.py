"""Several data sets: one a batch, every row as often as its weight says, on any number of processes."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest

from lmk_train.data import BatchOrder, ContrastiveData, DataError
from lmk_train.data.sampling import MixedSet, Part, merge_small

ROWS = (101, 40, 7, 64, 23)
WEIGHTS = (1, 2, 3, 0.5, 1.5)


def mixture(rows=ROWS, weights=WEIGHTS, batch_size=8, **keywords):
    sets = [MixedSet([Part(0, n, batch_size)], spread=True, weight=w) for n, w in zip(rows, weights, strict=True)]
    return BatchOrder(sets, 5, **{"steps": 0, **keywords})


def seen(order, numbers) -> Counter:
    return Counter((key.dataset, key.row) for number in numbers for key in order.batch(number))


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_two_epochs_of_five_data_sets(world_size):
    orders = [mixture(rank=rank, world_size=world_size) for rank in range(world_size)]
    steps = orders[0].epoch_start(2)
    counts: Counter = Counter()
    for number in range(steps):
        shares = [order.batch(number) for order in orders]
        assert len({key.dataset for share in shares for key in share}) == 1
        assert all(shares), "no process is without a row"
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
        assert [key for share in shares for key in share] == mixture().step(number), "the step does not depend on ranks"
        counts.update((key.dataset, key.row) for share in shares for key in share)
    expected = {(place, row): 2 * weight for place, weight in enumerate(WEIGHTS) for row in range(ROWS[place])}
    assert counts == expected


@pytest.mark.parametrize("epoch", [0, 1, 2, 7])
def test_a_weight_that_is_no_whole_number_is_kept_to_one(epoch):
    order = mixture(weights=(0.3, 1, 2.7, 1.01, 5))
    counts = seen(order, range(order.epoch_start(epoch)))
    for place, weight in enumerate((0.3, 1, 2.7, 1.01, 5)):
        exact = epoch * Fraction(str(weight))
        assert {counts[place, row] for row in range(ROWS[place])} <= {int(exact), int(exact) + (exact % 1 > 0)}


def test_shares_are_parts_of_the_steps():
    shares = (200, 80, 8, 4, 1)
    sets = [MixedSet([Part(0, n, 8)], share=s, spread=True) for n, s in zip(ROWS, shares, strict=True)]
    order = BatchOrder(sets, 0, steps=0)
    numbers = range(order.epoch_start(50))
    counts = Counter(order.step(number)[0].dataset for number in numbers)
    for place, share in enumerate(shares):
        assert counts[place] == int(50 * 30 * Fraction(share, sum(shares))), "50 epochs of 30 batches"
    rows = seen(order, numbers)
    for place, size in enumerate(ROWS):
        times = [rows[place, row] for row in range(size)]
        assert max(times) - min(times) <= 1, "all rows of a data set equally often"


def test_data_sets_take_turns():
    order = mixture(weights=(1, 1, 1, 1, 1))
    turns = [order.step(number)[0].dataset for number in range(order.epoch_start(1))]
    assert Counter(turns) == {0: 13, 1: 5, 2: 1, 3: 8, 4: 3}
    assert turns != sorted(turns)
    assert turns != [order.step(order.epoch_start(1) + number)[0].dataset for number in range(len(turns))]


@pytest.mark.parametrize("start", [0, 1, 17, 40, 89])
def test_a_resumed_mixture_is_the_rest_of_the_undisturbed_one(start):
    whole = list(mixture(steps=90))
    assert list(mixture(steps=90, start=start)) == whole[start:]


@pytest.mark.parametrize("spread", [False, True])
def test_uneven_ends_give_every_process_the_same_steps(spread):
    """101 rows, batches of 8, 2 processes."""
    steps = 30
    orders = [
        BatchOrder([MixedSet([Part(0, 101, 8)], spread=spread)], 0, steps=steps, rank=rank, world_size=2)
        for rank in (0, 1)
    ]
    shares = [list(order) for order in orders]
    assert [len(batches) for batches in shares] == [steps, steps]
    sizes = {(len(one), len(other)) for one, other in zip(*shares, strict=True)}
    assert sizes == ({(4, 4), (4, 3)} if spread else {(4, 4)})
    an_epoch = 13 if spread else 12
    rows = [key.row for batches in shares for batch in batches[:an_epoch] for key in batch]
    assert len(rows) == len(set(rows)) == (101 if spread else 96)


def test_a_batch_has_a_row_for_every_process():
    with pytest.raises(ValueError, match="data set 1 has batches of 3 rows, and there are 4 processes"):
        mixture(rows=(8, 3), weights=(1, 1), world_size=4)


def test_lengths_have_batch_sizes_of_their_own():
    one = MixedSet([Part(0, 50, 8), Part(50, 62, 4), Part(62, 65, 2), Part(65, 66, 1)], spread=True)
    order = BatchOrder([one], 0, steps=0)
    batches = [[key.row for key in order.step(number)] for number in range(order.batches_per_epoch)]
    assert sorted(row for batch in batches for row in batch) == list(range(66))
    for batch in batches:
        (part,) = {next(i for i, p in enumerate(one.parts) if p.start <= row < p.stop) for row in batch}
        assert len(batch) <= one.parts[part].batch_size
    lengths = [max(batch) for batch in batches]
    assert lengths != sorted(lengths), "lengths take turns"


def test_a_length_with_less_than_a_batch_joins_the_longer_one():
    parts = [Part(0, 3, 8), Part(3, 40, 4), Part(40, 41, 2)]
    assert merge_small(parts) == (Part(0, 41, 2),)
    assert merge_small([Part(0, 30, 8), Part(30, 30, 4), Part(30, 40, 2)]) == (Part(0, 30, 8), Part(30, 40, 2))


@pytest.fixture
def five_sets(make_rows, write_rows, tmp_path):
    """Five files of easy rows, and their words, each of a set of its own."""

    def make():
        paths = []
        for place, count in enumerate((21, 13, 9, 8, 30)):
            rows = [{**row, "query": f"{row['query']} {place}"} for row in make_rows(count, seed=place)]
            paths.append(write_rows(tmp_path / f"set{place}.jsonl", rows))
        return paths

    return make


def test_a_loader_on_two_processes(five_sets, make_config, tokenizer):
    """What the loaders of two processes give together is what one gives alone, text by text."""
    train = [{"path": str(path), "weight": weight} for path, weight in zip(five_sets(), WEIGHTS, strict=True)]
    config = make_config(data__train=train, optim__steps=100)
    alone = ContrastiveData(config, tokenizer)
    steps = alone.order().epoch_start(2)
    counts: Counter = Counter()
    both = [ContrastiveData(config, tokenizer, rank=rank, world_size=2).batches() for rank in (0, 1)]
    for number, (whole, one, other) in enumerate(zip(alone.batches(), *both, strict=True)):
        assert {one.dataset, other.dataset} == {whole.dataset}
        assert one.rows.tolist() + other.rows.tolist() == whole.rows.tolist()
        assert [*one.queries, *other.queries] == list(whole.queries)
        assert [*one.passages, *other.passages] == list(whole.passages)
        if number < steps:
            counts.update((whole.dataset, row) for row in whole.rows.tolist())
    assert number == 99
    names = {f"set{place}": weight for place, weight in enumerate(WEIGHTS)}
    assert {name for name, _ in counts} == set(names)
    assert all(count == 2 * names[name] for (name, _), count in counts.items())
    assert len(counts) == 21 + 13 + 9 + 8 + 30


def test_each_data_set_has_its_own_settings(five_sets, make_config, tokenizer):
    first, second, *_ = map(str, five_sets())
    train = [{"path": first, "negatives": 0, "batch_size": 3, "name": "mine"}, second]
    data = ContrastiveData(make_config(data__train=train), tokenizer)
    for batch in data.batches():
        own = batch.dataset == "mine"
        assert len(batch.queries) <= (3 if own else 8)
        assert batch.sizes.tolist() == [1 if own else 3] * len(batch.queries)
    summary = data.summary()
    assert summary["datasets"] == {"mine": {"rows": 21, "batches": 7}, "set1": {"rows": 13, "batches": 2}}
    assert summary["steps_per_epoch"] == 9


def test_rows_of_one_number_in_two_data_sets_draw_differently(make_rows, write_rows, tmp_path, make_config, tokenizer):
    rows = make_rows(16, negatives=6)
    paths = [str(write_rows(tmp_path / name, rows)) for name in ("a.jsonl", "b.jsonl")]
    data = ContrastiveData(make_config(data__train=paths), tokenizer)
    drawn = [
        [data.dataset[data.order().step(0)[0]._replace(dataset=one, row=row)] for row in range(16)] for one in (0, 1)
    ]
    same = sum((one.text_keys == other.text_keys).all() for one, other in zip(*drawn, strict=True))
    assert same < 8


def test_a_list_of_paths_is_one_data_set(five_sets, make_config, tokenizer):
    paths = [str(path) for path in five_sets()[:2]]
    data = ContrastiveData(make_config(data__train=[{"path": paths}]), tokenizer)
    assert data.rows == 34
    assert {batch.dataset for batch in data.batches()} == {"set0"}
    mixed = [set(batch.rows.tolist()) for batch in data.batches()]
    assert any(min(rows) < 21 <= max(rows) for rows in mixed)


def test_length_buckets_of_a_folder(make_rows, write_rows, tmp_path, make_config, tokenizer):
    for name, count in (("nq_len-0-500", 20), ("nq_len-500-1000", 9), ("t_len-0-500", 4), ("t_len-1000-inf", 5)):
        write_rows(tmp_path / f"{name}.jsonl", make_rows(count))
    train = [{"path": str(tmp_path), "batch_sizes": {"0-500": 8, "500-1000": 4, "1000-inf": 2}}]
    data = ContrastiveData(make_config(data__train=train, optim__steps=9), tokenizer)
    assert data.rows == 38
    assert [(part.rows, part.batch_size) for part in data.mixed[0].parts] == [(24, 8), (9, 4), (5, 2)]
    assert sorted(len(batch.rows) for batch in data.batches()) == [1, 2, 2, 3, 3, 3, 8, 8, 8]
    fewer = make_config(data__train=[{**train[0], "batch_sizes": {"0-500": 8, "500-1000": 4}}])
    with pytest.raises(DataError, match=r"t_len-1000-inf.jsonl: its length is 1000-inf; batch_sizes has: 0-500"):
        ContrastiveData(fewer, tokenizer)
    write_rows(tmp_path / "other.jsonl", make_rows(1))
    with pytest.raises(DataError, match=r"other.jsonl: its name says no length"):
        ContrastiveData(make_config(data__train=train), tokenizer)


def test_data_that_fills_no_batch(five_sets, make_config, tokenizer):
    path = str(five_sets()[2])
    with pytest.raises(DataError, match=r"set2.jsonl: 9 rows can't fill a batch of 10.*at most 9"):
        ContrastiveData(make_config(data__train=[path], optim__batch_size=10), tokenizer)
    config = make_config(data__train=[path], data__last_batch="spread", optim__batch_size=10)
    assert len(next(iter(ContrastiveData(config, tokenizer).batches())).rows) == 9
    with pytest.raises(DataError, match=r"set2.jsonl: data set 0 has batches of 9 rows, and there are 10 processes"):
        ContrastiveData(config, tokenizer, world_size=10)

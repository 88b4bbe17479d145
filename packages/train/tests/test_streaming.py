"""Data that is read again and again and never kept."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from lmk_train.data import ContrastiveData, DataError


@pytest.fixture
def streamed(make_config, make_rows, write_rows, tmp_path, tokenizer, monkeypatch):
    """The data of a training that streams two files, which are one data set of 50 rows."""
    monkeypatch.setenv("LMK_CACHE", str(tmp_path / "cache"))
    (tmp_path / "rows").mkdir()
    for name, count in (("a", 33), ("b", 17)):
        write_rows(tmp_path / "rows" / f"{name}.jsonl", make_rows(count, seed=ord(name), scores=True))

    def make(*, rank: int = 0, world_size: int = 1, **changes) -> ContrastiveData:
        keywords = {"data__train": [str(tmp_path / "rows")], "data__stream_buffer": 12, "optim__steps": 15, **changes}
        return ContrastiveData(make_config(**keywords), tokenizer, rank=rank, world_size=world_size)

    return make


def same(one, other) -> bool:
    return (
        one.rows.tolist() == other.rows.tolist()
        and list(one.passages) == list(other.passages)
        and torch.equal(one.teacher, other.teacher)
        and one.dataset == other.dataset
    )


def test_a_pass_has_every_row_once_in_full_batches(streamed, tmp_path):
    batches = list(streamed().batches())
    assert len(batches) == 15
    assert {len(batch.rows) for batch in batches} == {8}
    passes = [[row for batch in batches[start : start + 6] for row in batch.rows.tolist()] for start in (0, 6)]
    for rows in passes:
        assert len(set(rows)) == 48
        assert set(rows) <= set(range(50))
        assert rows != sorted(rows)
    assert passes[0] != passes[1]
    assert not (tmp_path / "cache").exists()


def test_it_draws_what_a_cached_training_draws(streamed):
    """Given the same row in the same pass, texts and scores are the same ones."""
    stream, cached = streamed(), streamed(data__stream_buffer=None)
    for number, batch in enumerate(stream.batches()):
        keys = [cached.order().step(0)[0]._replace(epoch=number // 6, row=row) for row in batch.rows.tolist()]
        assert same(batch, cached.collator([cached.dataset[key] for key in keys]))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("start", [0, 4, 7])
def test_it_goes_on_where_it_was(streamed, start, workers):
    whole = list(streamed().batches())
    rest = list(streamed().batches(start, workers=workers))
    assert len(rest) == 15 - start
    assert all(same(one, other) for one, other in zip(rest, whole[start:], strict=True))


def test_two_processes_share_each_step(streamed):
    both = [list(streamed(rank=rank, world_size=2).batches()) for rank in (0, 1)]
    for whole, one, other in zip(streamed().batches(), *both, strict=True):
        assert one.rows.tolist() + other.rows.tolist() == whole.rows.tolist()
        assert [*one.queries, *other.queries] == list(whole.queries)
    with pytest.raises(DataError, match="a batch of 8 rows is too small for 9 processes"):
        next(iter(streamed(world_size=9).batches()))


def test_several_data_sets_take_turns_by_their_shares(streamed, tmp_path):
    train = [{"path": str(tmp_path / "rows/a.jsonl"), "share": 3}, {"path": str(tmp_path / "rows/b.jsonl"), "share": 1}]
    batches = list(streamed(data__train=train, optim__steps=60).batches())
    counts = Counter(batch.dataset for batch in batches)
    assert 38 < counts["a"] < 52
    assert counts["a"] + counts["b"] == 60
    assert all(max(batch.rows) < (33 if batch.dataset == "a" else 17) for batch in batches)


def test_what_cannot_be_streamed(streamed, tmp_path):
    paths = [str(tmp_path / "rows/a.jsonl"), str(tmp_path / "rows/b.jsonl")]
    with pytest.raises(ValueError, match="several streamed data sets need a 'share' each"):
        streamed(data__train=paths)
    with pytest.raises(ValueError, match="neither last_batch: spread nor batch_sizes"):
        streamed(data__last_batch="spread")
    with pytest.raises(DataError, match="50 rows can't fill a batch of 51"):
        next(iter(streamed(optim__batch_size=51).batches()))


def test_faulty_rows_stop_it_or_are_left_out(streamed, write_rows, make_rows, tmp_path):
    write_rows(tmp_path / "rows/a.jsonl", [*make_rows(40), {"query": "q"}, *make_rows(8, seed=3)])
    with pytest.raises(DataError, match=r"a.jsonl:41: the key 'pos' is missing"):
        list(streamed().batches())
    assert len(list(streamed(data__max_faulty=0.1).batches())) == 15
    with pytest.raises(DataError, match=r"a.jsonl:41: .*\n.*1 of 49 rows are faulty"):
        list(streamed(data__max_faulty=0.001).batches())


def test_a_source_elsewhere_is_read_through_datasets(streamed, tmp_path):
    """``file://`` takes the way of ``hf://``: the same rows as from the folder."""
    url = f"file://{tmp_path}/rows/*.jsonl"
    for there, here in zip(streamed(data__train=[url]).batches(), streamed().batches(), strict=True):
        assert there.rows.tolist() == here.rows.tolist()
        assert list(there.passages) == list(here.passages)
    with pytest.raises(DataError, match=r"data that lies elsewhere is streamed: say how, with data.stream_buffer"):
        streamed(data__train=[url], data__stream_buffer=None)
    with pytest.raises(DataError, match=r"nothing-\*.jsonl:1: it can't be read any further"):
        next(iter(streamed(data__train=[f"file://{tmp_path}/nothing-*.jsonl"]).batches()))

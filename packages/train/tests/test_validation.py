from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from lmk_core import Embedder
from lmk_train import train
from lmk_train.callbacks import validation
from lmk_train.callbacks.validation import pool_rows, retrieval_metrics
from lmk_train.data import Rows


def ranked(*orders: list[int], relevant: list[list[int]]) -> dict[str, float]:
    """The metrics of queries whose passages are ranked in the orders given."""
    count = len(orders[0])
    scores = torch.zeros(len(orders), count)
    wanted = torch.zeros(len(orders), count, dtype=torch.bool)
    for query, (order, found) in enumerate(zip(orders, relevant, strict=True)):
        scores[query, order] = torch.linspace(1, 0.1, count)
        wanted[query, found] = True
    # With unit vectors along the axes as passages, a query's coordinates are its scores.
    return retrieval_metrics(scores, torch.eye(count), wanted)


def test_metrics_by_hand():
    orders = [list(range(12)), [3, 4, 5, 6, 7, 8, 9, 10, 11, 0, 1, 2], list(range(12))]
    values = ranked(*orders, relevant=[[1], [3, 6], [11]])
    # ranks: 2; 1 and 4; 12, which is beyond 10
    gains = [1 / math.log2(3), (1 + 1 / math.log2(5)) / (1 + 1 / math.log2(3)), 0.0]
    assert values["validation/ndcg_at_10"] == pytest.approx(np.mean(gains))
    assert values["validation/recall_at_10"] == pytest.approx(np.mean([1, 1, 0]))
    assert values["validation/mrr_at_10"] == pytest.approx(np.mean([0.5, 1, 0]))


def test_leaving_out_the_tail_changes_nothing(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    queries, passages = torch.randn(30, 6, generator=generator), torch.randn(200, 6, generator=generator)
    relevant = torch.rand(30, 200, generator=generator) < 0.05
    relevant[:, 0] = True
    short = retrieval_metrics(queries, passages, relevant)
    monkeypatch.setattr(validation, "_KEPT", 1000)
    monkeypatch.setattr(validation, "_BLOCK", 7)
    assert retrieval_metrics(queries, passages, relevant) == pytest.approx(short)


def test_rows_are_pooled(tmp_path, write_rows):
    rows = [
        {"query": "q", "pos": ["a", "b"], "neg": ["c"]},
        {"query": "r", "pos": ["c"], "neg": ["a", "d"]},
        {"query": "q", "pos": ["d"], "neg": []},
    ]
    queries, passages, positives = pool_rows(Rows([write_rows(tmp_path / "rows.jsonl", rows)]))
    assert queries == ["q", "r"]
    assert passages == ["a", "b", "c", "d"]
    assert positives == [[0, 1, 3], [2]]


def test_training_is_validated_on_the_way_and_at_the_end(make_config, make_rows, write_rows, tmp_path, recorder):
    rows = make_rows(20, seed=5)
    held_out = write_rows(tmp_path / "held-out.jsonl", rows)
    config = make_config(
        data__validation=str(held_out), runtime__validate_every=4, pooling={"kind": "landmark", "granularity": [4, 8]}
    )
    model = train(config, tmp_path / "run", recorder)
    curve = recorder.curve("validation/mrr_at_10")
    assert list(curve) == [4, 6]
    embedder = Embedder.from_pretrained(model, device="cpu")
    queries, passages, positives = pool_rows(Rows([held_out]))
    scores = embedder.encode(queries, max_length=16) @ embedder.encode(passages, max_length=32).T
    ranks = [1 + int((row > row[found[0]]).sum()) for row, found in zip(scores, positives, strict=True)]
    assert curve[6] == pytest.approx(np.mean([1 / rank if rank <= 10 else 0.0 for rank in ranks]))
    assert recorder.curve("validation/recall_at_10")[6] == pytest.approx(np.mean([rank <= 10 for rank in ranks]))

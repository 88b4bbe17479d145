"""`evaluate` on local folders: numbers by their definitions, groups, per-query scores."""

from __future__ import annotations

import json
import math
from statistics import fmean

import numpy as np
import pytest

from lmk_core import Embedder
from lmk_eval import EvaluationError, Suite, read_per_query

METRICS = ["ndcg_at_10", "precision_at_1", "recall_at_10", "recall_at_100", "mrr_at_10", "main_score"]


def ndcg_at_10(ranking: list[str], relevant: dict[str, int]) -> float:
    """nDCG with linear gain, written down anew from its definition."""
    gain = sum(max(relevant.get(key, 0), 0) / math.log2(rank + 2) for rank, key in enumerate(ranking[:10]))
    ideal = sorted((score for score in relevant.values() if score > 0), reverse=True)[:10]
    return gain / sum(score / math.log2(rank + 2) for rank, score in enumerate(ideal))


def test_a_perfect_encoder_scores_one(run, toy_folder, tmp_path, make_oracle):
    scores = run(make_oracle(), Suite.from_folder("toy", toy_folder), tmp_path / "out")
    assert list(scores) == ["toy"]
    assert list(scores["toy"]) == METRICS
    assert scores["toy"] == dict.fromkeys(METRICS, 1.0)
    assert all(type(value) is float for value in scores["toy"].values())


def test_numbers_agree_with_the_definitions(run, random_set, tmp_path):
    folder, model, rankings, relevant = random_set
    scores = run(model, Suite.from_folder("random", folder), tmp_path / "out")["random"]
    good = {query: {key for key, score in judged.items() if score > 0} for query, judged in relevant.items()}
    ndcg = {query: ndcg_at_10(rankings[query], relevant[query]) for query in relevant}
    first = {query: next(rank for rank, key in enumerate(rankings[query]) if key in good[query]) for query in relevant}
    wanted = {
        "ndcg_at_10": fmean(ndcg.values()),
        "precision_at_1": fmean(rankings[query][0] in good[query] for query in relevant),
        "recall_at_10": fmean(len(good[query] & set(rankings[query][:10])) / len(good[query]) for query in relevant),
        "recall_at_100": 1.0,
        "mrr_at_10": fmean(1 / (rank + 1) if rank < 10 else 0.0 for rank in first.values()),
        "main_score": fmean(ndcg.values()),
    }
    assert scores == pytest.approx(wanted, abs=6e-6)  # MTEB rounds to 5 digits
    assert 0.1 < scores["ndcg_at_10"] < 0.9
    by_query = read_per_query(tmp_path / "out", "random")
    assert by_query == pytest.approx(ndcg, abs=1e-6)


@pytest.mark.parametrize(("key", "values"), [("quarter", ["1", "2", "3"]), ("even", ["false", "true"])])
def test_groups_are_means_of_the_queries_own_scores(run, random_set, tmp_path, key, values):
    folder, model, rankings, relevant = random_set
    suite = Suite.from_folder("random", folder, group_by=key)
    scores = run(model, suite, tmp_path / "out")["random"]
    grouped = [f"{metric}[{key}={value}]" for metric in METRICS[:3] for value in values]
    assert list(scores) == METRICS + grouped
    by_query = read_per_query(tmp_path / "out", "random")
    queries = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    for value in values:
        members = [query["_id"] for query in queries if json.dumps(query["metadata"][key]) == value]
        assert scores[f"ndcg_at_10[{key}={value}]"] == pytest.approx(fmean(by_query[m] for m in members), abs=1e-6)
        hits = [relevant[member].get(rankings[member][0], 0) > 0 for member in members]
        assert scores[f"precision_at_1[{key}={value}]"] == pytest.approx(fmean(hits), abs=1e-6)
    sizes = [sum(json.dumps(query["metadata"][key]) == value for query in queries) for value in values]
    together = sum(scores[name] * size for name, size in zip(grouped[: len(values)], sizes, strict=True)) / sum(sizes)
    assert together == pytest.approx(scores["ndcg_at_10"], abs=6e-6)


def test_queries_without_the_key_are_in_no_group(run, make_folder, make_oracle, tmp_path):
    queries = {
        "q0": ("where is the", {"part": "a"}),
        "q1": ("where is of", {}),
        "q2": ("where is and", {"part": None}),
    }
    folder = make_folder(
        tmp_path / "set", queries=queries, relevant=[("q0", "d0", 1), ("q1", "d0", 1), ("q2", "d0", 1)]
    )
    scores = run(make_oracle(), Suite.from_folder("set", folder, group_by="part"), tmp_path / "out")["set"]
    assert [name for name in scores if "[" in name] == [f"{metric}[part=a]" for metric in METRICS[:3]]
    assert scores["ndcg_at_10[part=a]"] == 1.0
    assert scores["ndcg_at_10"] < 1.0


def test_bad_group_keys(run, make_folder, make_oracle, toy_folder, tmp_path):
    with pytest.raises(EvaluationError, match=r"'toy'.*no scored query has the metadata key 'size'.*found: quarter"):
        run(make_oracle(), Suite.from_folder("toy", toy_folder, group_by="size"), tmp_path / "out")
    folder = make_folder(tmp_path / "set", queries={"q0": ("where is the", {"part": [1]})}, relevant=[("q0", "d0", 1)])
    with pytest.raises(EvaluationError, match=r"queries\.jsonl:1: metadata key 'part' is \[1\]"):
        run(make_oracle(), Suite.from_folder("set", folder, group_by="part"), tmp_path / "out")


def test_ranks_as_the_vectors_do(run, tiny_model, toy_folder, tmp_path):
    """A real model's scores are those of the cosine of its own vectors."""
    embedder = Embedder.from_pretrained(tiny_model, "landmark", 2, 64)
    scores = run(embedder, Suite.from_folder("toy", toy_folder), tmp_path / "out", batch_tokens=32)["toy"]
    documents = [json.loads(line) for line in (toy_folder / "corpus.jsonl").read_text().splitlines()]
    queries = [json.loads(line) for line in (toy_folder / "queries.jsonl").read_text().splitlines()][:5]
    similarity = embedder.encode([q["text"] for q in queries]) @ embedder.encode([d["text"] for d in documents]).T
    relevant: dict[str, dict[str, int]] = {}
    for row in (toy_folder / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query, document, score = row.split("\t")
        relevant.setdefault(query, {})[document] = int(score)
    found = [
        ndcg_at_10([documents[index]["_id"] for index in np.argsort(-row)], relevant[query["_id"]])
        for query, row in zip(queries, similarity, strict=True)
    ]
    assert scores["ndcg_at_10"] == pytest.approx(fmean(found), abs=6e-6)


def test_a_slice_of_a_real_set(run, reference_data, tiny_model, make_folder, tmp_path):
    folder = reference_data / "ir" / "wiki-long-en"
    suite = Suite.from_folder("wiki", folder, split="test-position", group_by="bin")
    embedder = Embedder.from_pretrained(tiny_model, "landmark", 32, 64)
    scores = run(embedder, suite, tmp_path / "out")["wiki"]
    assert [name for name in scores if name.startswith("precision_at_1[")] == [
        f"precision_at_1[bin={number}]" for number in range(8)
    ]
    assert len(read_per_query(tmp_path / "out", "wiki")) == 447

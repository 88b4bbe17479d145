"""Corpora in shards: cut, kept, searched, gone on with; and what memory running out does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lmk_core import Embedder, PoolingConfig
from lmk_eval import Settings, Suite
from lmk_eval.corpus import STORAGES, Shards, shard_bounds, top_k
from lmk_eval.encoders.budget import Budget


def vectors(rows: int, dim: int = 8, seed: int = 0) -> np.ndarray:
    found = np.random.default_rng(seed).normal(size=(rows, dim)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def filled(folder: Path, documents: np.ndarray, bounds: list[int], storage: str = "float32") -> Shards:
    shards = Shards(folder, {"model": "m"}, bounds, storage)
    for shard in range(len(shards)):
        rows = shards.rows(shard)
        shards.write(shard, documents[rows.start : rows.stop])
    return shards


@pytest.mark.parametrize(
    ("lengths", "texts", "most", "wanted"),
    [
        ([1, 1, 1, 9, 1], 2, 8, [0, 2, 4, 5]),
        ([20, 1, 1], 5, 8, [0, 1, 3]),
        ([0, 0, 0], 2, 8, [0, 2, 3]),
        ([], 2, 8, [0]),
    ],
)
def test_where_shards_begin(lengths, texts, most, wanted):
    assert shard_bounds(np.array(lengths, dtype=np.int64), texts, most) == wanted


@pytest.mark.parametrize("k", [1, 7, 60])
@pytest.mark.parametrize("bounds", [[0, 60], [0, 1, 2, 40, 60]])
def test_a_search_over_shards_is_a_search(tmp_path, bounds, k):
    documents, queries = vectors(60), vectors(9, seed=1)
    shards = filled(tmp_path, documents, bounds)
    scores, rows = top_k(torch.from_numpy(queries), shards.blocks(7), k)
    plain = queries @ documents.T
    assert np.array_equal(rows.numpy(), np.argsort(-plain, axis=1)[:, :k])
    assert np.allclose(scores.numpy(), -np.sort(-plain, axis=1)[:, :k], atol=1e-6)
    wanted = [59, 0, 3, 3]
    assert np.array_equal(shards.take(wanted).numpy(), documents[wanted])


@pytest.mark.parametrize("storage", STORAGES)
def test_kept_in_half_the_room(tmp_path, storage):
    documents = vectors(50, dim=64)
    shards = filled(tmp_path, documents, [0, 30, 50], storage)
    found = torch.cat([block for _, block in shards.blocks(20)]).numpy()
    size = sum(path.stat().st_size for path in shards.folder.glob("*.npy"))
    assert size == 50 * 64 * (4 if storage == "float32" else 2) + 2 * 128
    error = {"float32": 0.0, "float16": 2**-11, "bfloat16": 2**-8}[storage]
    assert np.all(np.abs(found - documents) <= error * np.abs(documents) + 1e-7)
    assert (storage == "float32") == np.array_equal(found, documents)


def test_a_shard_is_finished_when_it_is_whole(tmp_path):
    documents = vectors(10)
    shards = Shards(tmp_path, {"model": "m"}, [0, 4, 10], "float32")
    assert [shards.finished(shard) for shard in range(2)] == [False, False]
    with pytest.raises(ValueError, match=r"shard 1 has 6 rows, the vectors are of shape \(4, 8\)"):
        shards.write(1, documents[:4])
    shards.write(1, documents[4:])
    assert [Shards(tmp_path, {"model": "m"}, [0, 4, 10], "float32").finished(shard) for shard in range(2)] == [0, 1]
    # Of another model, another cut or another type there is nothing.
    for source, bounds, storage in (
        ("n", [0, 4, 10], "float32"),
        ("m", [0, 10], "float32"),
        ("m", [0, 4, 10], "float16"),
    ):
        other = Shards(tmp_path, {"model": source}, bounds, storage)
        assert not any(other.finished(shard) for shard in range(len(other)))
    path = shards.folder / "000001.npy"
    path.write_bytes(path.read_bytes()[:-8])
    assert not shards.finished(1)
    with pytest.raises(ValueError, match="not finished"):
        next(shards.blocks(4))


def killing(run, model, suite, out, calls, **more):
    """Evaluate with a model that ends its process in one of its calls, as kill -9 does."""
    child = os.fork()
    if child == 0:
        own, left = model.encode, [calls]

        def encode(texts, **settings):
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return own(texts, **settings)

        model.encode = encode
        run(model, suite, out, **more)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def test_killed_in_a_corpus_it_goes_on_at_its_shard(run, random_set, tmp_path):
    folder, model, _, _ = random_set
    suite, settings = Suite.from_folder("random", folder), Settings(shard_texts=8)
    undisturbed = run(model, suite, tmp_path / "whole", settings=settings)
    assert len(model.calls) == 4 + 1  # 30 documents in shards of 8, and the queries
    killing(run, model, suite, tmp_path / "out", 3, settings=settings)
    model.calls.clear()
    assert run(model, suite, tmp_path / "out", settings=settings) == undisturbed
    assert [len(call) for call in model.calls] == [6, 20], "only the last shard, and the queries"
    assert not (tmp_path / "out" / "embeddings").exists()
    # One more time: everything is kept.
    model.calls.clear()
    assert run(model, suite, tmp_path / "out", settings=settings) == undisturbed
    assert not model.calls


def test_killed_in_a_suite_it_goes_on_with_the_next_task(run, random_set, tmp_path):
    from lmk_eval import Task

    folder, model, _, _ = random_set
    suite = Suite(name="two", tasks=tuple(Task(name=name, folder=str(folder)) for name in ("a", "b")))
    undisturbed = run(model, suite, tmp_path / "whole")
    killing(run, model, suite, tmp_path / "out", 3)
    model.calls.clear()
    assert run(model, suite, tmp_path / "out") == undisturbed
    assert [len(call) for call in model.calls] == [20], "the queries of the second task alone"


def test_shares_are_encoded_apart_and_scored_together(run, random_set, tmp_path):
    folder, model, _, _ = random_set
    suite = Suite.from_folder("random", folder)
    wanted = run(model, suite, tmp_path / "whole", settings=Settings(shard_texts=4))
    model.calls.clear()
    for number in range(3):
        assert run(model, suite, tmp_path / "out", settings=Settings(shard_texts=4, share=(number, 3))) == {}
    assert sorted(len(call) for call in model.calls) == [2, *[4] * 7]
    assert len(set(model.encoded)) == 30
    model.calls.clear()
    assert run(model, suite, tmp_path / "out", settings=Settings(shard_texts=4)) == wanted
    assert [len(call) for call in model.calls] == [20]
    with pytest.raises(ValueError, match=r"share: \(3, 3\)"):
        Settings(share=(3, 3))


def test_two_processes_encode_one_corpus(run, tiny_model, toy_folder, tmp_path, remembering):
    suite, pooling = Suite.from_folder("toy", toy_folder), PoolingConfig("landmark", granularity=4)
    wanted = run(tiny_model, suite, tmp_path / "alone", pooling=pooling)
    settings = Settings(shard_texts=3, processes=2)
    found = run(tiny_model, suite, tmp_path / "two", pooling=pooling, settings=settings, recorder=remembering)
    assert found == wanted
    assert [event["event"] for event in remembering.events] == ["task"], "no process failed"


def test_memory_that_runs_out_halves_the_budget_and_loses_nothing(
    run, tiny_model, toy_folder, tmp_path, monkeypatch, remembering
):
    """A GPU that holds 64 tokens: larger batches fail, are made smaller, and the vectors are the same."""
    from lmk_core.encoders import PooledEncoder

    suite = Suite.from_folder("toy", toy_folder)
    embedder = Embedder.from_pretrained(tiny_model, "landmark", 4, 64)
    wanted = run(embedder, suite, tmp_path / "large")
    own = PooledEncoder.forward_packed

    def forward(self, input_ids, *rest, **more):
        if input_ids.numel() > 64:
            raise torch.OutOfMemoryError(f"CUDA out of memory with {input_ids.numel()} tokens")
        return own(self, input_ids, *rest, **more)

    monkeypatch.setattr(PooledEncoder, "forward_packed", forward)
    found = run(embedder, suite, tmp_path / "small", batch_tokens=512, recorder=remembering)
    assert found == wanted
    budgets = [event["tokens"] for event in remembering.events if event["event"] == "smaller_batches"]
    assert budgets
    assert budgets == sorted(budgets, reverse=True)
    assert budgets[-1] <= 64
    monkeypatch.setattr(PooledEncoder, "forward_packed", lambda *_, **__: (_ for _ in ()).throw(MemoryError("none")))
    with pytest.raises(MemoryError) as caught:
        run(embedder, suite, tmp_path / "none", batch_tokens=512)
    assert caught.value.__notes__ == ["in task 'toy'"]


def test_a_budget_repeats_only_what_was_not_done(remembering):
    budget, seen = Budget(256, remembering), []

    def work(indices, tokens):
        for index in indices:
            if tokens > 128 and index == 2:
                raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried")
            seen.append(index)
            yield [index]

    budget.run([0, 1, 2, 3], work)
    assert seen == [0, 1, 2, 3]
    assert budget.tokens == 128
    with pytest.raises(RuntimeError, match="shape"):
        budget.run([0], lambda *_: (_ for _ in ()).throw(RuntimeError("shape mismatch")))


def test_a_long_text_among_short_ones_needs_memory_for_its_own_tokens_only(run, tiny_model, make_folder, tmp_path):
    """One text of 32,768 tokens in a corpus of short ones: batches are of tokens, so it makes no other batch large.

    (mteb #129: an evaluation that ran out of memory on such a corpus.)
    """
    from lmk_core.embedder.batches import BatchRunner

    documents = {f"d{number}": f"river {number}" for number in range(60)} | {"long": "stone house " * 16_384}
    folder = make_folder(tmp_path / "set", documents, {"q0": ("river 3", {})}, [("q0", "d3", 1)])
    batches: list[tuple[int, int]] = []

    def forward(self, layouts):
        batches.append((len(layouts), int(layouts.lengths.sum())))
        return torch.nn.functional.normalize(torch.rand(len(layouts), 16), dim=-1)  # only sizes are looked at

    embedder = Embedder.from_pretrained(tiny_model, "mean", max_length=32_768)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BatchRunner, "_forward", forward)
        run(embedder, Suite.from_folder("set", folder), tmp_path / "out", max_length=32_768, batch_tokens=1024)
    assert batches[0] == (1, 32_768)
    assert len(batches) > 1
    assert all(tokens <= 1024 for _, tokens in batches[1:])


def test_many_short_passages_in_bounded_memory(tmp_path):
    """Scores of 3,000 queries over 100,000 documents are 1.2 GB; the search stays far below."""
    code = """
import resource, sys, numpy as np, torch
from lmk_eval.corpus import Shards, top_k
shards = Shards(__import__("pathlib").Path(sys.argv[1]), {}, [0, 50_000, 100_000], "float16")
draw = np.random.default_rng(0)
for shard in range(2):
    shards.write(shard, draw.normal(size=(50_000, 4)).astype(np.float32))
queries = torch.from_numpy(draw.normal(size=(3000, 4)).astype(np.float32))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
scores, rows = top_k(queries, shards.blocks(16_384), 10)
assert scores.shape == (3000, 10) and int(rows.max()) > 50_000
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 400, f"{done.stdout} MB"


def test_two_writers_of_one_file_with_one_process_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As jobs on two machines may have: the second writes while the first is at it."""
    from lmk_eval.corpus import storage

    save, path = np.save, tmp_path / "000000.npy"

    def interrupted(*args: Any, **kwargs: Any) -> None:
        monkeypatch.setattr(np, "save", save)
        storage.write_array(path, np.ones(3))
        save(*args, **kwargs)

    monkeypatch.setattr(np, "save", interrupted)
    storage.write_array(path, np.zeros(3))
    assert storage.map_array(path).tolist() == [0.0, 0.0, 0.0]
    assert [one.name for one in tmp_path.iterdir()] == [path.name]

"""Lightning on two processes: a real encoder trains as in one, and stops as one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from started import run_pair
from two_trainers import train_here

WORKER = Path(__file__).with_name("two_trainers.py")


@pytest.fixture(scope="module")
def found(tmp_path_factory, calm_model, make_rows, write_rows) -> dict:
    """Of each case what one process and both of two came to; 9 rows a step are 5 and 4 on two."""
    folder = tmp_path_factory.mktemp("trainers")
    rows = make_rows(18, scores=True) + make_rows(9, seed=1)
    for row in rows[3:6]:
        row["neg"], row["neg_scores"] = row["neg"][:1], row["neg_scores"][:1]
    path = write_rows(folder / "rows.jsonl", rows)

    def case(*, wrapped: bool = True, spoil: str = "", loss: dict | None = None, **runtime) -> dict:
        config = {
            "model": {"path": str(calm_model)},
            "pooling": {"kind": "landmark", "granularity": [2, 4]},
            "data": {"train": [str(path)], "negatives": 2, "query_max_length": 16, "passage_max_length": 32},
            "optim": {"steps": 2, "batch_size": 9, "learning_rate": 1e-4, "gradient_clip": 0.5},
            "loss": {"temperature": 0.1, **(loss or {})},
            "runtime": {"accelerator": "cpu", "checkpoint_every": None, **runtime},
        }
        return {"config": config, "wrapped": wrapped, "spoil": spoil}

    cases = {
        "plain": case(),
        "chunks": case(chunk_tokens=60),
        "unwrapped": case(wrapped=False, chunk_tokens=60),
        "options": case(chunk_tokens=60, loss={"bidirectional": True, "mask_duplicates": True, "matryoshka": [8, 32]}),
        "vector": case(spoil="vector", wrapped=False, chunk_tokens=60),
        "gradient": case(spoil="gradient"),
        "memory": case(spoil="memory", wrapped=False),
    }
    (folder / "cases.json").write_text(json.dumps(cases), encoding="utf-8")
    pair = run_pair(WORKER, folder)
    from lmk_train.config import TrainConfig

    alone = {}
    for name in ("plain", "options"):
        alone[name] = train_here(TrainConfig.model_validate(cases[name]["config"]), folder, 0, 1)
    return {"alone": alone, "pair": pair}


@pytest.mark.parametrize("name", ["plain", "chunks", "unwrapped", "options", "memory"])
def test_gradients_equal_those_of_one_process(found, name):
    alone = found["alone"]["options" if name == "options" else "plain"]
    for one in (process[name] for process in found["pair"]):
        assert one["error"] is None
        assert len(one["gradients"]) == 2
        (first_step, second_step) = (
            (ours - theirs).abs().max() for ours, theirs in zip(one["gradients"], alone["gradients"], strict=True)
        )
        assert first_step < 1e-6
        assert second_step < 1e-5  # AdamW's first step is a sign: it makes much of the smallest differences
        for ours, theirs in zip(one["values"], alone["values"], strict=True):
            assert ours["train/loss"] == pytest.approx(theirs["train/loss"], abs=1e-5)
            assert ours["train/gradient_norm"] == pytest.approx(theirs["train/gradient_norm"], rel=1e-5)
            assert ours["train/padding_share"] == 0
            assert 0 <= ours["train/attention_padding_share"] < 0.6
    first, second = (process[name] for process in found["pair"])
    assert all(torch.equal(first["weights"][key], second["weights"][key]) for key in first["weights"])
    timed = dict.fromkeys(("train/tokens_per_second", "train/teraflops_per_second"), 0)
    assert [{**value, **timed} for value in first["values"]] == [{**value, **timed} for value in second["values"]]


def test_gradients_are_of_a_size_to_be_told_apart(found):
    """The bound above means something: the gradient has entries a thousand times as large."""
    assert found["alone"]["plain"]["gradients"][0].abs().max() > 1e-3


@pytest.mark.parametrize("name", ["vector", "gradient"])
def test_a_number_that_is_none_stops_both_in_the_same_step_with_its_rows(found, name):
    first, second = (process[name] for process in found["pair"])
    assert len(first["gradients"]) == len(second["gradients"]) == 1
    assert first["error"] == second["error"]
    what = "the loss is nan" if name == "vector" else r"the gradient's norm is (?:nan|inf)"
    match = re.match(
        rf"NonFiniteError: {what} at step 2 of 2, with rows ([\d, ]+) of '.*' in process 1; this step changed no",
        first["error"],
    )
    assert match, first["error"]
    (event,) = [event for event in first["events"] if event["kind"] == "not_finite"]
    (where,) = event["where"]
    assert (event["step"], where["process"]) == (2, 1)
    assert ", ".join(map(str, where["rows"])) == match[1]
    # The longest text of each chunk has the faulty vector; a faulty gradient could be of any of the four rows.
    assert 1 <= len(where["rows"]) <= 4 if name == "vector" else len(where["rows"]) == 4


def test_memory_that_runs_out_in_one_process_is_told_by_both(found):
    first, second = (process["memory"] for process in found["pair"])
    kinds = [
        [(event["kind"], event["step"], event["chunk_tokens"]) for event in one["events"]] for one in (first, second)
    ]
    assert kinds[0] == kinds[1]
    assert {(kind, step) for kind, step, _ in kinds[0]} == {("chunk_halved", 1)}
    sizes = [size for _, _, size in kinds[0]]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] <= 100
    assert [value["train/chunk_tokens"] for value in first["values"]] == [sizes[-1]] * 2

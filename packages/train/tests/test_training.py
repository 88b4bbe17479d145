from __future__ import annotations

import math
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from lmk_core import Embedder
from lmk_train import DataError, train

KINDS = {
    "cls": {"kind": "cls"},
    "mean": {"kind": "mean"},
    "mean_at_k": {"kind": "mean_at_k", "k": 4},
    "latent_attention": {"kind": "latent_attention", "num_latents": 4},
    "landmark": {"kind": "landmark", "granularity": 4},
    "landmark_variable": {"kind": "landmark", "granularity": [2, 4, 8]},
}


def weights(model: Path) -> dict[str, torch.Tensor]:
    return Embedder.from_pretrained(model, device="cpu").module.state_dict()


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_learns_an_easy_task(kind, make_config, tmp_path, recorder):
    config = make_config(pooling=KINDS[kind], optim__steps=100)
    model = train(config, tmp_path, recorder)
    curve = recorder.curve("train/loss")
    assert list(curve) == list(range(1, 101))
    assert np.mean([curve[step] for step in range(96, 101)]) < 0.6 * np.mean([curve[step] for step in range(1, 4)])
    assert model == tmp_path / "model"
    embedder = Embedder.from_pretrained(model, device="cpu")
    assert embedder.pooling == config.pooling
    assert embedder.max_length == 32
    assert not (tmp_path / "checkpoints").exists()


def test_what_is_recorded(make_config, tmp_path, recorder):
    config = make_config(runtime__log_every=4)
    train(config, tmp_path, recorder)
    assert recorder.kinds() == ["start", "finished"]
    start, finished = recorder.events
    assert start["rows"] == 64
    assert start["rows_with_scores"] == 0
    assert start["rows_without_negatives"] == 0
    assert start["dropped_positives_among_negatives"] == 0
    assert start["device"] == "cpu"
    assert start["torch"] == torch.__version__
    assert start["parameters"] == sum(value.numel() for value in weights(tmp_path / "model").values())
    assert finished["steps"] == 6
    assert finished["seconds"] > 0
    assert list(recorder.curve("train/loss")) == [4, 6]
    assert all(value > 0 for value in recorder.curve("train/tokens_per_second").values())
    assert recorder.steps[-1] == (6, 6, "step")
    assert [step for step, _, _ in recorder.steps] == sorted({step for step, _, _ in recorder.steps})


def test_the_learning_rate_of_each_step(make_config, tmp_path, recorder):
    train(make_config(), tmp_path, recorder)
    rates = list(recorder.curve("train/learning_rate").values())
    assert rates == pytest.approx([0.005, 0.01, 0.01, 0.0075, 0.005, 0.0025])


def test_the_first_loss_is_that_of_the_first_batch(make_config, tmp_path, recorder):
    """One step without dropout: the recorded loss is the one computed here from the loaded model."""
    from lmk_train.data import ContrastiveData
    from lmk_train.modules import ContrastiveModule

    config = make_config(optim__steps=1, optim__warmup_steps=0)
    embedder = Embedder.from_pretrained(config.model.path, pooling=config.pooling, max_length=32, device="cpu")
    data = ContrastiveData(config, embedder.tokenizer)
    batch = data.collator([data.dataset[key] for key in data.order().batch(0)])
    module = ContrastiveModule(embedder.module, embedder.tokenizer, config)
    torch.manual_seed(0)
    train(config, tmp_path, recorder)
    torch.manual_seed(0)
    module.train()
    with_dropout = module.loss(batch).item()
    module.eval()
    without = module.loss(batch).item()
    recorded = recorder.curve("train/loss")[1]
    assert math.isclose(recorded, with_dropout, rel_tol=1e-6)
    assert abs(recorded - without) > 1e-4  # dropout is on in training


def test_no_steps_saves_the_initial_model(make_config, tiny_model, tmp_path, recorder, rows_file):
    config = make_config(optim__steps=0, data__validation=str(rows_file))
    model = train(config, tmp_path, recorder)
    initial = Embedder.from_pretrained(tiny_model, pooling=config.pooling, device="cpu").module.state_dict()
    assert same(weights(model), initial)
    assert list(recorder.curve("validation/ndcg_at_10")) == [0]
    assert recorder.kinds() == ["start", "finished"]


def test_the_seed_decides_everything(make_config, tmp_path):
    latent = {"kind": "latent_attention", "num_latents": 4}
    torch.manual_seed(99)
    first = weights(train(make_config(pooling=latent), tmp_path / "a"))
    torch.manual_seed(7)
    again = weights(train(make_config(pooling=latent), tmp_path / "b"))
    other = weights(train(make_config(pooling=latent, seed=1), tmp_path / "c"))
    assert same(first, again)
    assert not same(first, other)


@pytest.mark.parametrize("change", [{"runtime__num_workers": 2}, {"runtime__log_every": 3}])
def test_the_runtime_changes_nothing(make_config, tmp_path, change):
    variable = {"kind": "landmark", "granularity": [2, 4]}
    config = make_config(pooling=variable, optim__steps=10)
    changed = make_config(pooling=variable, optim__steps=10, **change)
    assert same(weights(train(config, tmp_path / "a")), weights(train(changed, tmp_path / "b")))


def test_bf16_trains_float32_weights(make_config, tmp_path, recorder, rows_file):
    config = make_config(precision="bf16", data__validation=str(rows_file), runtime__validate_every=3)
    model = train(config, tmp_path, recorder)
    assert list(recorder.curve("validation/ndcg_at_10")) == [3, 6]
    assert {value.dtype for value in weights(model).values()} == {torch.float32}
    fp32 = weights(train(make_config(), tmp_path / "fp32"))
    assert not same(weights(model), fp32)
    curve = recorder.curve("train/loss")
    assert list(curve) == [1, 2, 3, 4, 5, 6]
    assert all(math.isfinite(loss) for loss in curve.values())


def test_distillation_trains(make_config, make_rows, write_rows, tmp_path, recorder):
    rows = write_rows(tmp_path / "rows.jsonl", make_rows(10, scores=True) + make_rows(6, seed=1))
    distilled = train(make_config(data__train=[str(rows)]), tmp_path / "a", recorder)
    ignored = train(
        make_config(data__train=[str(rows)], loss={"temperature": 0.1, "distillation": "off"}), tmp_path / "b"
    )
    assert recorder.events[0]["rows_with_scores"] == 10
    assert not same(weights(distilled), weights(ignored))


def test_rows_without_negatives_train_beside_others(make_config, make_rows, write_rows, tmp_path, recorder):
    rows = make_rows(16)
    for row in rows[:4]:
        row["neg"] = []
    rows[4]["neg"] = [rows[4]["pos"][0]]
    rows[5]["neg"].insert(1, rows[5]["pos"][0])
    path = write_rows(tmp_path / "rows.jsonl", rows)
    train(make_config(data__train=[str(path)]), tmp_path / "run", recorder)
    assert recorder.events[0]["rows_without_negatives"] == 5
    assert recorder.events[0]["dropped_positives_among_negatives"] == 2
    assert len(recorder.curve("train/loss")) == 6


def test_a_dropped_positive_leaves_the_rest_as_it_is(make_config, make_rows, write_rows, tmp_path, recorder):
    """The same rows without the positives among the negatives have the same losses, bit for bit."""
    rows = make_rows(16)
    plain = write_rows(tmp_path / "plain.jsonl", rows)
    doubled = write_rows(tmp_path / "doubled.jsonl", [{**row, "neg": [*row["pos"], *row["neg"]]} for row in rows])
    train(make_config(data__train=[str(plain)]), tmp_path / "a", recorder)
    expected = recorder.curve("train/loss")
    recorder.values.clear()
    train(make_config(data__train=[str(doubled)]), tmp_path / "b", recorder)
    assert recorder.curve("train/loss") == expected


def test_clipping_changes_the_weights(make_config, tmp_path):
    """AdamW forgives a factor that is the same in every step, not one that differs."""
    optim = {"steps": 4, "batch_size": 8, "learning_rate": 1e-2}
    tight = weights(train(make_config(optim={**optim, "gradient_clip": 0.01}), tmp_path / "a"))
    loose = weights(train(make_config(optim={**optim, "gradient_clip": None}), tmp_path / "b"))
    assert not same(tight, loose)


def test_faulty_data_stops_before_anything_is_written(make_config, write_rows, tmp_path):
    path = write_rows(tmp_path / "rows.jsonl", [{"query": "q", "pos": "text"}])
    with pytest.raises(DataError, match=r"rows.jsonl:1: 'pos' must be a list"):
        train(make_config(data__train=[str(path)]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


class SignalAtStep:
    """A recorder that sends a signal to its own process."""

    def __init__(self, number: int) -> None:
        self.number = number

    def event(self, kind, **fields):
        pass

    def progress(self, done, total, unit="step"):
        pass

    def metrics(self, values, step):
        if step == 2:
            signal.raise_signal(self.number)


def test_sigterm_is_no_success(make_config, tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as caught:
        train(make_config(), tmp_path, SignalAtStep(signal.SIGTERM))
    assert caught.value.code == 143
    assert signal.getsignal(signal.SIGTERM) == before
    assert not (tmp_path / "model").exists()


def test_ctrl_c_is_a_keyboard_interrupt(make_config, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(make_config(), tmp_path, SignalAtStep(signal.SIGINT))
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler

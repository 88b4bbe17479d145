"""A training's steps: chunks, memory that runs out, what is recorded, and what stops it."""

from __future__ import annotations

import math
import re

import pytest
import torch
from stopping import Stopped

from lmk_core import Embedder
from lmk_core.encoders import PooledEncoder
from lmk_train import DivergenceError, NonFiniteError, train
from lmk_train.data import ContrastiveData
from lmk_train.modules import divergence, warmup_then_decay


@pytest.fixture
def cramp(monkeypatch):
    """Makes the encoder run out of memory beyond so many tokens, with padding if any, that are to have a graph."""
    originals = {name: getattr(PooledEncoder, name) for name in ("forward", "forward_packed")}

    def arm(room: float) -> None:
        def patched(name):
            def forward(self, input_ids, *args, **kwargs):
                if torch.is_grad_enabled() and input_ids.numel() > room:
                    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
                return originals[name](self, input_ids, *args, **kwargs)

            return forward

        for name in originals:
            monkeypatch.setattr(PooledEncoder, name, patched(name))

    return arm


def weights(model) -> dict[str, torch.Tensor]:
    return Embedder.from_pretrained(model, device="cpu").module.state_dict()


def same(left, right) -> bool:
    ours, theirs = weights(left), weights(right)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_size_of_chunks_changes_nothing(precision, make_config, calm_model, tmp_path, recorder):
    settings = {
        "model": {"path": str(calm_model)},
        "precision": precision,
        "optim": {"steps": 3, "batch_size": 8, "learning_rate": 1e-5},
    }
    curves = {}
    for chunk in (None, 1, 64, 200):
        train(make_config(**settings, runtime__chunk_tokens=chunk), tmp_path / str(chunk), recorder)
        curves[chunk] = [recorder.curve(name) for name in ("train/loss", "train/gradient_norm")]
        assert recorder.curve("train/chunk_tokens") == ({} if chunk is None else dict.fromkeys((1, 2, 3), chunk))
        recorder.values.clear()
    tolerance = 1e-5 if precision == "fp32" else 0.02
    for chunk in (1, 64, 200):
        for ours, theirs in zip(curves[chunk], curves[None], strict=True):
            assert ours == pytest.approx(theirs, rel=tolerance)


@pytest.mark.parametrize("stop", [2, 5])
def test_a_resumed_training_in_chunks_is_the_undisturbed_one(stop, make_config, tmp_path, recorder, stop_after, cramp):
    """With dropout; the chunk is halved in the third step, before one checkpoint and behind the other."""
    settings = {"optim__steps": 6, "runtime__chunk_tokens": 400, "runtime__checkpoint_every": stop}

    def cramped_from_the_third(step):
        cramp(60 if step >= 2 else math.inf)

    class Cramping(type(recorder)):
        def metrics(self, values, step):
            super().metrics(values, step)
            cramped_from_the_third(step)

    whole_recorder = Cramping()
    whole = train(make_config(**settings), tmp_path / "whole", whole_recorder)
    halved = [(event["step"], event["chunk_tokens"]) for event in whole_recorder.events if "chunk" in event["event"]]
    assert halved[0][0] == 3
    assert [size for _, size in halved] == sorted({size for _, size in halved}, reverse=True)
    assert halved[-1][1] <= 60
    expected = whole_recorder.curve("train/loss")

    cramp(math.inf)
    stop_after(stop)
    with pytest.raises(Stopped):
        train(make_config(**settings), tmp_path / "run", Cramping())
    stop_after(0)
    # Resumed where there is memory enough, the chunk that was halved stays as it is.
    cramp(60 if stop == 2 else math.inf)
    again = Cramping() if stop == 2 else recorder
    resumed = train(make_config(**settings), tmp_path / "run", again)
    assert again.curve("train/loss") == {step: loss for step, loss in expected.items() if step > stop}
    assert set(again.curve("train/chunk_tokens").values()) == {halved[-1][1]}
    assert same(resumed, whole)


def test_a_chunk_that_the_user_changed_is_taken(make_config, tmp_path, recorder, stop_after):
    stop_after(3)
    with pytest.raises(Stopped):
        train(make_config(runtime__chunk_tokens=400, runtime__checkpoint_every=3), tmp_path)
    stop_after(0)
    train(make_config(runtime__chunk_tokens=100), tmp_path, recorder)
    assert set(recorder.curve("train/chunk_tokens").values()) == {100}


def test_the_chunk_goes_down_to_what_fits_and_the_batch_stays(make_config, calm_model, tmp_path, recorder, cramp):
    settings = {"model": {"path": str(calm_model)}, "optim__learning_rate": 1e-5}
    train(make_config(**settings), tmp_path / "roomy", recorder)
    expected = recorder.curve("train/loss")
    recorder.values.clear()
    cramp(80)
    train(make_config(**settings), tmp_path / "cramped", recorder)
    assert recorder.curve("train/loss") == pytest.approx(expected, rel=1e-5)
    halved = [event for event in recorder.events if event["event"] == "chunk_halved"]
    assert {event["step"] for event in halved} == {1}
    assert "Tried to allocate" in halved[0]["reason"]


def test_a_memory_too_small_for_one_text_ends_it(make_config, tmp_path, recorder, cramp):
    cramp(3)
    with pytest.raises(torch.OutOfMemoryError, match=r"one text of \d+ tokens.*data.passage_max_length"):
        train(make_config(), tmp_path, recorder)
    assert recorder.kinds()[-1] == "chunk_halved"
    assert not (tmp_path / "model").exists()


def test_a_checkpoint_of_the_time_before_chunks_is_resumable(make_config, tmp_path, recorder, stop_after):
    """Lightning counted the steps elsewhere then, and the module kept nothing of its own."""
    config = make_config(runtime__checkpoint_every=3)
    padded = make_config(runtime__checkpoint_every=3, runtime__packed=False)  # there was nothing else
    whole = train(padded, tmp_path / "whole")
    stop_after(3)
    with pytest.raises(Stopped):
        train(padded, tmp_path / "run")
    stop_after(0)
    path = tmp_path / "run/checkpoints/last.ckpt"
    content = torch.load(path, weights_only=True)
    del content["lmk_step"]
    loop = content["loops"]["fit_loop"]
    for part in ("total", "current"):
        loop["epoch_loop.manual_optimization.optim_step_progress"][part] = {"ready": 0, "completed": 0}
        loop["epoch_loop.automatic_optimization.optim_progress"]["optimizer"]["step"][part] = {
            "ready": 3,
            "completed": 3,
        }
    torch.save(content, path)
    resumed = train(config, tmp_path / "run", recorder)
    assert {"event": "resumed", "step": 3} in recorder.events
    assert list(recorder.curve("train/loss")) == [4, 5, 6]
    (told,) = (event for event in recorder.events if event["event"] == "padded")
    assert (told["step"], told["reason"][:27]) == (3, "so it was before the checkp")
    assert same(resumed, whole)


@pytest.mark.parametrize("packed", [True, False])
def test_what_a_step_records(packed, make_config, make_rows, write_rows, tmp_path, recorder):
    rows = make_rows(16)
    rows[1] = {**rows[1], "query": rows[0]["query"]}
    path = write_rows(tmp_path / "rows.jsonl", rows)
    config = make_config(
        data__train=[str(path)],
        optim={"steps": 2, "batch_size": 16, "learning_rate": 1e-3, "gradient_clip": 1e-3},
        loss={"temperature": 0.1, "mask_duplicates": True},
        runtime__packed=packed,
    )
    train(config, tmp_path / "run", recorder)
    embedder = Embedder.from_pretrained(config.model.path, pooling=config.pooling, max_length=32, device="cpu")
    data = ContrastiveData(config, embedder.tokenizer)
    for step, batch in enumerate(data.batches(), start=1):
        lengths = torch.tensor([*batch.queries.lengths, *batch.passages.lengths])
        padding = 1 - lengths.sum().item() / (len(lengths) * lengths.max().item())  # they all fit one chunk
        assert recorder.curve("train/padding_share")[step] == pytest.approx(0 if packed else padding)
        assert ("train/attention_padding_share" in recorder.values[step - 1][1]) == packed
        groups = batch.passage_keys.reshape(16, 3).tolist()
        queries = batch.query_keys.tolist()
        pairs = sum(
            text in groups[row] or (slot == 0 and queries[row] == queries[owner])
            for row in range(16)
            for owner in range(16)
            for slot, text in enumerate(groups[owner])
            if owner != row
        )
        assert pairs > 2
        assert recorder.curve("train/masked_duplicates")[step] == pairs
        assert recorder.curve("train/gradient_norm")[step] > 1e-3  # that before it was clipped
    assert recorder.curve("train/chunk_tokens") == {}


def test_identical_texts_in_bfloat16_at_the_papers_temperature(make_config, write_rows, tmp_path, recorder):
    """In half precision this gave a loss of 0 or NaN."""
    row = {"query": "kaba lodo", "pos": ["kaba lodo"], "neg": ["kaba lodo migi"]}
    path = write_rows(tmp_path / "rows.jsonl", [row] * 8)
    train(
        make_config(data__train=[str(path)], precision="bf16", loss={"temperature": 0.02}, optim__warmup_steps=0),
        tmp_path / "run",
        recorder,
    )
    losses = list(recorder.curve("train/loss").values())
    assert len(losses) == 6
    assert all(math.log(8) * 0.99 < loss < 10 for loss in losses)
    assert all(math.isfinite(norm) for norm in recorder.curve("train/gradient_norm").values())


def test_a_faulty_vector_names_its_row(make_config, make_rows, write_rows, tmp_path, recorder, monkeypatch):
    """One row's query has the only text of its length; its vector is no number."""
    original = PooledEncoder.forward_packed

    def forward(self, input_ids, cu_seqlens, *args, **kwargs):
        vectors = original(self, input_ids, cu_seqlens, *args, **kwargs)
        return vectors * torch.where(cu_seqlens.diff() == 3, float("nan"), 1.0)[:, None]

    monkeypatch.setattr(PooledEncoder, "forward_packed", forward)
    rows = make_rows(16)
    rows[5]["query"] = "ka"
    path = write_rows(tmp_path / "rows.jsonl", rows)
    with pytest.raises(NonFiniteError, match=r"the loss is nan at step \d of 10, with rows 5 of 'rows'") as caught:
        train(make_config(data__train=[str(path)], optim__steps=10), tmp_path / "run", recorder)
    event = recorder.events[-1]
    assert (event["event"], event["step"]) == ("not_finite", caught.value.step)
    assert [(where["process"], where["rows"]) for where in event["where"]] == [(0, [5])]
    assert str(caught.value) == event["error"]


def test_a_loss_that_diverges_stops_the_training(make_config, calm_model, tmp_path, recorder, monkeypatch):
    """A rate a thousand times too high: it learns while the rate rises, and then unlearns."""
    monkeypatch.setattr(divergence, "WINDOW", 4)
    config = make_config(
        model={"path": str(calm_model)},
        optim={"steps": 60, "batch_size": 8, "learning_rate": 0.1, "warmup_steps": 50, "gradient_clip": None},
        loss={"temperature": 0.02},
    )
    with pytest.raises(DivergenceError, match=r"the loss diverges at step \d+ of 60.*runtime.divergence to null"):
        train(config, tmp_path / "run", recorder)
    event, curve = recorder.events[-1], list(recorder.curve("train/loss").values())
    assert (event["event"], event["step"]) == ("diverged", len(curve) + 1)
    assert len(event["where"][0]["rows"]) == 8
    mean = float(re.search(r"last steps is ([\d.]+)", event["error"])[1])
    lowest = min(sum(curve[i : i + 4]) / 4 for i in range(len(curve) - 3))
    assert mean > 2 * lowest
    assert mean > sum(curve[:4]) / 4
    assert not (tmp_path / "run/model").exists()


def test_the_logarithmic_warm_up_is_the_formula():
    """That of DeepSpeed's source: log(i + 1) / log(w) for i < w, then (n - i) / (n - w)."""
    factor = warmup_then_decay(250, 5000, "logarithmic")
    for done in (0, 1, 2, 3, 10, 249):
        assert factor(done) == pytest.approx(math.log(done + 1) / math.log(250))
    assert factor(0) == 0.0
    assert factor(1) == pytest.approx(0.125536, rel=1e-5)
    assert factor(15) == pytest.approx(0.502145, rel=1e-5)  # half of the rate after 6 % of the warm-up
    for done in (250, 1000, 4999, 5000, 6000):
        assert factor(done) == pytest.approx(max(0, 5000 - done) / 4750)
    assert [warmup_then_decay(1, 4, "logarithmic")(done) for done in range(5)] == [0.0, 1.0, 1.0, 0.5, 0.0]
    assert warmup_then_decay(0, 4, "logarithmic")(0) == 1.0


def test_the_logarithmic_warm_up_trains(make_config, tmp_path, recorder):
    optim = {"steps": 6, "batch_size": 8, "learning_rate": 1e-2, "warmup_steps": 4, "warmup": "logarithmic"}
    train(make_config(optim=optim), tmp_path, recorder)
    rates = list(recorder.curve("train/learning_rate").values())
    log = math.log
    assert rates == pytest.approx([0.0, 0.01 * log(2) / log(4), 0.01 * log(3) / log(4), 0.01, 0.01, 0.005])

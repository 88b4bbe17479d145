from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import pytest
import torch

from lmk_core import Embedder
from lmk_train import train
from lmk_train.data import ContrastiveData
from lmk_train.fitting import make_trainer
from lmk_train.modules import ContrastiveModule, NonFiniteError, stepping

WILD = {"batch_size": 8, "learning_rate": 1e30, "gradient_clip": None}


def weights(model: Path) -> dict[str, torch.Tensor]:
    return Embedder.from_pretrained(model, device="cpu").module.state_dict()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_fused_optimizer_is_clipped(precision, make_config, tmp_path, monkeypatch, recorder):
    """As on a GPU. Without the clip the first steps would be others."""
    monkeypatch.setattr(stepping, "make_optimizer", _fused(stepping.make_optimizer))
    train(make_config(precision=precision), tmp_path / "a", recorder)
    curve = recorder.curve("train/loss")
    assert len(curve) == 6
    assert all(math.isfinite(loss) for loss in curve.values())
    recorder.values.clear()
    optim = {"steps": 6, "batch_size": 8, "learning_rate": 1e-2, "warmup_steps": 2, "gradient_clip": 1e-6, "eps": 1e-4}
    train(make_config(precision=precision, optim=optim), tmp_path / "b", recorder)
    assert abs(recorder.curve("train/loss")[6] - curve[1]) < abs(curve[6] - curve[1])


def _fused(original):
    def make(module, optim, *, fused):
        return original(module, optim, fused=True)

    return make


def test_the_gradient_is_clipped_to_its_norm(make_config, tmp_path):
    config = make_config(optim={"steps": 1, "batch_size": 8, "learning_rate": 1e-2, "gradient_clip": 1e-3})
    module = _module(config)
    norms = []
    step = torch.optim.AdamW.step

    def spy(optimizer, closure=None):
        step(optimizer, closure)
        gradients = [p.grad.flatten() for group in optimizer.param_groups for p in group["params"]]
        norms.append(torch.cat(gradients).norm().item())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", spy)
        _fit(config, module, tmp_path)
    assert norms == [pytest.approx(1e-3, rel=1e-3)]


def test_a_loss_that_is_no_number_names_the_step(make_config, tmp_path):
    config = make_config(optim={**WILD, "steps": 6, "weight_decay": 1e3})
    with pytest.raises(NonFiniteError, match=r"the loss is nan at step [2-4] of 6.*learning_rate is 1e\+30"):
        train(config, tmp_path)
    assert not (tmp_path / "model").exists()


def test_a_gradient_that_is_no_number_changes_no_weight(make_config, tmp_path):
    config = make_config()
    module = _module(config)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    parameter = next(module.parameters())
    parameter.register_hook(partial(torch.mul, other=math.inf))
    with pytest.raises(NonFiniteError, match=r"the gradient's norm is (inf|nan) at step 1 of 6.*changed no weight"):
        _fit(config, module, tmp_path)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_weights_that_are_no_numbers_are_not_saved(make_config, tmp_path):
    """The only step has a finite loss and gradient, and overflows all the same."""
    config = make_config(optim={**WILD, "steps": 1, "weight_decay": 1e30})
    with pytest.raises(NonFiniteError, match=r"weights after step 1 of 1 are not finite.* in encoder\..*and \d+ more"):
        train(config, tmp_path)
    assert not (tmp_path / "model").exists()


def test_weights_that_are_no_numbers_make_no_checkpoint(make_config, tmp_path):
    config = make_config(optim={**WILD, "steps": 6, "weight_decay": 1e30}, runtime__checkpoint_every=1)
    for _ in range(2):
        with pytest.raises(NonFiniteError, match="weights after step 1 of 6 are not finite"):
            train(config, tmp_path)
    assert not list(tmp_path.rglob("*.ckpt"))


def test_a_faulty_encoder_is_not_saved_as_the_initial_model(make_config, tiny_model, tmp_path):
    embedder = Embedder.from_pretrained(tiny_model, pooling="mean", device="cpu")
    with torch.no_grad():
        next(embedder.module.parameters())[0, 0] = math.nan
    faulty = embedder.save_pretrained(tmp_path / "faulty")
    config = make_config(model={"path": str(faulty)}, pooling={"kind": "mean"}, optim__steps=0)
    with pytest.raises(NonFiniteError, match="weights after step 0 of 0"):
        train(config, tmp_path / "run")


def _module(config) -> ContrastiveModule:
    embedder = Embedder.from_pretrained(config.model.path, pooling=config.pooling, max_length=32, device="cpu")
    module = ContrastiveModule(embedder.module, embedder.tokenizer, config)
    module.tokenizer = embedder.tokenizer
    return module


def _fit(config, module: ContrastiveModule, folder: Path) -> None:
    make_trainer(config, folder, []).fit(module, datamodule=ContrastiveData(config, module.tokenizer))

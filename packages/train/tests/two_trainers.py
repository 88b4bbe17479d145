"""Run by `test_two_trainers`: ``python two_trainers.py RANK PORT FOLDER`` trains each of FOLDER's configurations.

Lightning finds two processes that were started for it, as a launcher does, and wraps the module in DDP or not.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.plugins.environments import TorchElasticEnvironment
from lightning.pytorch.strategies import DDPStrategy

from lmk_core import Embedder
from lmk_train.callbacks import MetricsReporter
from lmk_train.config import TrainConfig
from lmk_train.data import ContrastiveData
from lmk_train.fitting import seed_everything
from lmk_train.modules import ContrastiveModule


class Unwrapped(DDPStrategy):
    """Several processes, and no wrapper: the module sums its gradients itself."""

    def configure_ddp(self) -> None:
        pass


class Kept:
    """A recorder that keeps metrics and events."""

    def __init__(self) -> None:
        self.values: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []

    def event(self, kind: str, **fields: Any) -> None:
        self.events.append({"kind": kind, **fields})

    def metrics(self, values, step: int) -> None:
        self.values.append({"step": step, **values})

    def progress(self, done: int, total: int, unit: str = "step") -> None:
        pass


def train_here(config: TrainConfig, folder: Path, rank: int, world_size: int, spoil: str = "", **trainer: Any) -> dict:
    """A training's clipped gradients of each step, its records, its weights, and what it died of."""
    seed_everything(config.seed)
    embedder = Embedder.from_pretrained(config.model.path, pooling=config.pooling, max_length=32, device="cpu")
    module = ContrastiveModule(embedder.module, embedder.tokenizer, config)
    data = ContrastiveData(config, embedder.tokenizer, rank=rank, world_size=world_size)
    recorder, gradients, error = Kept(), [], None
    original = torch.optim.AdamW.step

    def spy(optimizer, closure=None):
        result = original(optimizer, closure)
        kept = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        gradients.append(torch.cat([gradient.flatten() for gradient in kept]))
        return result

    if spoil and rank == world_size - 1:
        _spoil(module, spoil)
    torch.optim.AdamW.step = spy
    try:
        lightning = Trainer(
            accelerator="cpu",
            precision="bf16-mixed" if config.precision == "bf16" else "32-true",
            max_steps=config.optim.steps,
            callbacks=[MetricsReporter(recorder, 1, config.optim.steps)],
            default_root_dir=folder,
            use_distributed_sampler=False,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            **trainer,
        )
        lightning.fit(module, datamodule=data)
    except ValueError as stop:
        error = f"{type(stop).__name__}: {stop}"
    finally:
        torch.optim.AdamW.step = original
    weights = {name: value.clone() for name, value in module.encoder.state_dict().items()}
    return {
        "gradients": gradients,
        "values": recorder.values,
        "events": recorder.events,
        "weights": weights,
        "error": error,
    }


def _spoil(module: ContrastiveModule, how: str) -> None:
    """From the second step on, a vector or a gradient of this process is no number; or its memory is small."""
    original = module.embed

    def embed(texts):
        vectors = original(texts)
        if how == "memory" and len(texts) * int(texts.lengths.max()) > 100:
            raise torch.OutOfMemoryError("out of memory")
        if module.trainer.global_step == 0 or how == "memory":
            return vectors
        if how == "vector":
            return vectors * torch.where(torch.arange(len(vectors)) == 0, float("nan"), 1.0)[:, None]
        if vectors.requires_grad:
            vectors.register_hook(lambda gradient: gradient * float("inf"))
        return vectors

    module.engine.embed = embed


def main(rank: int, port: str, folder: Path) -> None:
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        GROUP_RANK="0",
        WORLD_SIZE="2",
        LOCAL_WORLD_SIZE="2",
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=port,
        TORCHELASTIC_RUN_ID="test",
    )
    found = {}
    for name, case in json.loads((folder / "cases.json").read_text(encoding="utf-8")).items():
        strategy = DDPStrategy() if case["wrapped"] else Unwrapped()
        found[name] = train_here(
            TrainConfig.model_validate(case["config"]),
            folder,
            rank,
            2,
            case["spoil"],
            strategy=strategy,
            devices=2,
            plugins=[TorchElasticEnvironment()],
        )
    torch.save(found, folder / f"{rank}.pt")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))

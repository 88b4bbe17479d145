"""Modules with encoders of several kinds, steps of them in this process, and on several ranks."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from rank_trainings import SERVER
from torch import Tensor
from torch.distributed import TCPStore
from transformers import AutoConfig, AutoModel

from lmk_core import Embedder
from lmk_core.encoders import PooledEncoder
from lmk_train.config import TrainConfig
from lmk_train.data import ContrastiveData, RowKey
from lmk_train.data.collate import Batch
from lmk_train.gradcache import Pass
from lmk_train.modules import ContrastiveModule
from lmk_train.modules.contrastive import _texts

KINDS = {"modernbert": {"local_attention": 8}, "gte": {}}
"""The window of 4 to either side is shorter than the texts: blocks, rectangles with a band, rectangles without."""

_DROPOUTS = (
    *("embedding_dropout", "mlp_dropout", "attention_dropout"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob"),
)
_SPECIAL = ("pad_token_id", "bos_token_id", "cls_token_id", "eos_token_id", "sep_token_id")


def module_of(config: TrainConfig, kind: str, *, std: float = 0.1, dropout: float = 0.0) -> ContrastiveModule:
    """A module with the tokenizer of ``config.model`` and an encoder of another kind, of 4 layers."""
    embedder = Embedder.from_pretrained(config.model.path, pooling=config.pooling, max_length=64, device="cpu")
    settings = {
        "vocab_size": 400,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 4,
        "num_attention_heads": 2,
        **KINDS[kind],
        **dict.fromkeys(_DROPOUTS, dropout),
        **dict.fromkeys(_SPECIAL, 0),
    }
    torch.manual_seed(1)
    encoder = PooledEncoder(AutoModel.from_config(AutoConfig.for_model(kind, **settings)), config.pooling)
    for parameter in encoder.parameters():
        if parameter.ndim == 2:  # else all texts are read nearly alike
            torch.nn.init.normal_(parameter, std=std)
    return ContrastiveModule(encoder.train(), embedder.tokenizer, config)


def batch_of(config: TrainConfig, module: ContrastiveModule, rows: range) -> Batch:
    data = ContrastiveData(config, module.tokenizer)
    assert data.dataset is not None
    return data.collator([data.dataset[RowKey(0, 0, row)] for row in rows])


def step(module: ContrastiveModule, batch: Batch, halved: Any = lambda _chunk, _reason: None) -> tuple[Pass, Any]:
    """What a step computed, and the gradients as they come to the optimizer."""
    torch.manual_seed(3)
    passed = module.engine.run(_texts(batch), lambda vectors: module._loss(batch, vectors)[0], halved)
    return passed, {name: one.grad.clone() for name, one in module.named_parameters() if one.grad is not None}


def step_on_ranks(config: TrainConfig, shares: list[range], folder: Path, room: int | None = None) -> list[dict]:
    """One step on as many ranks as there are shares of the rows; of each its gradients and chunks.

    The last has ``room`` for so many tokens at once.
    """
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    bounds = json.dumps([[rows.start, rows.stop] for rows in shares])
    given = (store.port, config.model_dump_json(), bounds, str(folder), room)
    ranks: list[multiprocessing.process.BaseProcess] = [
        SERVER.Process(target=_rank, args=(rank, *given)) for rank in range(len(shares))
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(90)  # one that waits for another would wait for half an hour
        process.kill()
    codes = [process.exitcode for process in ranks]
    assert codes == [0] * len(shares), codes
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(len(shares))]


def _rank(rank: int, port: int, config: str, bounds: str, folder: str, room: int | None) -> None:
    torch.set_num_threads(1)
    shares = json.loads(bounds)
    parsed = TrainConfig.model_validate_json(config)
    module = module_of(parsed, "modernbert")
    batch = batch_of(parsed, module, range(*shares[rank]))
    embed = module.engine.embed

    def cramped(texts: Any) -> Tensor:
        if rank == len(shares) - 1 and room is not None and int(texts.lengths.sum()) > room:
            raise torch.OutOfMemoryError("of the last device")
        return embed(texts)

    module.engine.embed = cramped
    halved: list[int] = []
    store = TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=len(shares))
    passed, gradients = step(module, batch, lambda chunk, reason: halved.append(chunk))
    found = {"gradients": gradients, "loss": passed.loss, "chunks": len(passed.chunks.indices), "halved": halved}
    torch.save(found, Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()

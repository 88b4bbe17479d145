"""Run by `test_processes`: ``python two_processes.py RANK PORT FOLDER`` does every case and writes what came out.

All cases run in one pair of processes, because starting them is what takes the time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from toy_encoder import ToyEncoder, toy_batch, toy_rows

from lmk_train.config import LossConfig
from lmk_train.gradcache import GradientEngine, PeerFailedError
from lmk_train.gradcache.processes import same_weights, sums
from lmk_train.loss import ContrastiveObjective, gather_rows, share_counts

ROWS = [3, 1, 4, 2, 4, 3, 1, 2]
"""Passages of each row of the whole batch."""

SCORED = [False, False, True, True, False, False, True, True]

LOSSES: dict[str, dict[str, Any]] = {
    "plain": {},
    "bidirectional": {"bidirectional": True},
    "masked": {"mask_duplicates": True, "bidirectional": True},
    "matryoshka": {"matryoshka": [3, 8]},
    "contrasted": {"distillation": "off"},
}
SPLITS = {"equal": 4, "unequal": 5, "one": 1}
"""Rows of the first process."""
CHUNKS = [None, 1, 15, 40, 10_000]


def whole_batch() -> tuple[list[list[int]], list[list[list[int]]]]:
    """Some texts are equal, within a process and across both."""
    queries, passages = toy_rows(ROWS)
    passages[6][0] = passages[0][0]
    passages[7][1] = passages[2][0]
    passages[3][0] = passages[1][0]
    queries[4] = queries[2]
    return queries, passages


def share(first: int, last: int):
    """The texts and targets of some rows."""
    queries, passages = whole_batch()
    return toy_batch(queries[first:last], passages[first:last], scored=SCORED[first:last])


def objective(texts, targets, settings: dict[str, Any]) -> Callable[[torch.Tensor], Any]:
    rows = len(targets.sizes)
    compute = ContrastiveObjective(LossConfig(temperature=0.1, **settings), logits_at_once=50)
    return lambda vectors: compute(vectors[:rows], vectors[rows:], targets)


def gradients(encoder) -> list[torch.Tensor]:
    return [parameter.grad.clone() for parameter in encoder.parameters()]


def own_rows(rank: int, split: int) -> tuple[int, int]:
    return (0, split) if rank == 0 else (split, len(ROWS))


def step(rank: int, split: int, settings: dict[str, Any], chunk: int | None, encoder=None) -> dict[str, Any]:
    encoder = ToyEncoder() if encoder is None else encoder
    texts, targets = share(*own_rows(rank, split))
    compute, masked = objective(texts, targets, settings), []

    def loss(vectors):
        value = compute(vectors)
        masked.append(value.masked)
        return value.loss

    engine = GradientEngine(encoder, list(encoder.parameters()), chunk)
    passed = engine.run(texts, loss)
    totals = sums(torch.stack([passed.loss, masked[-1].to(torch.float64)]))
    return {
        "loss": totals[0].item(),
        "masked": int(totals[1]),
        "gradients": gradients(encoder),
        "chunks": len(passed.chunks.indices),
        "chunk_tokens": engine.chunk_tokens,
    }


def gathers_unequal_rows(rank: int) -> dict[str, Any]:
    own = torch.arange(6.0).reshape(3, 2)[: 1 + 2 * rank] + 10 * rank
    own.requires_grad_()
    (shares,) = share_counts(len(own), device=own.device)
    everything = gather_rows(own, shares)
    (everything * (torch.arange(8.0).reshape(4, 2) + 100 * rank)).sum().backward()
    numbers = gather_rows(torch.arange(1 + 2 * rank), shares)
    return {"all": everything.detach(), "gradient": own.grad, "numbers": numbers}


class CountedCollectives:
    """How many all-reduces ran, and how many numbers they had."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.original = dist.all_reduce

    def __enter__(self) -> CountedCollectives:
        def counted(tensor, *args, **kwargs):
            self.sizes.append(tensor.numel())
            return self.original(tensor, *args, **kwargs)

        dist.all_reduce = counted
        return self

    def __exit__(self, *_: object) -> None:
        dist.all_reduce = self.original


def counts_collectives(rank: int) -> dict[str, Any]:
    found = {}
    for chunk in (10_000, 15):
        with CountedCollectives() as counted:
            found[chunk] = {"chunks": step(rank, 4, {}, chunk)["chunks"], "sizes": counted.sizes}
    return found


class Cramped(ToyEncoder):
    """Has room for so many padded tokens at once in the second process alone."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room, self.failed = room, 0

    def forward(self, texts):
        if dist.get_rank() == 1 and len(texts.ids) * int(texts.lengths.max()) > self.room:
            self.failed += 1
            raise torch.OutOfMemoryError("of the second device")
        return super().forward(texts)


def halves_together(rank: int) -> dict[str, Any]:
    encoder = Cramped(30)
    return {**step(rank, 4, {}, 100, encoder), "failed": encoder.failed}


def halves_when_the_loss_does_not_fit(rank: int) -> dict[str, Any]:
    """The second device has no room for what the loss needs: to gather, to compute, to go back."""
    found = {}
    for name, first in {"gather": 1, "backward": 2}.items():
        room = Room(first if rank == 1 else None)
        with room:
            found[name] = {**step(rank, 5, {"bidirectional": True}, 100), "asked": room.asked}
    return found


class Room:
    """Memory for gathered vectors runs out once: at the first gathering, or on the way back."""

    def __init__(self, fails_at: int | None) -> None:
        self.fails_at, self.asked = fails_at, 0
        self.names = ("new_zeros", "clone")
        self.originals = {name: getattr(torch.Tensor, name) for name in self.names}

    def __enter__(self) -> Room:
        torch.Tensor.new_zeros = self.patched("new_zeros", 1)
        torch.Tensor.clone = self.patched("clone", 2)
        return self

    def __exit__(self, *_: object) -> None:
        for name, original in self.originals.items():
            setattr(torch.Tensor, name, original)

    def patched(self, name: str, number: int) -> Callable[..., torch.Tensor]:
        def method(tensor, *args, **kwargs):
            if tensor.ndim == 2 and self.fails_at == number:
                self.asked, self.fails_at = self.asked + 1, None
                raise torch.OutOfMemoryError("of the second device")
            return self.originals[name](tensor, *args, **kwargs)

        return method


class Faulty(ToyEncoder):
    def forward(self, texts):
        if dist.get_rank() == 1:
            raise KeyError("only here")
        return super().forward(texts)


def fails_together(rank: int) -> str:
    try:
        step(rank, 4, {}, 15, Faulty())
    except (KeyError, PeerFailedError) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was raised"


def sums_what_only_some_have(rank: int) -> dict[str, Any]:
    """The second process alone uses the second layer, and nobody the third; in one piece, and each in its own."""
    from lmk_train.gradcache import processes

    found = {}
    for name, bucket in {"one": processes._BUCKET, "each": 1}.items():
        parameters = [torch.nn.Parameter(torch.ones(2)) for _ in range(3)]
        used = parameters[: 1 + rank]
        sum((1 + rank) * parameter.sum() for parameter in used).backward()
        processes._BUCKET, before = bucket, processes._BUCKET
        processes.sum_gradients(parameters)
        processes._BUCKET = before
        found[name] = [parameter.grad for parameter in parameters]
    return found


def takes_the_first_weights(rank: int) -> dict[str, Any]:
    torch.manual_seed(rank)
    module = torch.nn.BatchNorm1d(3)
    torch.nn.init.normal_(module.weight)
    module.running_mean.fill_(rank)
    same_weights(module)
    return module.state_dict()


def main(rank: int, port: str, folder: Path) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    found: dict[str, Any] = {
        f"{name}-{split}-{chunk}": step(rank, SPLITS[split], settings, chunk)
        for name, settings in LOSSES.items()
        for split in SPLITS
        for chunk in CHUNKS
    }
    cases = [
        gathers_unequal_rows,
        counts_collectives,
        halves_together,
        halves_when_the_loss_does_not_fit,
        fails_together,
        sums_what_only_some_have,
        takes_the_first_weights,
    ]
    for case in cases:
        found[case.__name__] = case(rank)
    torch.save(found, folder / f"{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))

"""Memory and time of RetroMAE's decoder by the length of a text; on a GPU also FlexAttention against the blocks.

python benchmarks/retromae.py memory            # a child process for each length: the peak of forward and backward
python benchmarks/retromae.py flex              # needs a CUDA device; says "not run" and ends with 1 without one
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import numpy as np
import torch
from torch import nn

from lmk_train.retromae.attention import Sight, blocked_attention
from lmk_train.retromae.decoder import PooledDecoder
from lmk_train.retromae.masks import hide_patterns
from lmk_train.retromae.scores import token_loss

LENGTHS = (1024, 2048, 4096, 8192)
DIM, HEADS, VOCABULARY = 32, 2, 512


def main() -> None:
    """Runs what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("memory", "flex", "child"))
    parser.add_argument("length", type=int, nargs="?", default=LENGTHS[0])
    asked = parser.parse_args()
    {"memory": memory, "flex": flex, "child": lambda: child(asked.length)}[asked.what]()


def memory() -> None:
    """The peak above what is there before the first text, of one text of each length."""
    print(f"decoder of {DIM} dimensions, {HEADS} heads, and the scores of {VOCABULARY} words; one text, float32, CPU")
    print("tokens   peak MB   bytes a token   seconds   (a whole mask of one byte a pair, MB)")
    for length in LENGTHS:
        command = [sys.executable, __file__, "child", str(length)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        peak, seconds = (float(value) for value in out.split())
        print(f"{length:6} {peak / 1e6:9.2f} {peak / length:15.0f} {seconds:9.2f}   {length * length / 1e6:8.1f}")


def child(length: int) -> None:
    """One forward and backward pass in this process."""
    torch.set_num_threads(1)
    step(64)  # what is loaded and kept by the first one is none of the text's
    before = _peak()
    began = time.perf_counter()
    step(length)
    print(_peak() - before, time.perf_counter() - began)


def step(length: int) -> None:
    """Both directions of the decoder and its loss, on one text."""
    torch.manual_seed(0)
    decoder, head = PooledDecoder(DIM, HEADS, 2 * DIM), nn.Linear(DIM, VOCABULARY)
    pooled, embedded = torch.randn(1, DIM, requires_grad=True), torch.randn(length, DIM, requires_grad=True)
    sight = make_sight(length)
    texts = torch.zeros(length, dtype=torch.long)
    made = decoder(pooled, embedded, sight, torch.arange(length), texts)
    wanted = torch.randint(VOCABULARY, (length,))
    token_loss(head, made, wanted, vocabulary=VOCABULARY, at_once=2**16).backward()


def make_sight(length: int) -> Sight:
    """Words of which half are hidden by each of 128 patterns."""
    draw = np.random.RandomState(0)
    hidden, patterns = hide_patterns(draw.random_sample(length) < 0.7, 0.5, draw)
    return Sight((0, length), torch.from_numpy(hidden), torch.from_numpy(patterns))


def flex() -> None:
    """Values, gradients, time and memory of FlexAttention and of the blocks on one GPU."""
    if not torch.cuda.is_available():
        sys.exit("not run: FlexAttention has no gradient on a CPU, and there is no CUDA device here")
    from lmk_train.retromae.flex import flex as attend

    print(torch.cuda.get_device_name())
    for length in LENGTHS:
        sight = make_sight(length)
        sight = Sight(sight.bounds, sight.hidden.cuda(), sight.patterns.cuda())
        found = {}
        for name, call in (("blocks", blocked_attention), ("flex", attend)):
            _on_gpu(call, sight, length)  # compiles
            torch.cuda.reset_peak_memory_stats()
            began = time.perf_counter()
            found[name] = _on_gpu(call, sight, length)
            seconds, peak = time.perf_counter() - began, torch.cuda.max_memory_allocated()
            print(f"{length:6} {name:7} {seconds:8.4f} s {peak / 1e6:10.1f} MB")
        worst = max(float((a - b).abs().max()) for a, b in zip(found["blocks"], found["flex"], strict=True))
        print(f"{length:6} largest difference of values and gradients: {worst:.2e}")
        assert worst < 1e-3, "FlexAttention differs"


def _on_gpu(call, sight: Sight, length: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    states = [torch.randn(length, 12, 64, device="cuda", requires_grad=True) for _ in range(3)]
    out = call(*states, sight)
    (out * torch.linspace(-1, 1, 64, device="cuda")).sum().backward()
    torch.cuda.synchronize()
    return [out.detach(), *(state.grad for state in states if state.grad is not None)]


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()

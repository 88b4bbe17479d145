"""A training step of `lmk_train` beside FlagEmbedding's and Sentence Transformers' trainers, on one CPU thread.

Run: ``python benchmarks/train.py [--spreads short long] [--repetitions N] [--reference FOLDER] [--json FILE]``.

All train the same small ModernBERT on the same rows in the same batches, with the same loss (InfoNCE over the
passages of the batch, hard negatives included), AdamW, learning rate and clipping, in float32 without dropout; each
in a process of its own, and the peers in environments of their own (``--environments``, made where they are missing).
Each peer runs at its defaults and at its best setting (`BEST`, found by ``--search``). All run in turn, round after
round. Seconds are those of the processor, which other programs disturb least, from the end of a step to the end of
the next, so that tokenizing is in them; `lmk_train` tokenizes once for all epochs, and here all of that is charged to
the one epoch. The first step begins when a trainer has made all that it needs and has asked for no batch yet
(`on_train_begin` there, `on_train_start` here). Memory is the most that is resident from then to the end of the last
step, above what was before.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from encode import SHAPES
from suite.measuring import CACHE, Report, note, options
from suite.result import Missing, Result, Side
from training.contenders import CLOCKS, Contender, Found, Task, prepare, run
from training.data import SPREADS, make_model, words_of
from training.environments import PACKAGES, NotInstalledError, python_of

SEARCHED: dict[str, list[dict[str, int]]] = {
    "FlagEmbedding": [{"sub_batch_size": size} for size in (1, 2, 4, 8, 16, 32)],
    "Sentence Transformers": [
        *({"mini_batch_num_tokens": tokens} for tokens in (256, 512, 1024, 2048, 4096, 8192)),
        *({"mini_batch_size": size} for size in (1, 4, 32)),
    ],
}
"""The settings that each peer offers against padding, without another order of the rows."""
BEST: dict[str, dict[str, dict[str, int]]] = {
    "short": {"FlagEmbedding": {"sub_batch_size": 4}, "Sentence Transformers": {"mini_batch_num_tokens": 512}},
    "long": {"FlagEmbedding": {"sub_batch_size": 1}, "Sentence Transformers": {"mini_batch_num_tokens": 1024}},
}
"""The fastest of them on each spread, as ``--search`` finds them."""
SAME_LOSS = 1e-4
BEGAN = time.monotonic()
SAFE = 0.8
"""The part of the limit that rounds may fill: who is killed at it has reported nothing."""


def search(task: Task, peer: str, python: Path) -> None:
    """Each setting measured on one step after a first one."""
    for setting in SEARCHED[peer]:
        found = run(task, Contender(peer, python, setting), steps=2)
        if found is not None:
            print(f"{task.spread.name}: {peer}, {setting}: {found['seconds'][-1]:.2f} s a step", flush=True)


def compare(task: Task, contenders: list[Contender], rounds: int, report: Report) -> None:
    """All in turn, and another one first in each round."""
    found: dict[str, list[dict[str, Any]]] = {contender.name: [] for contender in contenders}
    failed: dict[str, int] = {}
    limit, longest = float(os.environ.get("BENCH_SECONDS", "inf")), 0.0
    for number in range(rounds):
        began = time.monotonic()
        if number and began - BEGAN + longest > SAFE * limit:
            note(f"{number} rounds of {rounds}: no time for another one")
            break
        shift = number % len(contenders)
        for contender in contenders[shift:] + contenders[:shift]:
            # What takes most of the time is measured in every other round.
            seldom = task.spread.name == "long" and contender.trainer != "lmk_train" and not contender.options
            if contender.name in failed or (seldom and number % 2):
                continue
            note(f"{task.spread.name}, round {number + 1} of {rounds}: {contender.name}")
            measured = run(task, contender)
            if measured is None:
                failed[contender.name] = number
            else:
                found[contender.name].append({**measured, "round": number})
        longest = max(longest, time.monotonic() - began)
    for contender in contenders[1:]:
        if contender.name in failed or contenders[0].name in failed:
            why = f"failed in round {failed.get(contender.name, 0) + 1}; the log has its last words"
            report.add(Missing(f"train {task.spread.name}", contender.name, why))
        else:
            theirs = found[contender.name]
            rounds_of = {one["round"] for one in theirs}
            add(task, contender, [one for one in found["lmk_train"] if one["round"] in rounds_of], theirs, report)


def add(task: Task, contender: Contender, ours: list[Found], peer: list[Found], report: Report) -> None:
    """Time and memory beside one contender, if the losses are the same."""
    losses = list(zip(ours[0]["losses"], peer[0]["losses"], strict=True))
    apart = max(abs(own - other) / abs(own) for own, other in losses)
    if not apart < SAME_LOSS:
        why = f"not comparable: losses {peer[0]['losses']}, and ours {ours[0]['losses']}"
        report.add(Missing(f"train {task.spread.name}", contender.name, why))
        return
    rate = statistics.median(one["matrix_rate"] for one in ours)

    def side(name: str, runs: list[dict[str, Any]], key: str) -> Side:
        processed = round(task.tokens / (1 - runs[0]["padding"]))
        if key == "memory":
            return Side(name, tuple(one["memory"] / 1e6 for one in runs))
        seconds, wall = (tuple(value for one in runs for value in one[clock]) for clock in CLOCKS)
        return Side(name, seconds, wall, processed)

    spread = task.spread
    step = f"{spread.batch_size} x (1 + {1 + spread.negatives}) texts, {task.tokens:,.0f} tokens"
    share = statistics.median(one["charged"] / statistics.mean(one["seconds"]) for one in ours)
    for key, unit in (("seconds", "s"), ("memory", "MB")):
        timed: dict[str, Any] = {"needed": round(task.tokens), "limit_of": "matrix products"}
        timed["limit"] = task.flops / rate
        conditions = {"matrix_rate": rate, "shapes": SHAPES, "flops": task.flops, "tokenizing_share": share}
        report.add(
            Result(
                f"train {spread.name}",
                f"{'a step' if unit == 's' else 'memory'}, {step}",
                side("lmk_train", ours, key),
                side(contender.name, peer, key),
                unit,
                same=f"losses to {apart:.0e}",
                remark=_remark(contender, unit),
                headline=bool(contender.options) and unit == "s",
                **({"conditions": conditions} | (timed if unit == "s" else {})),
            )
        )


def _remark(contender: Contender, unit: str) -> str:
    if contender.options and unit == "MB":
        setting = contender.name.partition(", ")[2]
        return f"the peer takes the batch in parts ({setting}), as ours does with `runtime.chunk_tokens`, not set here"
    return ""


def main() -> None:
    parser = options(__doc__, repetitions=2)
    parser.add_argument("--spreads", nargs="+", choices=list(SPREADS), default=list(SPREADS))
    parser.add_argument("--reference", type=Path, help="folder whose ir/*/corpus.jsonl hold real texts; else sources")
    parser.add_argument("--environments", type=Path, default=CACHE / "benchmark-environments")
    parser.add_argument("--only-environments", action="store_true", help="make the peers' environments, and end")
    parser.add_argument("--no-install", action="store_true", help="compare with the environments that are there")
    parser.add_argument("--search", action="store_true", help="print each peer's seconds by setting, and end")
    given = parser.parse_args()
    report, pythons = Report(given.json), {}
    for peer in PACKAGES:
        try:
            pythons[peer] = python_of(peer, given.environments, install=not given.no_install)
        except NotInstalledError as error:
            for spread in ["peers"] if given.only_environments else given.spreads:
                report.add(Missing(f"train {spread}", peer, str(error)))
    if given.only_environments:
        # A run keeps what has ended well, and tries again what has not.
        sys.exit(1 if len(pythons) < len(PACKAGES) else 0)
    with tempfile.TemporaryDirectory() as name:
        words = words_of(given.reference)
        make_model(Path(name) / "model", words)
        for spread in given.spreads:
            chosen = SPREADS[spread]
            if given.quick:
                chosen = replace(chosen, batch_size=2, negatives=1, passage_max_length=256)
            task = prepare(chosen, Path(name) / spread, Path(name) / "model", words)
            if given.search:
                for peer, python in pythons.items():
                    search(task, peer, python)
                continue
            contenders = [Contender("lmk_train", Path(sys.executable))]
            for peer, python in pythons.items():
                contenders += [Contender(peer, python), Contender(peer, python, BEST[spread][peer])]
            compare(task, contenders, 1 if given.quick else given.repetitions, report)


if __name__ == "__main__":
    main()

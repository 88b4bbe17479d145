"""Made-up results of benchmarks, and their programs' folder on the path."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
sys.path.insert(0, str(FOLDER))

from suite.parts import Part  # noqa: E402
from suite.result import Missing, Result, Side  # noqa: E402

CONDITIONS = {
    "date": "2026-01-02",
    "quick": False,
    "minutes": 21.5,
    "load_before": 0.1,
    "load_after": 1.2,
    "processor": "A processor",
    "cores": 2,
    "memory_gb": 8,
    "system": "Linux x86_64",
    "versions": {"torch": "2.13.0"},
    "code": "0" * 12,
    "commit": "",
}


def result(case: str, ours: list[float], peer: list[float], **more) -> Result:
    return Result(
        "a bench", case, Side("ours", tuple(ours), tuple(ours)), Side("peer", tuple(peer), tuple(peer)), **more
    )


FAST = result("fast", [1.0, 2.0, 1.0], [3.0, 5.0, 4.0], unit="s", limit=0.25, limit_of="tokenizer", headline=True)
SLOW = result("slow | <odd>", [10.0], [5.0], unit="MB", remark="it keeps more")
PLAIN = result("plain", [1.0], [2.0], unit="s")
PARTS = [
    Part("one", "done", 12.0, results=[FAST, SLOW, PLAIN, Missing("a bench", "a peer", "peer not installed: x")]),
    Part("two", "failed", 3.0, "exit code 3; no disk"),
]

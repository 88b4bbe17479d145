"""How soon the command answers: ``lmk --help`` and ``lmk plan`` beside a bare interpreter and beside ``mlflow --help``.

Run: ``python benchmarks/start.py [repetitions]``. Times are wall seconds of whole processes, interleaved; the ratio is
of medians, its spread from the quartiles of the ratios of neighbouring runs.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN = Path(sys.executable).parent
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "lmk --help": [str(BIN / "lmk"), "--help"],
    "lmk plan quickstart": [str(BIN / "lmk"), "plan", "quickstart"],
    "mlflow --help": [str(BIN / "mlflow"), "--help"],
}
PEER = "mlflow --help"


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        for round_number in range(repetitions + 1):
            for name, command in COMMANDS.items():
                started = time.perf_counter()
                subprocess.run(command, cwd=folder, check=True, capture_output=True)
                if round_number:  # the first round warms the file cache
                    times[name].append(time.perf_counter() - started)
    print(f"{'command':22} {'median s':>9} {'min':>6} {'max':>6}   ratio to {PEER} (quartiles)")
    for name, seconds in times.items():
        ratios = [own / peer for own, peer in zip(seconds, times[PEER], strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4)
        ratio = statistics.median(seconds) / statistics.median(times[PEER])
        figures = f"{statistics.median(seconds):9.2f} {min(seconds):6.2f} {max(seconds):6.2f}"
        print(f"{name:22} {figures}   {ratio:.2f} ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()

"""How soon the command answers: ``lmk --help`` and ``lmk plan`` beside a bare interpreter and beside ``mlflow --help``.

Run: ``python benchmarks/start.py [--repetitions N] [--json FILE]``. Seconds are of whole processes, interleaved.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from suite.measuring import Report, interleaved, options
from suite.result import Result

BIN = Path(sys.executable).parent
LMK = [sys.executable, "-m", "lmk_experiments.cli.main"]
BARE, PEER = "python -c pass", "mlflow --help"
COMMANDS = {
    BARE: [sys.executable, "-c", "pass"],
    "lmk --help": [*LMK, "--help"],
    "lmk plan quickstart": [*LMK, "plan", "quickstart", "--root", "runs"],
    PEER: [str(BIN / "mlflow"), "--help"],
}


def main() -> None:
    given = options(__doc__, repetitions=5).parse_args()
    report = Report(given.json)
    with tempfile.TemporaryDirectory() as folder:

        def run(command: list[str]) -> None:
            subprocess.run(command, cwd=folder, check=True, capture_output=True)

        ways = {name: lambda command=command: run(command) for name, command in COMMANDS.items()}
        taken = interleaved(ways, 1 if given.quick else given.repetitions)
    for name in ("lmk --help", "lmk plan quickstart"):
        report.add(
            Result(
                "start",
                name,
                taken[name].side(name),
                taken[PEER].side(PEER),
                "s",
                limit=statistics.median(taken[BARE].processor),
                limit_of="interpreter",
                headline=name == "lmk --help",
            )
        )


if __name__ == "__main__":
    main()

"""The quickstart grid on a real scheduler, one cell at a time, against the same grid run here: the same comes out.

By hand, on an idle machine of two cores, ten to twenty minutes a side (`make slurm-up` first):

    export SLURM_CONF=$PWD/slurm/testbed/cluster/etc/slurm.conf
    .venv/bin/python tests/acceptance/quickstart_on_slurm.py FOLDER [--grid shorter.yaml]

Both sides take as many threads as a training asks cores for, and read the same built data; weights are compared by
their bytes, tables by their text. Run again it goes on where it was. The last line is `the same` (exit code 0), or what
differs (1).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

THREADS = "2"
"""What the grid's resources ask for a training and an evaluation, as `cpus`."""
LOOK_SECONDS = 5.0
ENDED = ("done", "failed", "stopped")


def main() -> int:
    """Run both sides and compare them; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where both roots go, on a disk with 2 GB of room")
    parser.add_argument(
        "--grid", default="quickstart", help="another grid on the quickstart's data, to try this itself"
    )
    parser.add_argument("--profile", default="testbed", help="a profile of one job at a time [testbed]")
    chosen = parser.parse_args()
    here, there = chosen.folder.resolve() / "here", chosen.folder.resolve() / "there"
    here.mkdir(parents=True, exist_ok=True)
    there.mkdir(exist_ok=True)
    lmk(here, "data", "build", "quickstart")
    if not (there / "built").exists():
        (there / "built").symlink_to(here / "built")
    seconds = {"here": timed(lambda: lmk(here, "run", chosen.grid))}
    seconds["there"] = timed(lambda: submitted(there, chosen.grid, chosen.profile))
    print(f"here {seconds['here']:.0f} s, there {seconds['there']:.0f} s", flush=True)
    differences = [*weights_that_differ(here, there), *tables_that_differ(here, there, chosen.grid)]
    print("\n".join(differences) or "the same")
    return int(bool(differences))


def lmk(root: Path, *words: str) -> str:
    """What the command prints; it is shown as well."""
    environment = {**os.environ, "OMP_NUM_THREADS": THREADS, "OMP_WAIT_POLICY": "PASSIVE"}
    command = [sys.executable, "-m", "lmk_experiments.cli.main", *words, "--root", str(root)]
    print("$ lmk", *words, flush=True)
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, flush=True)
    if done.returncode:
        raise SystemExit(f"lmk {words[0]} ended with {done.returncode}")
    return done.stdout


def timed(work: Any) -> float:
    """The seconds that ``work`` takes."""
    started = time.monotonic()
    work()
    return time.monotonic() - started


def submitted(root: Path, grid: str, profile: str) -> None:
    """Submit the grid and wait until no cell of it is queued or runs."""
    lmk(root, "submit", grid, "--profile", profile, "--dirty")
    while True:
        command = [sys.executable, "-m", "lmk_experiments.cli.main", "status", grid, "--json", "--root", str(root)]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
        cells = json.loads(said.stdout)["cells"]
        if all(cell["state"] in ENDED for cell in cells):
            break
        time.sleep(LOOK_SECONDS)
    for cell in cells:
        if cell["state"] != "done":
            what = f"{cell['kind']} {cell['row']}: {cell['state']} ({cell['reason']})"
            raise SystemExit(f"{what}; its log: {cell['log']}")


def weights_that_differ(here: Path, there: Path) -> list[str]:
    """Trainings whose weights are not the same bytes on both sides."""
    found = {root: digests(root) for root in (here, there)}
    print(f"{len(found[here])} trainings here, {len(found[there])} there", flush=True)
    for training, digest in sorted(found[here].items()):
        print(f"  {training}  {digest}  {'=' if found[there].get(training) == digest else '!'}")
    every = sorted({*found[here], *found[there]})
    return [f"the weights of {one} differ" for one in every if found[here].get(one) != found[there].get(one)]


def digests(root: Path) -> dict[str, str]:
    """SHA-256 of each training's weights, by its identity."""
    files = (root / "trainings").glob("*/model/model.safetensors")
    return {file.parent.parent.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def tables_that_differ(here: Path, there: Path, grid: str) -> list[str]:
    """Whether the two tables read the same, from the records and from MLflow."""
    differences = []
    for origin in ("records", "mlflow"):
        tables = [lmk(root, "table", grid, "--from", origin) for root in (here, there)]
        if tables[0] != tables[1]:
            differences.append(f"the tables from {origin} differ")
    return differences


if __name__ == "__main__":
    sys.exit(main())

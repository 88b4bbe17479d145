"""Grids on a real scheduler, to which something is done while they run: in the end each cell is done exactly once.

By hand, on an idle machine, some 20 minutes for all (`make slurm-up` first); one or several by name:

    export SLURM_CONF=$PWD/slurm/testbed/cluster/etc/slurm.conf
    .venv/bin/python tests/acceptance/faults_on_slurm FOLDER [requeue task-killed ...]

Each fault has a grid of its own under FOLDER. `lmk status` is asked all the while. Where the grid has come to rest with
cells that are not done, it is submitted again, as a person would. Then every cell must be done exactly once, no two
processes may have worked on one at a time, and the table, and the weights of a real training, must be those of a grid
that was left alone. The last lines are a table; the exit code is the number of faults that went wrong.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from cluster import command, mend
from fault_grid import FaultGrid, Shape, differ, far
from faults import FAULTS, Fault, Trial, again
from watch import Watch

PATIENCE_SECONDS = 600.0
MOST_SUBMITS = 4


def main() -> int:
    """Run the faults; how many went wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the roots go")
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=f"of: {', '.join(FAULTS)} [all]")
    chosen = parser.parse_args()
    if unknown := set(chosen.faults) - set(FAULTS):
        parser.error(f"no fault {', '.join(sorted(unknown))}; valid: {', '.join(FAULTS)}")
    # The jobs import the cells by name.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))
    lines = []
    for name in chosen.faults or FAULTS:
        print(f"\n== {name}", flush=True)
        try:
            lines.append(trial(name, FAULTS[name], chosen.folder.resolve()))
        except Exception as error:  # noqa: BLE001 - the others are tried all the same
            traceback.print_exc()
            command("scancel", "--me", check=False)
            mend()
            lines.append([name, "", "", "", "", f"the trial itself failed: {type(error).__name__}: {error}"])
    print(
        "\n| fault | what happened | starts of a cell | submits again | seconds | verdict |\n|---|---|---|---|---|---|"
    )
    for line in lines:
        print(f"| {' | '.join(line)} |")
    return sum(line[-1] != "as undisturbed" for line in lines)


def trial(name: str, fault: Fault, folder: Path) -> list[str]:
    """One fault; its line of the table."""
    reference = undisturbed(fault.shape, folder)
    root = folder / name
    shutil.rmtree(root, ignore_errors=True)
    grid = FaultGrid(root, fault.shape)
    started, submits = time.monotonic(), 0
    with Watch(root) as watch:
        one = Trial(grid, watch)
        if fault.before is None:
            grid.submit()
        else:
            fault.before(one)
        fault.does(one)
        while not settled(grid, watch):
            if submits >= MOST_SUBMITS:
                break
            ended = {f"{cell['kind']} {cell['row']}: {cell['state']} ({cell['reason']})" for cell in left(watch)}
            for text in sorted(ended):
                one.note(text)
            submits += 1
            one.note(f"submitted again: {again(one)} jobs")
    seconds = time.monotonic() - started
    wrong = [*grid.wrong(), *dict.fromkeys(watch.lies)]
    if grid.table() != reference[0]:
        wrong.append("another table")
    if text := differ(grid.weights(), reference[1]):
        wrong.append(text)
    if fault.shape.real_ranks:
        alone = undisturbed(replace(fault.shape, real_ranks=False), folder)[1]
        if text := far(grid.weights(), alone, 1e-6):
            wrong.append(text)
    print(f"    {watch.looks} looks, {watch.commands} of them by the command; states seen:")
    for word, times in sorted(watch.words.items()):
        print(f"      {times:5d} {word}")
    print(f"    {'; '.join(wrong) or 'as undisturbed'} in {seconds:.0f} s", flush=True)
    starts = [sum(event["event"] == "attempt" for event in cell.events()) for cell in grid.cells]
    told = f"{min(starts)} to {max(starts)}" if min(starts) < max(starts) else str(starts[0])
    verdict = "; ".join(wrong) or "as undisturbed"
    return [name, "; ".join(one.notes), told, str(submits), f"{seconds:.0f}", verdict]


def settled(grid: FaultGrid, watch: Watch) -> bool:
    """Wait until every cell is done (True), or nothing more happens by itself (False)."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    still = 0
    while time.monotonic() < deadline:
        if all(cell.done() is not None for cell in grid.cells):
            return True
        looked, before = watch.looks, watch.last
        moving = any(cell["active"] for cell in before.get("cells", [{"active": True}]))
        still = 0 if moving else still + 1
        if still > 3:
            return False
        while watch.looks == looked and time.monotonic() < deadline:
            time.sleep(0.1)
    print(f"    not settled after {PATIENCE_SECONDS:.0f} s", flush=True)
    return False


def left(watch: Watch) -> list[dict[str, Any]]:
    """The cells that are not done, as status shows them."""
    return [cell for cell in watch.last["cells"] if cell["state"] != "done"]


def undisturbed(shape: Shape, folder: Path) -> tuple[str, Path | None]:
    """Table and weights of the same grid that nothing is done to: cells as quick as can be, and the same work."""
    calm = replace(shape, pace=0.0, real_pace=0.0, hours=0.25, partition="main", do=None, bytes=16, node=None)
    root = folder / f"undisturbed-{shape.steps}-{shape.real_steps if shape.real else 0}{'-ranks' * shape.real_ranks}"
    grid = FaultGrid(root, calm)
    if any(cell.done() is None for cell in grid.cells):
        grid.submit()
        with Watch(root) as watch:
            if not settled(grid, watch):
                raise SystemExit(f"the undisturbed grid did not end: {left(watch)}")
    return grid.table(), grid.weights()


if __name__ == "__main__":
    sys.exit(main())

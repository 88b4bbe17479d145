"""Runs every benchmark of the project, and writes the table, the plot and the figures of the READMEs.

Run: ``make bench``, or ``python benchmarks/run.py [--again] [--only NAME...] [--environments FOLDER]``. Stopped or
killed, the same command goes on: what has ended is kept for the same code on the same machine until the whole run is
written. ``--quick`` tries everything with little of it and writes nothing into the repository.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

from suite.catalogue import BENCHMARKS
from suite.machine import ROOT, describe, has_cuda
from suite.measuring import CACHE, said
from suite.publish import Run, publish
from suite.runner import Kept, Part, Runner
from suite.tables import missing_table, results_of, times_table


def main() -> int:
    """The exit code: 0 also where benchmarks failed, since they are listed; 1 if nothing was compared."""
    given = _options()
    machine = describe()
    same = {name: value for name, value in machine.items() if name != "commit"}
    key = hashlib.sha256(json.dumps([same, given.quick], sort_keys=True).encode()).hexdigest()[:12]
    chosen = [one for one in BENCHMARKS if given.only is None or one.name in given.only]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with _alone(CACHE / "benchmarks") as folder:
        kept = Kept(folder / key)
        if given.again:
            kept.clear(one.name for one in chosen)
        passed = {"environments": str(given.environments)}
        if given.reference is not None:
            passed["reference"] = str(given.reference)
        load, began = os.getloadavg()[0], time.monotonic()
        runner = Runner(
            kept, Path(__file__).parent, minutes=given.minutes, cuda=has_cuda, options=passed, quick=given.quick
        )
        parts = runner.run(chosen)
        conditions = {
            "date": datetime.now(UTC).date().isoformat(),
            "quick": given.quick,
            "minutes": sum(part.seconds for part in parts) / 60,
            "load_before": load,
            "load_after": os.getloadavg()[0],
            **machine,
        }
        print(f"\nthis call took {(time.monotonic() - began) / 60:.1f} minutes")
        _say(parts)
        _write(Run(conditions, parts), given, whole=chosen == list(BENCHMARKS))
        kept.clear(one.name for one in chosen)
    return 0 if results_of(parts) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--again", action="store_true", help="start anew, whatever an interrupted run has kept")
    names = [one.name for one in BENCHMARKS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"some of: {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="little of everything, to try it; needs --out")
    parser.add_argument("--out", type=Path, help="write a copy of what is generated below this folder instead")
    parser.add_argument("--minutes", type=float, default=38, help="what has not begun by then is listed as not run")
    parser.add_argument("--environments", type=Path, default=CACHE / "benchmark-environments", help="of the peers")
    parser.add_argument("--reference", type=Path, default=_reference(), help="folder of the reference data's texts")
    return parser.parse_args()


def _reference() -> Path | None:
    """The reference data where it is at hand; else texts are made of the sources of Python's library."""
    found = Path(os.environ.get("LMK_SHARED", ROOT.parent / "shared")) / "data"
    return found if (found / "ir").is_dir() else None


@contextlib.contextmanager
def _alone(folder: Path) -> Generator[Path]:
    """Two runs at once would measure each other."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"another run of the benchmarks is going on (it holds {folder / 'lock'})")
        yield folder


def _say(parts: list[Part]) -> None:
    for one in results_of(parts):
        print(said(one))
    print(f"\n{missing_table(parts)}\n\n{times_table(parts)}\n")


def _write(run: Run, given: argparse.Namespace, *, whole: bool) -> None:
    """A whole run becomes the repository's figures; any other one is written only where ``--out`` says."""
    if given.out is not None:
        for name in ("README.md", "benchmarks/README.md"):
            (given.out / name).parent.mkdir(parents=True, exist_ok=True)
            (given.out / name).write_bytes((ROOT / name).read_bytes())
    elif given.quick or not whole:
        print("nothing is written: not a whole run (--out FOLDER writes a copy there)")
        return
    for file in publish(run, given.out or ROOT):
        print(f"wrote {file}")


if __name__ == "__main__":
    sys.exit(main())

"""Runs every benchmark of the project, and writes the table, the plot and the figures of the READMEs.

Run: ``make bench``, or ``python benchmarks/run.py [--again] [--only NAME...] [--environments FOLDER]``. Stopped or
killed, the same command goes on: what has ended is kept for six hours, for the same code on the same machine, until
the whole run is written. A run of which something failed is not written: the same command tries that again, and
``--publish-anyway`` writes it. ``--quick`` tries everything with little of it and writes nothing into the repository.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import sys
import time
from collections.abc import Generator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from suite.catalogue import BENCHMARKS, Benchmark
from suite.machine import ROOT, code_of, describe, has_cuda
from suite.measuring import CACHE, said
from suite.parts import Kept, Part
from suite.publish import Run, publish
from suite.runner import Runner, SourcesChangedError, counted, exit_on_signals
from suite.tables import missing_table, results_of, times_table


def main() -> int:
    """The exit code: 1 if something is lacking that another try could bring, or nothing was compared."""
    given = _options()
    machine = describe()
    chosen = [one for one in BENCHMARKS if given.only is None or one.name in given.only]
    exit_on_signals()
    with _alone(CACHE / "benchmarks") as folder:
        kept = Kept(folder / _key(machine, given, chosen))
        if given.again:
            kept.clear(one.name for one in chosen)
        load, began = os.getloadavg()[0], time.monotonic()
        parts = _runner(kept, given, machine["code"]).run(chosen)
        run = Run(_conditions(given, parts, load) | machine, parts)
        print(f"\nthis call took {(time.monotonic() - began) / 60:.1f} minutes")
        _say(parts)
        # A peer that can't be installed is listed as that; a machine without a network can't mend it.
        wanted = [part for part, one in zip(parts, chosen, strict=True) if not one.setup]
        lacking = [part.name for part in wanted if part.lacking and not given.publish_anyway]
        if lacking:
            print(f"lacking: {', '.join(lacking)}; the same command tries only that again (or --publish-anyway)")
        if given.out is not None or not lacking:
            _write(run, given, whole=chosen == list(BENCHMARKS))
        if not lacking:
            kept.clear(one.name for one in chosen)
    return 1 if lacking or not results_of(parts) else 0


def _key(machine: dict[str, Any], given: argparse.Namespace, chosen: Sequence[Benchmark]) -> str:
    """Of what makes parts those of one run; with ``--only`` it is another run than the whole one."""
    same = {name: value for name, value in machine.items() if name != "commit"}
    options = [given.quick, str(given.reference), str(given.environments), [one.name for one in chosen]]
    return hashlib.sha256(json.dumps([same, options], sort_keys=True).encode()).hexdigest()[:12]


def _runner(kept: Kept, given: argparse.Namespace, code: str) -> Runner:
    passed = {"environments": str(given.environments)}
    if given.reference is not None:
        passed["reference"] = str(given.reference)
    return Runner(
        kept,
        Path(__file__).parent,
        minutes=given.minutes,
        cuda=has_cuda,
        options=passed,
        quick=given.quick,
        unchanged=lambda: code_of(ROOT) == code,
    )


def _conditions(given: argparse.Namespace, parts: Sequence[Part], load: float) -> dict[str, Any]:
    """Of the run, without the machine's."""
    minutes = counted(parts, BENCHMARKS) / 60
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "quick": given.quick,
        "minutes": minutes,
        "minutes_apart": sum(part.seconds for part in parts) / 60 - minutes,
        "calls": len({part.call for part in parts if part.state != "not run"}),
        "texts": "sources of Python's library" if given.reference is None else "reference data",
        "load_before": load,
        "load_after": os.getloadavg()[0],
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--again", action="store_true", help="start anew, whatever an interrupted run has kept")
    names = [one.name for one in BENCHMARKS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"some of: {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="little of everything, to try it; needs --out")
    parser.add_argument("--out", type=Path, help="write a copy of what is generated below this folder instead")
    parser.add_argument("--minutes", type=float, default=38, help="what can't end by then is not run")
    parser.add_argument("--publish-anyway", action="store_true", help="write the run whatever is lacking")
    parser.add_argument("--environments", type=Path, default=CACHE / "benchmark-environments", help="of the peers")
    parser.add_argument("--reference", type=Path, default=_reference(), help="folder of the reference data's texts")
    return parser.parse_args()


def _reference() -> Path | None:
    """The reference data where it is at hand; else texts are made of the sources of Python's library."""
    found = Path(os.environ.get("LMK_SHARED", ROOT.parent / "shared")) / "data"
    texts = [found / "ir" / name / "corpus.jsonl" for name in ("msmarco-dl19-20", "wiki-long-en")]
    return found if all(file.is_file() for file in texts) else None  # both: `training.data.words_of`


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
    try:
        sys.exit(main())
    except SourcesChangedError as error:
        sys.exit(f"stopped: {error}")

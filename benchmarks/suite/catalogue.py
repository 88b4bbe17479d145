"""All benchmarks of the project, in the order in which they run: what others need, then what is short."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Benchmark:
    """One program of this folder, and what it is given.

    Attributes:
        expected: seconds on two idle cores, for the time that is left.
        limit: seconds after which it is killed and listed as failed.
        gpu: it needs a CUDA device, and is listed as not run where there is none.
        passed: options of the run that it is given too.
        setup: it makes what others need, as fast as the network, before the run's minutes begin.
        after: what makes what it needs; what was kept is void once that was made anew.
    """

    name: str
    script: str
    arguments: tuple[str, ...] = ()
    expected: float = 60
    limit: float = 300
    gpu: bool = False
    passed: tuple[str, ...] = ()
    setup: bool = False
    after: str = ""

    @property
    def apart(self) -> bool:
        """Whether its time is its own limit's alone, and not of the minutes of the run."""
        return self.gpu or self.setup


BENCHMARKS = (
    Benchmark(
        "environments",
        "train.py",
        ("--only-environments",),
        expected=10,
        limit=1200,  # more than all installations may take: `training.environments`
        passed=("environments",),
        setup=True,
    ),
    Benchmark("start", "start.py", expected=30, limit=240),
    Benchmark("layout", "layout.py", expected=40, limit=240),
    Benchmark("gradcache", "gradcache_memory.py", expected=130, limit=400),
    Benchmark("retromae", "retromae_memory.py", expected=70, limit=300),
    Benchmark("records", "thousand.py", expected=160, limit=480),
    Benchmark("resume", "resume.py", expected=210, limit=600),
    Benchmark("landmarks", "landmarks.py", expected=55, limit=360),
    Benchmark("encode", "encode.py", expected=120, limit=360),
    Benchmark("evaluate", "evaluate.py", expected=150, limit=420),
    Benchmark(
        "train short",
        "train.py",
        ("--spreads", "short", "--no-install"),
        expected=200,
        limit=600,
        passed=("environments", "reference"),
        after="environments",
    ),
    Benchmark(
        "train long",
        "train.py",
        ("--spreads", "long", "--no-install"),
        expected=280,
        limit=720,
        passed=("environments", "reference"),
        after="environments",
    ),
    Benchmark("gpu packed", "gpu_packed.py", limit=600, gpu=True),
    Benchmark("gpu train", "gpu_train.py", limit=900, gpu=True),
    Benchmark("gpu retromae", "gpu_retromae.py", limit=600, gpu=True),
)

ALONE = {
    "run.py": "runs the others",
    "retromae.py": "memory by a text's length, without a peer",
    "profiling.py": "where time goes, without a peer",
}
"""Programs of this folder that are in no run, and why."""

"""The run of all benchmarks: what it keeps, when it goes on, and what ends with it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from benchmark_results import FAST, FOLDER
from suite.catalogue import Benchmark
from suite.parts import NO_GPU, Kept, Part
from suite.publish import Run
from suite.result import to_line
from suite.runner import OLDEST, Runner, SourcesChangedError


@pytest.fixture
def scripts(tmp_path) -> Path:
    """Programs that take no time."""
    folder = tmp_path / "scripts"
    folder.mkdir()
    write = "import sys, time, pathlib\nout = pathlib.Path(sys.argv[sys.argv.index('--json') + 1])\n"
    write += f"line = {to_line(FAST)!r}\n"
    count = "pathlib.Path(__file__).with_suffix('.ran').open('a').write('x')\n"
    (folder / "good.py").write_text(write + count + "out.write_text(line + '\\n')\n")
    (folder / "bad.py").write_text(write + count + "out.write_text(line + '\\n')\nsys.exit('no disk')\n")
    (folder / "slow.py").write_text(write + count + "print('asleep', flush=True)\ntime.sleep(60)\n")
    (folder / "cut.py").write_text(write + "out.write_text(line + '\\n' + line[:30])\n")
    child = "import os, subprocess\nprocess = subprocess.Popen(['sleep', '60'])\n"
    child += "print(os.getpid(), process.pid, flush=True)\n"
    (folder / "parent.py").write_text(child + "process.wait()\n")
    (folder / "leaver.py").write_text(child + "raise SystemExit('gone')\n")
    names = "sorted(name for name in os.environ if name.startswith(('LMK_', 'MLFLOW_')))"
    (folder / "settings.py").write_text(f"import os\nprint(*{names}, flush=True)\n")
    return folder


def benchmarks(*names: str, limit: float = 30) -> list[Benchmark]:
    return [Benchmark(name, f"{name}.py", expected=1, limit=limit) for name in names]


def make(tmp_path: Path, scripts: Path, heard: list[str], *, minutes: float = 5, cuda: bool = False) -> Runner:
    return Runner(Kept(tmp_path / "kept"), scripts, minutes=minutes, cuda=lambda: cuda, say=heard.append)


def test_a_run_goes_on_after_what_fails_and_says_why(tmp_path, scripts):
    heard: list[str] = []
    gpu = Benchmark("gpu", "good.py", gpu=True)
    chosen = [*benchmarks("bad"), *benchmarks("slow", limit=1.5), gpu, *benchmarks("good")]
    bad, slow, on_gpu, good = make(tmp_path, scripts, heard).run(chosen)
    assert (bad.state, bad.reason, bad.results) == ("failed", "exit code 1; no disk", [FAST])
    assert (slow.state, slow.reason.partition(";")[0]) == ("failed", "killed at its limit of 2 s")
    assert (on_gpu.state, on_gpu.reason) == ("not run", NO_GPU)
    assert (good.state, good.results) == ("done", [FAST])
    assert heard[0] == "[1/4] bad: started; about 3 s left"
    assert (tmp_path / "kept" / "bad.log").read_text() == "no disk\n"
    assert f"all that it said is in {tmp_path / 'kept' / 'bad.log'}" in heard[2]


def test_the_same_command_goes_on_where_it_was(tmp_path, scripts):
    heard: list[str] = []
    first = make(tmp_path, scripts, heard).run(benchmarks("good", "bad"))
    again = make(tmp_path, scripts, heard)
    assert again.run(benchmarks("good", "bad"))[0] == first[0]
    assert "[1/2] good: kept from before" in "\n".join(heard)
    assert (scripts / "good.ran").read_text() == "x"
    assert (scripts / "bad.ran").read_text() == "xx"  # what failed is tried again
    again.kept.clear(["good"])
    again.run(benchmarks("good"))
    assert (scripts / "good.ran").read_text() == "xx"


def start(tmp_path: Path, *names: str) -> subprocess.Popen:
    """A process that runs them as ``run.py`` does."""
    driver = tmp_path / "driver.py"
    driver.write_text(
        f"import sys\nsys.path.insert(0, {str(FOLDER)!r})\nfrom pathlib import Path\n"
        "from suite.catalogue import Benchmark\nfrom suite.parts import Kept\n"
        "from suite.runner import Runner, exit_on_signals\n"
        f"exit_on_signals()\nplace = Path({str(tmp_path)!r})\n"
        "runner = Runner(Kept(place / 'kept'), place / 'scripts', minutes=5, cuda=lambda: False)\n"
        f"runner.run([Benchmark(name, name + '.py') for name in {names!r}])\n"
    )
    return subprocess.Popen([sys.executable, str(driver)], stdout=subprocess.PIPE, text=True)


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def ended(process: int) -> bool:
    """Gone, or not yet waited for by whoever has adopted it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_killed_run_keeps_what_had_ended(tmp_path, scripts):
    process = start(tmp_path, "good", "slow")
    wait_for((scripts / "slow.ran").exists)
    process.send_signal(signal.SIGINT)  # its children end with it
    process.communicate()
    assert process.returncode != 0
    parts = make(tmp_path, scripts, []).run([*benchmarks("good"), *benchmarks("slow", limit=0.5)])
    assert [part.state for part in parts] == ["done", "failed"]
    assert (scripts / "good.ran").read_text() == "x"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_what_runs_ends_with_the_run_however_that_ends(tmp_path, scripts, number):
    log = tmp_path / "kept" / "parent.log"
    process = start(tmp_path, "parent")
    wait_for(lambda: log.exists() and log.read_text().endswith("\n"))
    started = [int(word) for word in log.read_text().split()]
    process.send_signal(number)
    process.communicate()
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    wait_for(lambda: all(map(ended, started)))


def test_what_a_benchmark_leaves_running_ends_after_it(tmp_path, scripts):
    (part,) = make(tmp_path, scripts, []).run(benchmarks("leaver"))
    assert part.reason == "exit code 1; gone"
    left = int((tmp_path / "kept" / "leaver.log").read_text().split()[1])
    wait_for(lambda: ended(left))


def test_a_benchmark_does_not_see_a_users_store_or_server(tmp_path, scripts, monkeypatch):
    given = ("LMK_STORE", "LMK_ROOT", "LMK_CACHE", "LMK_SHARED", "MLFLOW_TRACKING_URI", "MLFLOW_DISABLE_TELEMETRY")
    for name in given:
        monkeypatch.setenv(name, "of a team")
    make(tmp_path, scripts, []).run(benchmarks("settings"))
    seen = (tmp_path / "kept" / "settings.log").read_text().split()
    assert seen == ["LMK_CACHE", "LMK_SHARED", "MLFLOW_DISABLE_TELEMETRY"]


def test_results_that_cannot_be_read_are_a_failure(tmp_path, scripts):
    cut, good = make(tmp_path, scripts, []).run(benchmarks("cut", "good"))
    assert (cut.state, cut.results, good.state) == ("failed", [], "done")
    assert cut.reason.startswith("cut.jsonl can't be read: ")


def test_what_was_kept_for_long_is_measured_again(tmp_path, scripts):
    heard: list[str] = []
    runner = make(tmp_path, scripts, heard)
    (part,) = runner.run(benchmarks("good"))
    assert abs(part.began - time.time()) < 60
    runner.kept.keep(replace(part, began=part.began - OLDEST - 360))
    runner.run(benchmarks("good"))
    assert "good: what was kept is 6.1 hours old, and dropped" in heard
    assert (scripts / "good.ran").read_text() == "xx"


def test_what_needs_an_environment_is_measured_again_when_that_is_made_anew(tmp_path, scripts):
    setup = Benchmark("setup", "good.py", setup=True)
    runner = make(tmp_path, scripts, [])
    runner.kept.keep(Part("good", "done", 1.0, began=time.time()))  # without the environment, which had failed
    chosen = [setup, replace(benchmarks("good")[0], after="setup")]
    assert runner.run(chosen)[1].results == [FAST]
    assert runner.run(chosen)[1].results == [FAST]
    assert (scripts / "good.ran").read_text() == "xx"  # once as the setup; then both are kept


@pytest.mark.parametrize("more", [[], ["--publish-anyway"]])
def test_a_run_that_lacks_something_is_not_written(tmp_path, scripts, monkeypatch, more):
    import run as command  # benchmarks/run.py

    written: list[Run] = []
    monkeypatch.setattr(command, "BENCHMARKS", tuple(benchmarks("good", "bad")))
    monkeypatch.setattr(command, "CACHE", tmp_path)
    monkeypatch.setattr(command, "exit_on_signals", lambda: None)  # they are this process' own
    monkeypatch.setattr(command, "_runner", lambda kept, *_: Runner(kept, scripts, minutes=5, cuda=lambda: False))
    monkeypatch.setattr(command, "publish", lambda run, _: written.append(run) or [])
    monkeypatch.setattr(sys, "argv", ["run.py", *more])
    assert [command.main(), command.main()] == ([0, 0] if more else [1, 1])
    assert (scripts / "good.ran").read_text() == ("xx" if more else "x")  # kept until the run is written
    assert (scripts / "bad.ran").read_text() == "xx"
    assert len(written) == (2 if more else 0)
    monkeypatch.setattr(sys, "argv", ["run.py", "--only", "good"])
    assert command.main() == 0
    assert (scripts / "good.ran").read_text() == ("xxx" if more else "xx")  # not what the whole run has kept
    (scripts / "bad.py").write_bytes((scripts / "good.py").read_bytes())
    monkeypatch.setattr(sys, "argv", ["run.py", *more])
    assert command.main() == 0
    assert written[-1].conditions["calls"] == (1 if more else 2)


def test_sources_that_were_edited_stop_the_run(tmp_path, scripts):
    runner = Runner(
        Kept(tmp_path / "kept"),
        scripts,
        minutes=5,
        cuda=lambda: False,
        unchanged=lambda: not (scripts / "bad.ran").exists(),
    )
    with pytest.raises(SourcesChangedError, match="edited while bad ran"):
        runner.run(benchmarks("good", "bad", "slow"))
    assert not (scripts / "slow.ran").exists()


def test_what_cannot_end_in_what_is_left_does_not_begin(tmp_path, scripts):
    runner = make(tmp_path, scripts, [], minutes=2, cuda=True)
    runner.kept.keep(Part("before", "done", 100.0, began=time.time()))  # at 100 times what was expected
    setup = Benchmark("setup", "good.py", setup=True, expected=500)
    on_gpu = Benchmark("gpu", "good.py", gpu=True, expected=500)
    parts = runner.run([setup, *benchmarks("good"), on_gpu, *benchmarks("before")])
    assert [part.state for part in parts] == ["done", "not run", "done", "done"]
    assert parts[1].reason == "not run: it takes about 2 min, and 20 s of 2 min were left"
    assert [part.lacking for part in parts] == [False, True, False, False]


def test_nothing_begins_after_the_time_of_a_run(tmp_path, scripts):
    (part,) = make(tmp_path, scripts, [], minutes=0).run(benchmarks("good"))
    assert (part.state, part.reason) == ("not run", "not run: the 0 minutes of the run were over")
    assert not (scripts / "good.ran").exists()

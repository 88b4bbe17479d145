"""The run of all benchmarks, and that every figure of the READMEs is of the last one."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
sys.path.insert(0, str(FOLDER))

from suite.catalogue import ALONE, BENCHMARKS, Benchmark  # noqa: E402
from suite.machine import code_of  # noqa: E402
from suite.measuring import interleaved, said  # noqa: E402
from suite.parts import NO_GPU, Kept, Part  # noqa: E402
from suite.plot import plot  # noqa: E402
from suite.publish import PLOT, RESULTS, Run, between, blocks, filled, outside, publish, read_run  # noqa: E402
from suite.result import Missing, Result, Side, Spread, read_results, to_line  # noqa: E402
from suite.runner import OLDEST, Runner, SourcesChangedError  # noqa: E402
from suite.tables import main_table, missing_table, results_of, short_table  # noqa: E402

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


def test_the_figures_of_the_readmes_are_those_of_the_last_run():
    run = read_run(ROOT / RESULTS)
    for name, texts in blocks(run).items():
        text = (ROOT / name).read_text(encoding="utf-8")
        for mark, content in texts.items():
            assert between(text, mark) == content, f"{name}: {mark} is not what {RESULTS} holds"
    assert (ROOT / PLOT).read_text(encoding="utf-8") == plot(run.parts)


def test_the_last_run_was_a_whole_one():
    run = read_run(ROOT / RESULTS)
    names = [part.name for part in run.parts]
    assert names in ([], [benchmark.name for benchmark in BENCHMARKS])  # none: it was not run yet
    assert not run.conditions.get("quick")
    assert run.conditions.get("minutes", 0) < 40


def test_what_is_not_generated_has_no_measured_figures():
    prose = outside((FOLDER / "README.md").read_text(encoding="utf-8"))
    assert "bench: table" not in prose
    measured = re.compile(r"\d\s*(%|(s|ms|MB|GB|seconds|minutes|times|tokens/s|GFLOP/s)\b)")
    assert measured.findall(prose) == []
    assert measured.findall("it took 1.4 s, 38 % of it") != []


def test_a_ratio_is_of_neighbouring_repetitions():
    assert Spread.of([3.0, 2.5, 4.0]) == Spread(3.0, 2.5, 4.0)  # of few the least and the most
    assert Spread.of([3.0, 2.5, 4.0, 1.0, 9.0]) == Spread(3.0, 2.5, 4.0)
    assert FAST.ratio == Spread(3.0, 2.5, 4.0)  # 3 / 1, 5 / 2, 4 / 1
    assert FAST.clock_ratio == FAST.ratio
    assert SLOW.ratio.median == 0.5
    assert [SLOW.worse, FAST.worse, result("even", [1.0] * 4, [0.9, 0.9, 1.1, 1.1], unit="s").worse] == [
        True,
        False,
        False,
    ]


def test_where_the_spread_reaches_one_it_is_not_clear_what_is_worse():
    even = result("even", [1.0, 1.0], [0.5, 1.1], unit="s")
    assert (even.worse, even.unclear) == (False, True)
    assert (SLOW.unclear, FAST.unclear) == (False, False)
    parts = [Part("one", "done", 1, results=[even, SLOW])]
    assert "0.80 (0.50 to 1.10, unclear)" in main_table(parts)
    assert "1 of 2 are worse than their peer (the whole spread is below 1), and of 1 with a" in main_table(parts)
    assert "even" in short_table(parts, CONDITIONS)  # what may be worse is not left out


def test_nothing_measured_is_below_what_is_possible():
    for one in results_of(read_run(ROOT / RESULTS).parts):
        assert one.limit is None or one.limit <= one.ours.median, one.name
        assert one.needed is None or all(one.needed <= (side.processed or one.needed) for side in (one.ours, one.peer))


def test_what_is_worse_than_its_peer_stands_first():
    assert [one.case for one in results_of(PARTS)] == ["slow | <odd>", "plain", "fast"]
    lines = main_table(PARTS).splitlines()
    assert lines[0] == "1 of 3 are worse than their peer (the whole spread is below 1); the worst is first."
    assert lines[4].startswith(
        "| a bench | slow \\| <odd> | ours: 10.0 MB | peer: 5.00 MB | 0.50 (one run) | 0.50 | 1 |"
    )
    assert lines[6].endswith("| 3.00 (2.50 to 4.00) | 3.00 | 3 |  | 25% of 0.250 s, tokenizer |  |  |")


def test_the_short_table_has_what_is_worse_and_what_was_chosen():
    lines = short_table(PARTS, CONDITIONS).splitlines()
    assert [line.split("|")[1].strip() for line in lines[4:]] == ["a bench: slow \\", "a bench: fast"]


def test_what_is_worse_says_why_one_would_take_it():
    assert main_table(PARTS).splitlines()[4].endswith("|  | it keeps more |")
    assert short_table(PARTS, CONDITIONS).splitlines()[4].endswith("| 0.50 (one run) | it keeps more |")
    assert said(SLOW).startswith("a bench: slow | <odd> beside peer: 10 and 5 MB, 2.00 times worse (2.00 to 2.00)")
    assert said(FAST).startswith("a bench: fast beside peer: 1 and 4 s, 3.00 times better (2.50 to 4.00)")


def test_what_failed_or_was_not_compared_is_listed_with_its_reason():
    table = missing_table(PARTS)
    assert "| two | exit code 3; no disk |" in table
    assert "| a bench: a peer | peer not installed: x |" in table
    assert missing_table(PARTS[:1]).count("\n") == 2
    told = Part("three", "failed", 1.0, "exit code 1; OSError: a | b: '/home/someone/x/file.py'")
    assert "| three | exit code 1; OSError: a \\| b: '.../file.py' |" in missing_table([told])


def test_the_plot_reads_in_greys():
    image = plot(PARTS)
    root = ET.fromstring(image)
    circles = [node for node in root.iter() if node.tag.endswith("circle")]
    assert [node.get("fill") for node in circles] == ["#fff", "#111", "#111"]
    assert circles[0].get("cx") < circles[1].get("cx") < circles[2].get("cx")
    assert {colour for colour in re.findall(r"#[0-9a-f]{3}\b", image) if len(set(colour[1:])) > 1} == set()


def test_results_come_back_from_their_file(tmp_path):
    for name in blocks(Run({}, [])):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    publish(Run(CONDITIONS, PARTS), tmp_path)
    assert read_run(tmp_path / RESULTS) == Run(CONDITIONS, PARTS)
    text = (tmp_path / "benchmarks" / "README.md").read_text()
    assert "A processor, 2 cores, 8 GB" in between(text, "run")
    assert outside(text) == outside((FOLDER / "README.md").read_text())
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    (tmp_path / "README.md").write_text("no place")
    with pytest.raises(ValueError, match=r"README\.md: no <!-- bench: short -->"):
        publish(Run(CONDITIONS, PARTS[:1]), tmp_path)  # which leaves no files of two runs
    assert {file: file.read_bytes() for file in before} == {**before, tmp_path / "README.md": b"no place"}
    with pytest.raises(ValueError, match=r"README\.md: no <!-- bench: table -->"):
        filled("nothing here", "table", "x", "README.md")


def test_a_result_needs_as_many_repetitions_of_both():
    with pytest.raises(ValueError, match="2 and 1 repetitions"):
        result("odd", [1.0, 2.0], [1.0], unit="s")
    with pytest.raises(ValueError, match="limit_of is 'wish'; valid: matrix products"):
        result("odd", [1.0], [1.0], unit="s", limit=1.0, limit_of="wish")


def test_ways_are_measured_in_turn_and_the_first_round_is_not_counted():
    order: list[str] = []
    ways = {name: lambda name=name: order.append(name) for name in "ab"}
    taken = interleaved(ways, 2)
    assert order == ["b", "a", "a", "b", "b", "a"]
    assert [len(taken[name].processor) for name in "ab"] == [2, 2]


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


def test_the_catalogue_names_programs_that_are_there():
    assert len({benchmark.name for benchmark in BENCHMARKS}) == len(BENCHMARKS)
    for benchmark in BENCHMARKS:
        text = (FOLDER / benchmark.script).read_text(encoding="utf-8")
        assert "options(" in text or '"--json"' in text
        assert benchmark.limit > benchmark.expected
        assert benchmark.after in {"", *(one.name for one in BENCHMARKS if one.setup)}
    named = {benchmark.script for benchmark in BENCHMARKS} | set(ALONE)
    missing = {path.name for path in FOLDER.glob("*.py")} - named
    assert not missing, f"in no run: {missing}; valid: an entry of BENCHMARKS, or of ALONE with the reason"


def test_a_change_of_the_sources_begins_a_run_anew(tmp_path):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "a.py").write_text("1")
    before = code_of(tmp_path)
    (tmp_path / "benchmarks" / "README.md").write_text("figures")
    assert code_of(tmp_path) == before
    (tmp_path / "benchmarks" / "a.py").write_text("2")
    edited = code_of(tmp_path)
    assert edited != before
    (tmp_path / "experiments" / "grids").mkdir(parents=True)
    (tmp_path / "experiments" / "grids" / "quickstart.yaml").write_text("seeds: [1]")
    assert code_of(tmp_path) != edited


def test_a_peer_without_an_environment_is_said_and_not_installed(tmp_path):
    from training.environments import NotInstalledError, python_of

    with pytest.raises(NotInstalledError, match=r"peer not installed: torch==.* FlagEmbedding==1.4.0"):
        python_of("FlagEmbedding", tmp_path, install=False)
    assert list(tmp_path.iterdir()) == []


def test_all_installations_may_take_their_time():
    from training.environments import PACKAGES, PROBE_SECONDS, SECONDS

    (setup,) = [benchmark for benchmark in BENCHMARKS if benchmark.setup]
    assert setup is BENCHMARKS[0]
    assert setup.limit > len(PACKAGES) * (SECONDS + PROBE_SECONDS + 60)  # a minute for the empty environment


def test_a_package_index_that_cannot_be_reached_is_said_before_anything_is_fetched(tmp_path, monkeypatch):
    from training.environments import NotInstalledError, python_of

    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    with pytest.raises(NotInstalledError, match=r"peer not installed: .*No matching .* for FlagEmbedding==1.4.0"):
        python_of("FlagEmbedding", tmp_path)


def test_lines_of_a_benchmark_that_was_killed_are_read(tmp_path):
    file = tmp_path / "results.jsonl"
    assert read_results(file) == []
    file.write_text(to_line(FAST) + "\n" + to_line(Missing("b", "c", "why")) + "\n")
    assert read_results(file) == [FAST, Missing("b", "c", "why")]
    assert json.loads(file.read_text().splitlines()[0])["ratio"]["median"] == 3.0

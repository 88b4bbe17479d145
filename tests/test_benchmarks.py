"""What benchmarks publish: every figure of the READMEs is of the last run, and how results are told."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest
from benchmark_results import CONDITIONS, FAST, FOLDER, PARTS, ROOT, SLOW, result
from suite.catalogue import ALONE, BENCHMARKS
from suite.machine import code_of
from suite.measuring import interleaved, said
from suite.parts import Part
from suite.plot import plot
from suite.publish import PLOT, RESULTS, Run, between, blocks, filled, outside, publish, read_run
from suite.result import Missing, Spread, read_results, to_line
from suite.tables import main_table, missing_table, results_of, short_table


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

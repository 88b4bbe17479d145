"""Tests of significance in a table: from per-query files to the marks and the words under them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from scipy import stats

from lmk_eval.evaluation.per_query import write_per_query
from lmk_experiments.records import evaluation_cell
from lmk_experiments.tables import Comparing, TableSpec, disagreements, grid_table, render

SUITE = {
    "name": "tiny",
    "title": None,
    "tasks": [{"name": "Needle", "mteb": "Needle"}, {"name": "Words", "mteb": "Words"}],
}
ALL = {"title": "All", "suite": "tiny"}
NEEDLE = {"title": "Needle", "suite": "tiny", "task": "Needle", "metric": "ndcg_at_10"}
WORDS = {"title": "Words", "suite": "tiny", "task": "Words"}


class Scored:
    """Evaluations whose scores are made of per-query scores, as a real one's are."""

    def __init__(self, root) -> None:
        self.root, self.rows, self.next = root, [], 1

    def add(self, row: str, seed: int, tasks: dict[str, dict[str, float]], suite: dict = SUITE, kept: bool = True):
        training = self.root.train(self.next)
        scores = {}
        for task, queries in tasks.items():
            parts: dict[str, list[float]] = {}
            for query, value in queries.items():
                parts.setdefault(query.rpartition("/")[0], []).append(value)
            mean = round(fmean(fmean(part) for part in parts.values()), 6)
            scores[task] = {"main_score": mean, "ndcg_at_10": mean}
        identity = self.root.evaluate(100 + self.next, training, scores, suite)
        if kept:
            for task, queries in tasks.items():
                write_per_query(evaluation_cell(self.root.path, identity).folder, task, {"ndcg_at_10": queries})
        self.rows.append((row, seed, training, {"tiny": identity}))
        self.next += 1
        return evaluation_cell(self.root.path, identity).folder

    def table(self, *columns: dict, tests: Comparing | None = Comparing(), **spec):  # noqa: B008 - frozen
        self.root.grid("g", self.rows)
        return grid_table(
            self.root.path, "g", spec=TableSpec.model_validate({"columns": list(columns), **spec}), tests=tests
        )


def drawn(seed: int, shift: float = 0.0, needle: int = 40, words: int = 160) -> dict[str, dict[str, float]]:
    """Scores by query of two tasks of different size, the same queries each time, some rows better by ``shift``."""
    ease = np.random.default_rng(0)
    own = np.random.default_rng(seed)
    return {
        task: {
            f"q{i}": round(float(np.clip(ease.normal(0.5, 0.2) + own.normal(0, 0.1) + shift, 0, 1)), 6)
            for i in range(count)
        }
        for task, count in (("Needle", needle), ("Words", words))
    }


@pytest.fixture
def scored(root) -> Scored:
    return Scored(root)


def cells(table, row: str):
    return next(one for one in table.rows if one.name == row).cells


def test_what_differs_is_marked_and_what_does_not_is_not(scored):
    scored.add("cls", 0, drawn(1))
    scored.add("same", 0, drawn(2))
    scored.add("better", 0, drawn(3, 0.2))
    table = scored.table(ALL, NEEDLE)
    assert [cell.comparison for cell in cells(table, "cls")] == [None, None]
    assert [cell.comparison.significant for cell in cells(table, "same")] == [False, False]
    assert [cell.comparison.significant for cell in cells(table, "better")] == [True, True]
    first, second = cells(table, "better")
    assert (first.comparison.queries, second.comparison.queries) == (200, 40)
    assert first.comparison.comparisons == 2
    assert first.comparison.adjusted == 2 * first.comparison.p, "the smaller of two p-values counts twice"
    one, other = drawn(1)["Needle"], drawn(2)["Needle"]
    theirs = stats.permutation_test(
        ([one[q] - other[q] for q in one],), np.mean, permutation_type="samples", n_resamples=9_999, rng=1
    )
    assert cells(table, "same")[1].comparison.p == pytest.approx(theirs.pvalue, abs=0.03)


def test_every_format_shows_the_mark_and_explains_it(scored):
    scored.add("cls", 0, drawn(1))
    scored.add("better", 0, drawn(3, 0.2))
    table = scored.table(ALL, tests=Comparing(0.01, intervals=True))
    value = f"{cells(table, 'better')[0].value:.1f}"
    written = {form: render([table], form) for form in ("md", "html", "tex", "csv", "json")}
    assert f"**{value}**†" in written["md"]
    assert f"<b>{value}</b><sup>†</sup>" in written["html"]
    assert rf"\textbf{{{value}}}$^{{\dagger}}$" in written["tex"]
    for form in ("md", "html", "tex"):
        text = written[form].replace("$<$", "<").replace("&lt;", "<")
        assert "differs from cls at p < 0.01: two-sided paired randomization test over queries (200 a value" in text
        assert "9,999 random sign changes" in text
        assert "Holm" not in text  # of one comparison nothing is corrected
    header, base, better = csv.reader(io.StringIO(written["csv"]))
    line = dict(zip(header, better, strict=True))
    assert (line["All p"], line["All significant"], line["All queries"]) == ("0.0001", "True", "200")
    assert float(line["All low"]) < float(line["All"]) < float(line["All high"])
    assert float(line["All difference low"]) < float(line["All difference"]) < float(line["All difference high"])
    assert dict(zip(header, base, strict=True))["All p"] == ""
    [held] = json.loads(written["json"])["tables"]
    assert held["significance"] == {"level": 0.01, "baselines": ["cls"], "untested": []}
    assert held["rows"][1]["cells"][0]["comparison"]["p"] == 1e-4
    assert "†" not in render([scored.table(ALL, tests=None)], "md")


def test_a_suites_figure_weighs_tasks_alike(scored):
    """The small task improves by more than the large one loses: the macro average rises, that of queries falls."""
    base = {"Needle": {f"q{i}": 0.4 for i in range(20)}, "Words": {f"q{i}": 0.5 for i in range(400)}}
    other = {"Needle": {f"q{i}": 0.6 for i in range(20)}, "Words": {f"q{i}": 0.49 for i in range(400)}}
    scored.add("cls", 0, base)
    scored.add("other", 0, other)
    cell = cells(scored.table(ALL, tests=Comparing(intervals=True)), "other")[0]
    assert cell.difference == pytest.approx(9.5)
    assert cell.comparison.interval == pytest.approx((9.5, 9.5)), "within a task all queries agree"
    assert cell.comparison.significant


def test_languages_of_a_task_are_strata_too(scored):
    """German has 4 queries and French 40; their ids stand behind the language, and each counts half."""
    for row, german in (("cls", 0.2), ("other", 0.6)):
        queries = {f"de/{i}": german for i in range(4)} | {f"fr/{i}": 0.6 for i in range(40)}
        scored.add(row, 0, {"Needle": queries, "Words": {"q": 0.5}})
    table = scored.table(NEEDLE)
    assert [cells(table, row)[0].value for row in ("cls", "other")] == pytest.approx([40.0, 60.0])
    # Of four queries that all moved one way 2 of 16 assignments are as extreme: exact, and far from 0.0001.
    assert cells(table, "other")[0].comparison.p == 2 / 16
    assert cells(table, "other")[0].comparison.resamples == 0
    assert "every sign change" in render([table], "md")


def test_an_average_of_columns_takes_a_shared_query_once(scored):
    scored.add("cls", 0, drawn(1))
    scored.add("better", 0, drawn(3, 0.02))
    table = scored.table(NEEDLE, {**NEEDLE, "title": "Twice"}, WORDS, {"title": "Avg.", "mean_of": ["Needle", "Twice"]})
    needle, twice, _, average = (cell.comparison for cell in cells(table, "better"))
    assert average.queries == needle.queries == 40
    assert average.p == needle.p == twice.p, "seeing the same queries twice is no new evidence"


def test_seeds_are_averaged_by_query_first(scored):
    for seed in range(2):
        scored.add("cls", seed, drawn(10 + seed))
    for seed in range(2):
        scored.add("better", seed, drawn(20 + seed, 0.01))
    table = scored.table(NEEDLE)
    cell = cells(table, "better")[0]
    base, ours = (
        np.mean([list(drawn(start + seed, shift)["Needle"].values()) for seed in range(2)], axis=0)
        for start, shift in ((10, 0.0), (20, 0.01))
    )
    theirs = stats.permutation_test((ours - base,), np.mean, permutation_type="samples", n_resamples=9_999, rng=1)
    assert cell.comparison.p == pytest.approx(theirs.pvalue, abs=0.03)
    assert (cell.comparison.queries, cell.seeds) == (40, 2)
    assert "A query's score is its mean over a row's seeds" in render([table], "md")


def test_each_model_has_a_baseline_of_its_own(scored):
    for row, shift in (("cls", 0.0), ("lmk", 0.2), ("big-cls", 0.3), ("big-lmk", 0.3)):
        scored.add(row, 0, drawn(len(row), shift))
    labels = {"labels": [{"title": "Model"}, {"title": "Pool"}], "within": "Model"}
    rows = [
        {"row": "cls", "labels": ["small", "CLS"]},
        {"row": "lmk", "labels": ["small", "LMK"]},
        {"row": "big-cls", "labels": ["big", "CLS"], "baseline": True},
        {"row": "big-lmk", "labels": ["big", "LMK"]},
    ]
    table = scored.table(NEEDLE, rows=rows, **labels)
    assert cells(table, "lmk")[0].comparison.significant
    assert not cells(table, "big-lmk")[0].comparison.significant
    assert cells(table, "lmk")[0].comparison.comparisons == 2, "a column is one family, whatever its models"
    assert "differs from the baseline of the same Model" in render([table], "md")


def test_missing_scores_by_query_are_told(scored):
    scored.add("cls", 0, drawn(1))
    scored.add("lost", 0, drawn(2, 0.2), kept=False)
    scored.add("better", 0, drawn(3, 0.2))
    table = scored.table(NEEDLE, ALL)
    assert cells(table, "lost")[0].comparison is None
    assert cells(table, "better")[0].comparison.significant
    text = render([table], "md")
    assert "Not tested: Needle: no scores by query are kept (lost)" in text
    assert "All: Needle: no scores by query are kept (lost)" in text


def test_scores_of_another_run_are_not_tested(scored):
    scored.add("cls", 0, drawn(1))
    folder: Path = scored.add("better", 0, drawn(3, 0.2))
    write_per_query(folder, "Needle", {"ndcg_at_10": drawn(4, 0.1)["Needle"]})
    table = scored.table(NEEDLE, WORDS)
    assert [cell.comparison is None for cell in cells(table, "better")] == [True, False]
    assert "the scores by query are not those that the score was made of (better)" in render([table], "md")


@pytest.mark.parametrize("text", ["{", "[]", '{"precision_at_1": {}}'])
def test_a_damaged_file_costs_its_own_cell_only(scored, text):
    import gzip

    scored.add("cls", 0, drawn(1))
    folder: Path = scored.add("better", 0, drawn(3, 0.2))
    (folder / "per_query" / "Needle.json.gz").write_bytes(gzip.compress(text.encode()))
    table = scored.table(NEEDLE, WORDS)
    assert cells(table, "better")[0].comparison is None
    assert cells(table, "better")[1].comparison.significant
    assert "Not tested: Needle: " in render([table], "md")


def test_other_queries_than_the_baselines_are_not_compared(scored):
    scored.add("cls", 0, drawn(1))
    scored.add("fewer", 0, drawn(3, 0.2, needle=30))
    assert "Not tested: Needle: not the baseline's queries (fewer)" in render([scored.table(NEEDLE)], "md")


def test_without_a_baseline_that_is_said(scored):
    scored.add("one", 0, drawn(1))
    scored.add("two", 0, drawn(2))
    assert "No row is the baseline, so no difference is tested." in render([scored.table(NEEDLE)], "md")


def test_quarters_are_read_from_the_tasks_queries(scored, tmp_path):
    folder = tmp_path / "task"
    folder.mkdir()
    lines = [{"_id": f"q{i}", "text": "?", "metadata": {"quarter": i % 4 + 1}} for i in range(40)]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, lines)))
    suite = {**SUITE, "tasks": [{"name": "Needle", "folder": str(folder), "group_by": "quarter"}]}
    for row, shift in (("cls", 0.0), ("better", 0.3)):
        queries = {f"q{i}": 0.4 + shift * (i % 4 == 2) for i in range(40)}
        found = scored.add(row, 0, {"Needle": queries}, suite)
        done = json.loads((found / "DONE.json").read_text())
        for quarter in (1, 3):
            done["scores"]["Needle"][f"ndcg_at_10[quarter={quarter}]"] = 0.4 + shift * (quarter == 3)
        (found / "DONE.json").write_text(json.dumps(done))
    columns = [{**NEEDLE, "title": f"Q{q}", "metric": f"ndcg_at_10[quarter={q}]"} for q in (1, 3)]
    first, third = (cell.comparison for cell in cells(scored.table(*columns), "better"))
    assert (first.queries, first.p) == (10, 1.0)
    assert (third.queries, third.p) == (10, 2 / 2**10)


def test_a_test_is_made_once(scored):
    """What was kept is used as long as the evaluations are those of before, and made anew where they are not."""
    scored.add("cls", 0, drawn(1))
    folder: Path = scored.add("better", 0, drawn(3, 0.05))
    first = scored.table(ALL, tests=Comparing(intervals=True))
    assert disagreements(first, scored.table(ALL, tests=Comparing(intervals=True))) == []
    kept = scored.root.path / "grids" / "g" / "significance.json"
    known = kept.read_text()
    p = cells(first, "better")[0].comparison.p
    kept.write_text(known.replace(f"{p}", "0.75"))
    changed = cells(scored.table(ALL, tests=Comparing(intervals=True)), "better")[0].comparison
    assert changed.p == 0.75, "it was read, not computed"
    assert not changed.significant, "and corrected and judged as if it had been computed"
    assert cells(scored.table(ALL), "better")[0].comparison.p == p, "asked for in another way it is made anew"
    write_per_query(folder, "Needle", {"ndcg_at_10": drawn(3, 0.05)["Needle"]})
    again = scored.table(ALL, tests=Comparing(intervals=True))
    assert disagreements(first, again) == [], "a file that was written again is read again"
    for damaged in ("{", "[]", '{"schema": 1, "columns": {"x": 3}}', known.replace('"compared"', '"other"')):
        kept.write_text(damaged)
        assert disagreements(first, scored.table(ALL, tests=Comparing(intervals=True))) == []


def test_an_evaluation_that_comes_later_is_tested(scored):
    scored.add("cls", 0, drawn(1))
    scored.add("better", 0, drawn(3, 0.2))
    assert cells(scored.table(NEEDLE), "better")[0].comparison.comparisons == 1
    scored.add("later", 0, drawn(4, 0.2))
    table = scored.table(NEEDLE)
    assert [cells(table, row)[0].comparison.comparisons for row in ("better", "later")] == [2, 2]

"""`lmk table`, `compare` and `clean` on a finished grid, as a person types them."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lmk_experiments.records import load_grid

Lmk = Callable[..., subprocess.CompletedProcess[str]]


def test_every_format_holds_the_same_numbers(finished: Path, lmk: Lmk, tmp_path: Path) -> None:
    printed = lmk("table", "mini", "--from", "records", "--format", "json", cwd=finished)
    assert printed.returncode == 0, printed.stderr
    [table] = json.loads(printed.stdout)["tables"]
    rows = {row["row"]: [cell["value"] for cell in row["cells"]] for row in table["rows"]}
    assert list(rows) == ["untrained", "cls", "multicls", "lmk-var-8", "lmk-var-16"]
    for form in ("md", "tex", "csv", "html"):
        out = tmp_path / f"table.{form}"
        done = lmk("table", "mini", "--from", "records", "--out", out, cwd=finished)
        assert done.stdout == f"written to {out}\n"
        text = out.read_text()
        for values in rows.values():
            assert all((repr(value) if form == "csv" else f"{value:.1f}") in text for value in values), form


def test_tasks_and_groups_have_their_columns(finished: Path, lmk: Lmk) -> None:
    words = ("table", "mini", "--from", "records", "--per-task", "--format", "csv")
    tested = lmk(*words, cwd=finished).stdout.splitlines()[0].split(",")
    assert {"short: functions p", "long: long-512/quarter 4 significant"} <= set(tested)
    done = lmk(*words, "--no-significance", cwd=finished)
    header, *lines = csv.reader(done.stdout.splitlines())
    assert header[:3] == ["row", "short: functions", "long: long-512/Avg."]
    assert header[3:] == [f"long: long-512/quarter {number}" for number in (1, 2, 3, 4)]
    assert len(lines) == 5
    # A group's mean need not be the task's, but lies around it.
    assert all(min(map(float, line[3:])) <= float(line[2]) <= max(map(float, line[3:])) for line in lines)


def test_differences_can_be_asked_for(finished: Path, lmk: Lmk) -> None:
    done = lmk("table", "mini", "--from", "records", "--differences", cwd=finished)
    assert "In parentheses: difference to cls." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "pdf"], "--format pdf: valid: md, tex, csv, html, json"),
        (["--from", "memory"], "--from memory: valid: mlflow, records"),
        (["--against", "paper"], "--against paper: valid: published"),
        (["--against", "published"], "no published numbers for grid 'mini'"),
        (["--frm", "records"], "No such option: --frm"),
    ],
)
def test_mistakes_are_told_with_what_is_valid(finished: Path, lmk: Lmk, arguments: list[str], message: str) -> None:
    done = lmk("table", "mini", *arguments, cwd=finished)
    assert done.returncode == 2
    assert message in done.stderr
    assert "internal error" not in done.stderr


def test_rows_are_compared(finished: Path, lmk: Lmk) -> None:
    done = lmk("compare", "cls", "lmk-var-8", "--only-differences", cwd=finished)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines if line.startswith("* ")][:2] == [
        ["*", "training.pooling.kind"],
        ["*", "training.pooling.granularity"],
    ]
    assert any(line.startswith("long/long-512") for line in lines)
    held = json.loads(lmk("compare", "cls", "multicls", "--json", cwd=finished).stdout)
    assert [pair["key"] for pair in held["config"] if pair["differs"]] == [
        "reading.pooling.kind",
        "reading.pooling.every",
    ]
    assert all(score["difference"] == score["b"] - score["a"] for score in held["scores"])
    unknown = lmk("compare", "cls", "lmk-var", cwd=finished)
    assert unknown.returncode == 2
    assert "did you mean 'lmk-var-8'?" in unknown.stderr


def test_a_cleaned_grid_keeps_its_table_and_is_still_done(finished: Path, lmk: Lmk, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "copy")
    folder = tmp_path / "copy"
    old = time.time() - 8 * 86400
    for log in (folder / "runs").glob("*/*/logs/*"):
        os.utime(log, (old, old))
    table = lmk("table", "mini", "--from", "records", cwd=folder).stdout
    before = {path for path in (folder / "runs").rglob("*") if path.is_file()}

    listed = lmk("clean", "mini", "--dry-run", cwd=folder)
    assert "MTEB's own result files" in listed.stdout
    assert "nothing was deleted" in listed.stdout
    asked = lmk("clean", "mini", cwd=folder)  # nobody answers: nothing is deleted, and the way out is said
    assert asked.returncode == 2
    assert "add --yes to delete" in asked.stderr
    assert {path for path in (folder / "runs").rglob("*") if path.is_file()} == before

    done = lmk("clean", "mini", "--yes", cwd=folder)
    assert done.returncode == 0, done.stderr
    gone = before - {path for path in (folder / "runs").rglob("*") if path.is_file()}
    assert gone
    assert all({"results", "logs"} & set(path.relative_to(folder / "runs").parts) for path in gone)
    assert lmk("table", "mini", "--from", "records", cwd=folder).stdout == table
    again = lmk("run", "mini.yaml", cwd=folder)
    assert "everything is done already" in again.stdout
    assert "nothing to delete" in lmk("clean", "mini", cwd=folder).stdout
    assert len(load_grid(folder / "runs", "mini").rows) == 5

"""The paper's numbers: each as printed, their averages, and the rows they belong to."""

from __future__ import annotations

import csv
import re
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pytest

from lmk_experiments.configs import shipped_folder
from lmk_experiments.grids import load_grid_file, make_plan

TABLES = range(1, 7)
AVERAGES = {
    "average-short": ("beir15", "mteb-eng-v2-retrieval", "miracl-en"),
    "average-long": ("mldr-en", "coir8", "longembed"),
}
NUMBER = re.compile(r"\d+\.\d")


def lines(table: int) -> list[dict[str, str]]:
    with (shipped_folder("published") / f"table{table}.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def printed(paper: str, table: int) -> list[list[str]]:
    """The numbers of each line of a table of the paper, lines without numbers left out."""
    found: list[list[str]] = []
    started = False
    for line in paper[paper.index(f"\nTable {table}: ") :].split("\n")[2:]:
        if not line.startswith("|"):
            if started:
                break
            continue
        started = True
        numbers = [cell.strip() for cell in line.strip("|").split("|") if NUMBER.fullmatch(cell.strip())]
        found += [numbers] if numbers else []
    return found


@pytest.mark.parametrize("table", TABLES)
def test_every_number_is_the_papers(table: int, shared: Path) -> None:
    paper = (shared / "paper" / "lmk-pooling.md").read_text(encoding="utf-8")
    rows: dict[str, list[str]] = {}
    for line in lines(table):
        rows.setdefault(line["row"], []).append(line["value"])
    ours = list(rows.values())
    if table == 4:  # two rows of ours are one line there: CLS and LMK of each suite side by side
        theirs = printed(paper, table)
        sizes = [row.removeprefix("cls-") for row in rows if row.startswith("cls-")]
        pairs = [
            [value for pair in zip(rows[f"cls-{s}"], rows[f"lmk-{s}"], strict=True) for value in pair] for s in sizes
        ]
        assert pairs == theirs
    else:
        assert ours == printed(paper, table)


def test_how_many_numbers_there_are() -> None:
    assert [len(lines(table)) for table in range(1, 8)] == [126, 32, 54, 30, 20, 72, 0]


@pytest.mark.parametrize("table", [1, 3, 6])
def test_the_papers_averages_are_the_means_of_the_columns_beside_them(table: int) -> None:
    rows: dict[str, dict[str, str]] = {}
    for line in lines(table):
        rows.setdefault(line["row"], {})[line["suite"]] = line["value"]
    for row, values in rows.items():
        for average, parts in AVERAGES.items():
            mean = sum(Decimal(values[part]) for part in parts) / len(parts)
            assert mean.quantize(Decimal("0.1"), ROUND_HALF_UP) == Decimal(values[average]), (row, average)


def test_tables_1_and_6_share_two_rows() -> None:
    def values(table: int, row: str) -> dict[str, str]:
        return {line["suite"]: line["value"] for line in lines(table) if line["row"] == row}

    assert values(1, "cls") == values(6, "modernbert-base-cls")
    assert values(1, "lmk-var-32") == values(6, "modernbert-base-lmk-var-32")


@pytest.mark.parametrize("table", TABLES)
def test_rows_and_suites_are_those_of_the_grid(table: int, tmp_path: Path) -> None:
    plan = make_plan(load_grid_file(f"table{table}"), tmp_path)
    suites = {evaluation.suite.name for _, evaluation in plan.evaluations}
    assert {line["row"] for line in lines(table)} == {row.row for row in plan.rows}
    assert {line["suite"] for line in lines(table)} - set(AVERAGES) == suites
    assert all(line["source"].endswith(f"Table {table}") for line in lines(table))

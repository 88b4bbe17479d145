"""``lmk plan`` as it is typed: one grid, all of the paper's, the difference of two."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lmk_experiments.cli.main import app

Say = Callable[..., str]


@pytest.fixture
def say(tmp_path: Path) -> Say:
    """What a command prints."""

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, [*arguments, "--root", str(tmp_path / "runs")], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    return run


def test_all_as_json(say: Say) -> None:
    plan = json.loads(say("plan", "--all", "--json"))
    numbers = {key: plan[key] for key in ("fine_tunes", "pretrainings", "rows", "distinct_readings")}
    assert numbers == {"fine_tunes": 42, "pretrainings": 4, "rows": 51, "distinct_readings": 49}
    assert list(plan["grids"]) == ["fig2", "fig3", "fig4", *(f"table{number}" for number in range(1, 7))]
    assert (plan["analyses"], plan["grids"]["fig2"]["analyses"]) == (3, 1)
    assert (plan["appendix"]["table7"]["fine_tunes"], plan["appendix"]["table7"]["rows"]) == (10, 14)
    assert plan["cost"]["gpu_hours"] > 100
    assert plan["cost"]["basis"]["training"].startswith("formula, 8 FLOP")


def test_all_for_people(say: Say) -> None:
    text = say("plan", "--all")
    assert "42 fine-tunes and 4 pre-trainings, 51 rows (49 distinct readings), 264 evaluations, 3 analyses" in text
    assert "GPU hours" in text
    assert text.index("appendix, counted apart") < text.index("table7")


def test_several_grids(say: Say) -> None:
    plan = json.loads(say("plan", "table1", "table6", "--json"))
    assert (plan["fine_tunes"], plan["rows"], plan["distinct_readings"]) == (16, 22, 20)
    assert "appendix" not in plan


def test_one_grid(say: Say) -> None:
    text = say("plan", "table6")
    assert "4 pre-trainings, 8 trainings (0 done), 8 rows, 56 evaluations (0 done)" in text
    assert "pre-train for gte-en-mlm-base-cls-retromae" in text
    assert "formula, 8 FLOP a parameter and token at 400 TFLOP/s in bfloat16; mean lengths of msmarco-passage" in text
    assert "assumed, where the source leaves it open:" in text
    assert "seeds (table6.yaml): the paper names no seeds" in text
    plan = json.loads(say("plan", "table6", "--json"))
    assert plan["counts"]["pretrainings"] == 4
    assert {"key", "reason", "file"} == set(plan["assumed"][0])
    assert plan["rows"][0]["evaluations"][0]["cost"]["gpu_hours"] > 0
    assert plan["trainings"][2]["config"]["init"] == f"pretraining:{plan['pretrainings'][0]['id']}"


def test_measured_speed(say: Say, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("throughput: {train: 2000000, evaluate: 5000000}\n")
    text = say("plan", "table5", "--profile", str(tmp_path / "mine.yaml"))
    assert "training: measured, 2,000,000 tokens/s a GPU (mine.yaml)" in text
    assert "evaluation: measured, 5,000,000 tokens/s a GPU (mine.yaml)" in text


def test_the_difference_of_two_grids(say: Say) -> None:
    found = json.loads(say("plan", "--diff", "table1", "table6", "--json"))
    assert sorted(found["shared"]["training"].values()) == ["cls", "lmk-var"]
    assert len(found["shared"]["evaluation"]) == 14
    assert (len(found["only_a"]["training"]), len(found["only_b"]["training"])) == (8, 6)
    assert len(found["only_b"]["pretraining"]) == 4
    text = say("plan", "--diff", "table1", "table6")
    assert "shared: 0 pretrainings, 2 trainings, 14 evaluations" in text
    assert "only in table6: 4 pretrainings, 6 trainings, 42 evaluations" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["plan"], "which grid?"),
        (["plan", "--all", "table1"], "leave out table1"),
        (["plan", "--diff", "table1"], "--diff needs two grids"),
        (["plan", "--diff", "table1", "quickstart"], "lmk data build quickstart"),
    ],
)
def test_what_cannot_be_planned(arguments: list[str], says: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=says):
        CliRunner().invoke(app, [*arguments, "--root", str(tmp_path)], catch_exceptions=False)


@pytest.mark.parametrize("grid", ["table1", "table6"])
def test_a_run_that_lacks_something_starts_nothing(grid: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="data:msmarco-passage is not here"):
        CliRunner().invoke(app, ["run", grid, "--root", str(tmp_path)], catch_exceptions=False)
    assert not list(tmp_path.rglob("cell.json"))

"""``lmk evaluate`` and the evaluation cells, with real models and real processes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lmk_eval import read_per_query
from lmk_experiments.records import evaluation_cell, load_grid, training_cell

Lmk = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def trained(finished: Path) -> tuple[Path, Path]:
    """The model that was trained with landmarks, and the short retrieval set."""
    root = finished / "runs"
    training = next(one for one in load_grid(root, "mini").trainings if one.row == "lmk-var")
    return training_cell(root, training.id).folder / "model", root / "built" / "quickstart-tiny" / "eval" / "short"


def test_two_granularities_at_once_are_what_the_cells_hold(
    finished: Path, trained: tuple[Path, Path], lmk: Lmk, tmp_path: Path
) -> None:
    model, folder = trained
    arguments = ("evaluate", model, "--suite", folder, "--max-length", "64", "--granularity", "8,16")
    done = lmk(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)
    assert list(scores) == ["landmark-8", "landmark-16"]
    root = finished / "runs"
    for size in (8, 16):
        row = next(one for one in load_grid(root, "mini").rows if one.row == f"lmk-var-{size}")
        cell = evaluation_cell(root, row.evaluations["short"])
        assert scores[f"landmark-{size}"]["short"] == (cell.done() or {})["scores"]["functions"]
        by_query = read_per_query(tmp_path / "results" / "short" / f"landmark-{size}", "short")
        assert by_query == read_per_query(cell.folder, "functions")
    assert not (tmp_path / "results" / "short" / "tokens").exists()
    assert lmk(*arguments, cwd=tmp_path).stdout == done.stdout


def test_tokens_go_when_all_readings_of_a_training_are_done(finished: Path) -> None:
    left = finished / "runs" / "tokens"
    assert not left.exists() or not list(left.iterdir())


def test_shares_and_then_the_scores(trained: tuple[Path, Path], lmk: Lmk, tmp_path: Path) -> None:
    model, folder = trained
    arguments = ("evaluate", model, "--suite", folder, "--max-length", "64", "--granularity", "8")
    done = lmk(*arguments, "--share", "0/1", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "{}\n"), done.stderr
    vectors = list((tmp_path / "results").rglob("*.npy"))
    assert vectors
    scores = lmk(*arguments, cwd=tmp_path)
    assert list(json.loads(scores.stdout)) == ["short"]
    assert not [path for path in vectors if path.exists()]


def test_a_suite_of_ones_own_in_a_file(trained: tuple[Path, Path], lmk: Lmk, tmp_path: Path) -> None:
    model, folder = trained
    (tmp_path / "book.txt").write_text("The river ran beside the road, and nobody spoke. " * 40)
    (tmp_path / "own.yaml").write_text(
        "name: own\ntasks:\n"
        f"  - {{name: functions, folder: {folder}}}\n"
        "  - {name: keys, passkey: book.txt, lengths: [64], group_by: split}\n"
    )
    done = lmk("evaluate", model, "--suite", "own.yaml", "--max-length", "64", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)
    assert list(scores) == ["functions", "keys"]
    assert scores["keys"]["main_score"] == scores["keys"]["precision_at_1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--suite", "nothing"), "--suite nothing: no such folder or file, and no such suite"),
        (("--granularity", "8,x"), "--granularity 8,x: expected numbers of at least 1"),
        (("--granularity", "8,8"), "--granularity 8,8: the same reading stands there twice"),
        (("--storage", "int8"), "--storage int8:"),
        (("--share", "2/2"), "--share 2/2: expected NUMBER/OF"),
        (("--prompts", "[q]"), "--prompts [q]: expected keys and texts"),
    ],
)
def test_mistakes(
    trained: tuple[Path, Path], lmk: Lmk, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    model, folder = trained
    suite = () if "--suite" in arguments else ("--suite", str(folder))
    done = lmk("evaluate", model, *suite, *arguments, "--max-length", "64", cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_suites_are_listed_without_a_model(lmk: Lmk, tmp_path: Path) -> None:
    done = lmk("evaluate", "--list", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("beir15", "miracl-hn-18", "multieurlex-23", "LEMBNeedleRetrieval", "assumed: "):
        assert name in done.stdout
    assert "give a MODEL and --suite NAME" in lmk("evaluate", cwd=tmp_path).stderr

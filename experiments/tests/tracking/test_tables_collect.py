from __future__ import annotations

import math

import pytest

from lmk_experiments.mirror import StoreError, sync
from lmk_experiments.records import CellRecorder, load_grid, training_cell
from lmk_experiments.records.claim import claimed
from lmk_experiments.tables import (
    TableSpec,
    TableSpecError,
    disagreements,
    grid_table,
    load_source,
    render_markdown,
)


def spec(*columns: dict, **other) -> TableSpec:
    return TableSpec.model_validate({"columns": list(columns), **other})


NEEDLE = {"title": "Needle", "suite": "tiny", "task": "Needle"}
WORDS = {"title": "Words", "suite": "tiny", "task": "Words"}


def values(table) -> dict[str, list[float | None]]:
    return {row.name: [cell.value for cell in row.cells] for row in table.rows}


def test_without_a_spec_every_task_is_a_column(two_rows):
    table = grid_table(two_rows.path, "small")
    assert [column.name for column in table.columns] == ["tiny/Needle", "tiny/Words"]
    assert values(table) == {
        "cls": [(0.1 + 0.2) * 100, 50.0],
        "multicls": [1 / 3 * 100, 25.0],
        "mean": [2 / 3 * 100, 1e-15],
    }
    assert (table.title, table.source) == ("Grid small", "the records")


def test_best_second_and_difference_to_the_baseline(two_rows):
    table = grid_table(two_rows.path, "small", spec=spec(NEEDLE, WORDS, {**NEEDLE, "title": "low", "best": "min"}))
    cells = {row.name: row.cells for row in table.rows}
    assert {name: [cell.rank for cell in row] for name, row in cells.items()} == {
        "cls": [0, 1, 1],
        "multicls": [2, 2, 2],
        "mean": [1, 0, 0],
    }
    assert [row.name for row in table.baselines] == ["cls"]
    assert cells["cls"][0].difference is None
    assert cells["mean"][0].difference == 2 / 3 * 100 - (0.1 + 0.2) * 100


def test_groups_means_digits_and_scale(two_rows):
    table = grid_table(
        two_rows.path,
        "small",
        spec=spec(
            {**NEEDLE, "metric": "ndcg_at_10[quarter=1]", "scale": 1, "digits": 4},
            WORDS,
            {"title": "all", "suite": "tiny"},
            {"title": "both", "suite": "tiny", "task": ["Words", "Needle"], "metric": "ndcg_at_10"},
            {"title": "Avg.", "mean_of": ["all", "Words"]},
        ),
    )
    row = values(table)["multicls"]
    assert row[:3] == [1 / 3 / 3, 25.0, (1 / 3 + 0.25) / 2 * 100]
    assert row[3] == row[2]
    assert row[4] == (row[2] + 25.0) / 2


def test_seeds_become_mean_and_deviation(root, make_scores):
    rows = []
    for seed, needle in enumerate([0.5, 0.6, 0.7]):
        training = root.train(seed + 1)
        rows.append(("cls", seed, training, {"tiny": root.evaluate(11 + seed, training, make_scores(needle, 0.5))}))
    root.grid("seeds", rows)
    cell = grid_table(root.path, "seeds", spec=spec(NEEDLE)).rows[0].cells[0]
    assert cell.value == pytest.approx(60.0)
    assert cell.deviation == pytest.approx(10.0)
    assert (cell.seeds, cell.planned, cell.state) == (3, 3, "")


def test_a_long_reason_is_cut_to_fit_a_cell(root, make_scores):
    training = root.train(1, done=False)
    reason = "CheckpointMismatchError: the checkpoint in this folder was made by another configuration"
    CellRecorder(training_cell(root.path, training).folder).event("failed", reason=reason)
    root.grid("long", [("cls", 0, training, {"tiny": f"{12:012x}"})])
    cell = grid_table(root.path, "long", spec=spec(NEEDLE)).rows[0].cells[0]
    assert cell.state == "training failed (CheckpointMismatchError: the checkpoint in ...)"


def test_a_missing_seed_is_said(root, make_scores):
    first, second = root.train(1), root.train(2, done=False)
    CellRecorder(training_cell(root.path, second).folder).event("failed", reason="out of memory")
    rows = [
        ("cls", 0, first, {"tiny": root.evaluate(11, first, make_scores(0.5, 0.5))}),
        ("cls", 1, second, {"tiny": f"{12:012x}"}),
    ]
    root.grid("seeds", rows)
    table = grid_table(root.path, "seeds", spec=spec(NEEDLE))
    cell = table.rows[0].cells[0]
    assert (cell.value, cell.deviation, cell.seeds, cell.planned) == (50.0, None, 1, 2)
    assert cell.state == "training failed (out of memory)"
    assert "50.0, 1 of 2 seeds" in render_markdown(table)


def test_cells_without_a_score_show_their_state(root, make_scores):
    trainings = {row: root.train(n, done=row != "b") for n, row in enumerate("abcd", start=1)}
    running = training_cell(root.path, trainings["b"])
    CellRecorder(running.folder).progress(120, 400)
    failed = root.evaluate(13, trainings["c"], None)
    CellRecorder(root.path / "evaluations" / failed).event("failed", reason="a|b")
    rows = [
        ("a", 0, trainings["a"], {"tiny": root.evaluate(11, trainings["a"], make_scores(0.0, 0.5))}),
        ("b", 0, trainings["b"], {"tiny": f"{12:012x}"}),
        ("c", 0, trainings["c"], {"tiny": failed}),
        ("d", 0, trainings["d"], {"tiny": f"{14:012x}"}),
        ("e", 0, trainings["d"], {}),
    ]
    root.grid("states", rows, baseline="b")
    with claimed(running.folder):
        table = grid_table(root.path, "states", spec=spec(NEEDLE, {"title": "m", "mean_of": ["Needle"]}))
    for column in (0, 1):
        states = {row.name: row.cells[column].state for row in table.rows}
        assert states == {
            "a": "",
            "b": "training running 120/400",
            "c": "failed (a|b)",
            "d": "planned",
            "e": "not evaluated",
        }
        assert [row.cells[column].value for row in table.rows] == [0.0, None, None, None, None]
        # One value alone is not the best of anything, and a baseline without a value gives no differences.
        assert {(row.cells[column].rank, row.cells[column].difference) for row in table.rows} == {(0, None)}
    assert "*failed (a\\|b)*" in render_markdown(table)


def test_rows_are_chosen_ordered_and_labelled(two_rows):
    table = grid_table(two_rows.path, "small", spec=spec(NEEDLE, rows=["mean", {"row": "cls", "title": "CLS token"}]))
    assert [(row.name, row.label) for row in table.rows] == [("mean", "mean"), ("cls", "CLS token")]


def test_the_grids_own_spec_is_used(two_rows):
    grid = load_grid(two_rows.path, "small")
    recorded = spec(WORDS, title="Own").model_dump(mode="json", exclude_unset=True)
    two_rows.grid(
        "own", [(row.row, row.seed, row.training, row.evaluations) for row in grid.rows], {**recorded, "notes": ["n"]}
    )
    table = grid_table(two_rows.path, "own")
    assert (table.title, [column.title for column in table.columns], table.notes) == ("Own", ["Words"], ("n",))
    two_rows.grid("bad", [("cls", 0, grid.rows[0].training, grid.rows[0].evaluations)], {"columns": []})
    with pytest.raises(TableSpecError, match=r"grid 'bad': table\.columns: "):
        grid_table(two_rows.path, "bad")


@pytest.mark.parametrize(
    ("columns", "other", "message"),
    [
        ([{**NEEDLE, "suite": "tyni"}], {}, r"columns\[0\].suite: grid 'small' does not evaluate 'tyni'; valid: tiny"),
        ([{**NEEDLE, "task": "Nedle"}], {}, r"columns\[0\].task: suite 'tiny' has no task 'Nedle'; .*Valid: Needle, W"),
        ([WORDS, {**NEEDLE, "metric": "f1"}], {}, r"columns\[1\].metric: .* has metric 'f1'; valid: main_score, ndcg"),
        (
            [NEEDLE],
            {"rows": ["clss"]},
            r"rows\[0\]: grid 'small' has no row 'clss'; did you mean 'cls'\? Valid: cls, mu",
        ),
    ],
)
def test_unknown_names_are_errors_with_the_valid_ones(two_rows, columns, other, message):
    with pytest.raises(TableSpecError, match=message):
        grid_table(two_rows.path, "small", spec=spec(*columns, **other))


def test_a_grid_that_evaluates_nothing_has_no_table(root):
    root.grid("bare", [("cls", 0, root.train(1), {})])
    with pytest.raises(TableSpecError, match="evaluates no suite"):
        grid_table(root.path, "bare")


def test_mlflow_and_the_records_agree_to_the_bit(two_rows, uri):
    columns = [NEEDLE, WORDS, {"title": "Avg.", "mean_of": ["Needle", "Words"]}]
    shown = spec(*columns, differences=True)
    before = grid_table(two_rows.path, "small", spec=shown, origin="mlflow", uri=uri)
    assert {cell.state for row in before.rows for cell in row.cells} == {"done, not in MLflow"}
    sync(two_rows.path, uri=uri)
    records = grid_table(two_rows.path, "small", spec=shown)
    mlflow = grid_table(two_rows.path, "small", spec=shown, origin="mlflow", uri=uri)
    assert disagreements(records, mlflow) == []
    assert values(records) == values(mlflow)
    assert render_markdown(mlflow) == render_markdown(records).replace("from the records", "from MLflow")


def test_disagreements_are_listed(two_rows, uri):
    sync(two_rows.path, uri=uri)
    mlflow = grid_table(two_rows.path, "small", origin="mlflow", uri=uri)
    done = two_rows.path / "evaluations" / f"{13:012x}" / "DONE.json"
    done.write_text(done.read_text().replace(repr(2 / 3), repr(math.nextafter(2 / 3, 1))))
    found = disagreements(grid_table(two_rows.path, "small"), mlflow)
    assert len(found) == 1
    assert found[0].startswith("mean, tiny/Needle: 66.66666666666667")


def test_a_store_that_is_down_is_its_own_error(two_rows, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(StoreError):
        load_source(two_rows.path, load_grid(two_rows.path, "small"), "mlflow", uri="http://127.0.0.1:9")

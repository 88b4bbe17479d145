"""Compare two rows or cells, and delete what finished cells do not need any more."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lmk_experiments.jobs.evaluate import tokens_folder
from lmk_experiments.records import CellRecorder, GridRecord, RowRecord, TrainingRecord, evaluation_cell, training_cell
from lmk_experiments.records.claim import claimed
from lmk_experiments.upkeep import compare, delete, find_leftovers, find_side, format_bytes

SUITE = {"name": "tiny", "tasks": [{"name": "Needle"}, {"name": "Words"}]}


def train(root: Path, number: int, *, done: bool = True, **config) -> str:
    cell = training_cell(root, f"a{number:011x}")
    cell.create("training", {"optim": {"steps": 4}, "pooling": {"kind": "cls"}, **config})
    CellRecorder(cell.folder).event("attempt")
    put(cell.folder / "checkpoints" / "last.ckpt", 1000)
    put(cell.folder / "model" / "model.safetensors", 500)
    if done:
        cell.finish(1.0, metrics={"train/loss": number / 4}, model="model")
    return cell.id


def evaluate(root: Path, number: int, training: str, needle: float | None, reading: dict | None = None) -> str:
    cell = evaluation_cell(root, f"b{number:011x}")
    config = {"training": training, "pooling": reading or {"kind": "cls"}, "max_length": 64, "suite": SUITE}
    cell.create("evaluation", config)
    CellRecorder(cell.folder).event("attempt")
    put(cell.folder / "results" / "deep" / "Needle.json", 200)
    put(cell.folder / "per_query" / "Needle.json", 50)
    if needle is not None:
        cell.finish(1.0, scores={"Needle": {"main_score": needle, "f1": 1.0}, "Words": {"main_score": 0.5}})
    return cell.id


def put(path: Path, size: int, age_days: float = 0.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (time.time() - age_days * 86400,) * 2)
    return path


def grid(root: Path, name: str, rows: dict[str, tuple[str, str]], seed: int = 0) -> GridRecord:
    record = GridRecord(
        name,
        name,
        [TrainingRecord(training, row, seed) for row, (training, _) in rows.items()],
        [RowRecord(row, seed, one, {"kind": "cls"}, False, {"tiny": other}) for row, (one, other) in rows.items()],
    )
    record.save(root)
    return record


@pytest.fixture
def two(tmp_path) -> GridRecord:
    first, second = train(tmp_path, 1), train(tmp_path, 2, pooling={"kind": "landmark", "granularity": 32}, seed=0)
    return grid(
        tmp_path,
        "small",
        {"cls": (first, evaluate(tmp_path, 1, first, 0.25)), "lmk": (second, evaluate(tmp_path, 2, second, 0.75))},
    )


def test_rows_are_compared_key_by_key_and_task_by_task(two, tmp_path):
    found = compare(find_side(tmp_path, "cls"), find_side(tmp_path, "small/lmk"))
    assert {pair.key: (pair.a, pair.b) for pair in found.config if pair.differs} == {
        "training.pooling.kind": ("cls", "landmark"),
        "training.pooling.granularity": (None, "32"),
        "training.seed": (None, "0"),
    }
    keys = [pair.key for pair in found.config]
    assert keys.index("training.pooling.granularity") == keys.index("training.pooling.kind") + 1
    assert ("training.optim.steps", "4", "4") in [(pair.key, pair.a, pair.b) for pair in found.config]
    assert [(score.task, score.metric, score.a, score.b, score.difference) for score in found.scores] == [
        ("tiny/Needle", "main_score", 0.25, 0.75, 0.5),
        ("tiny/Words", "main_score", 0.5, 0.5, 0.0),
    ]


def test_cells_are_found_by_the_start_of_their_identity(two, tmp_path):
    trainings = compare(find_side(tmp_path, f"a{1:011x}"), find_side(tmp_path, f"a{2:011x}"))
    assert [(score.metric, score.difference) for score in trainings.scores] == [("train/loss", 0.25)]
    evaluations = compare(find_side(tmp_path, f"b{1:011x}"), find_side(tmp_path, f"b{2:011x}"), None)
    assert [score.metric for score in evaluations.scores] == ["main_score", "f1", "main_score"]
    assert "suite.tasks.0.name" in [pair.key for pair in evaluations.config]


def test_a_side_without_scores_says_its_state(two, tmp_path):
    training = train(tmp_path, 3, done=False)
    grid(tmp_path, "other", {"late": (training, evaluate(tmp_path, 3, training, None))})
    found = compare(find_side(tmp_path, "cls"), find_side(tmp_path, "late"))
    assert found.scores[0].difference is None
    assert str(found.scores[0].b).startswith("failed (stopped")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("clss", "no row and no cell 'clss' under .*; did you mean 'cls'. Valid: cls, lmk"),
        ("small/clss", "did you mean 'small/cls'"),
        ("a000", "'a000' begins the identity of several cells: a00000000001, a00000000002"),
        ("ffff", "no row and no cell 'ffff'"),
    ],
)
def test_a_name_that_means_nothing_or_too_much_is_told(two, tmp_path, typed, message):
    with pytest.raises(ValueError, match=message):
        find_side(tmp_path, typed)


def test_a_row_of_several_grids_needs_its_grid(two, tmp_path):
    third = train(tmp_path, 3)
    grid(tmp_path, "other", {"cls": (third, evaluate(tmp_path, 3, third, 0.5))})
    with pytest.raises(ValueError, match="row of several grids; write one of: other/cls, small/cls"):
        find_side(tmp_path, "cls")
    assert find_side(tmp_path, "other/cls").scores["tiny/Needle"]["main_score"] == 0.5
    with pytest.raises(ValueError, match="no row with seed 5"):
        find_side(tmp_path, "other/cls", seed=5)


def test_only_two_of_a_kind_with_a_metric_that_is_there(two, tmp_path):
    with pytest.raises(ValueError, match=r"is a row and training .* is a training"):
        compare(find_side(tmp_path, "cls"), find_side(tmp_path, f"a{1:011x}"))
    with pytest.raises(ValueError, match="no task has metric 'f2'; valid: f1, main_score"):
        compare(find_side(tmp_path, "cls"), find_side(tmp_path, "lmk"), "f2")


def everything(root: Path) -> set[str]:
    files = (path for path in root.rglob("*") if path.is_file() and path.name != "claim.lock")
    return {str(path.relative_to(root)) for path in files}


def test_leftovers_go_and_weights_records_and_scores_stay(two, tmp_path):
    cell = training_cell(tmp_path, f"a{1:011x}").folder
    put(cell / "logs" / "old.out", 10, age_days=8)
    put(cell / "logs" / "new.out", 10)
    put(cell / ".model.new-1234" / "model.safetensors", 70)
    before = everything(tmp_path)
    found, kept = find_leftovers(tmp_path, two)
    assert kept == []
    assert sorted((one.what, one.size) for one in found) == [
        ("MTEB's own result files", 200),
        ("MTEB's own result files", 200),
        ("checkpoints with the optimizer's state", 1000),
        ("checkpoints with the optimizer's state", 1000),
        ("half-written file", 70),
        ("log", 10),
    ]
    assert everything(tmp_path) == before
    assert delete(found) == (2480, [])
    gone = before - everything(tmp_path)
    assert {path for path in gone if not path.endswith((".ckpt", "results/deep/Needle.json"))} == {
        f"trainings/{cell.name}/logs/old.out",
        f"trainings/{cell.name}/.model.new-1234/model.safetensors",
    }
    assert everything(tmp_path) - before == set()
    kinds = ("model.safetensors", "cell.json", "DONE.json", "events.jsonl", "per_query/Needle.json", "logs/new.out")
    assert all(any(path.endswith(kind) for path in everything(tmp_path)) for kind in kinds)
    assert find_leftovers(tmp_path, two) == ([], [])


def test_unfinished_cells_are_left_alone_unless_told(tmp_path):
    training = train(tmp_path, 1, done=False)
    record = grid(tmp_path, "small", {"cls": (training, evaluate(tmp_path, 1, training, None))})
    found, kept = find_leftovers(tmp_path, record)
    assert found == []
    assert [(one.name, one.reason) for one in kept] == [
        (f"training {training}", "it is not finished (1.0 kB)"),
        (f"evaluation b{1:011x}", "it is not finished (200 B)"),
    ]
    found, kept = find_leftovers(tmp_path, record, unfinished=True)
    assert (len(found), kept) == (2, [])


def test_a_cell_at_work_is_never_touched(two, tmp_path):
    folder = training_cell(tmp_path, f"a{1:011x}").folder
    with claimed(folder):
        found, kept = find_leftovers(tmp_path, two, unfinished=True)
        assert folder not in {one.cell.folder for one in found}
        assert [one.name for one in kept] == [f"training {folder.name}"]
        assert f"process {os.getpid()} on" in kept[0].reason
    # Taken up between the list and the answer: the same.
    found, _ = find_leftovers(tmp_path, two)
    with claimed(folder):
        freed, left = delete(found)
    assert (folder / "checkpoints" / "last.ckpt").exists()
    assert [one.name for one in left] == [folder.name]
    assert freed == 1400


def test_links_are_not_followed(two, tmp_path):
    elsewhere = put(tmp_path / "scratch" / "last.ckpt", 10)
    folder = training_cell(tmp_path, f"a{1:011x}").folder
    (folder / "checkpoints" / "last.ckpt").unlink()
    (folder / "checkpoints").rmdir()
    (folder / "checkpoints").symlink_to(elsewhere.parent)
    found, kept = find_leftovers(tmp_path, two)
    assert [one.reason for one in kept] == ["it is a link to another place"]
    delete(found)
    assert elsewhere.exists()


def test_a_model_whose_new_version_was_never_put_in_place_is_kept(two, tmp_path):
    folder = training_cell(tmp_path, f"a{1:011x}").folder
    (folder / "model").rename(folder / ".model.old-1234")
    found, _ = find_leftovers(tmp_path, two)
    assert "half-written file" not in {one.what for one in found}


def test_tokens_go_when_no_reading_needs_them_any_more(two, tmp_path):
    training = two.trainings[0].id
    done = evaluation_cell(tmp_path, two.rows[0].evaluations["tiny"])
    kept = put(tokens_folder(tmp_path, done.config) / "abc" / "ids.npy", 700).parent.parent
    # A reading of another grid on the same suite finds the same tokens.
    late = evaluation_cell(tmp_path, evaluate(tmp_path, 9, training, None, {"kind": "mean"}))
    assert tokens_folder(tmp_path, late.config) == kept
    foreign = put(tmp_path / "tokens" / f"{'f' * 12}-{'0' * 12}" / "ids.npy", 10).parent
    orphan = put(tmp_path / "tokens" / f"{training}-{'0' * 12}" / "ids.npy", 30).parent

    def found(**more):
        leftovers, left = find_leftovers(tmp_path, two, **more)
        return [one for one in leftovers if one.what == "tokens of texts"], {one.name: one.reason for one in left}

    leftovers, left = found()
    assert [one.path for one in leftovers] == [orphan]
    assert left[f"tokens/{kept.name}"] == "a reading that needs them is not finished (700 B)"
    with claimed(late.folder):
        assert "is working on it" in found(unfinished=True)[1][f"tokens/{kept.name}"]
    leftovers, _ = found(unfinished=True)
    assert [(one.path, one.size) for one in leftovers] == [(orphan, 30), (kept, 700)]
    with claimed(late.folder):  # taken up between the listing and the deleting
        freed, refused = delete(leftovers)
    assert (freed, [one.name for one in refused]) == (30, [training])
    assert kept.is_dir()
    late.finish(1.0, scores={})
    leftovers, _ = found()
    assert delete(leftovers) == (700, [])
    assert not kept.exists()
    assert foreign.is_dir(), "of a training that is not the grid's"


def test_sizes_are_for_people():
    assert [format_bytes(size) for size in (0, 999, 1000, 2_500_000_000)] == ["0 B", "999 B", "1.0 kB", "2.5 GB"]

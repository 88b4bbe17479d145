"""An evaluation that several jobs encode together: which jobs there are, and what becomes of one that is killed."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
import yaml

from lmk_experiments.builders import build
from lmk_experiments.grids import Plan, load_grid_file, make_plan
from lmk_experiments.grids.needs import ResourcesSection
from lmk_experiments.jobs.evaluate import EvaluationsFailed, run_evaluations, run_shares
from lmk_experiments.jobs.fan import make_jobs, write_cells
from lmk_experiments.jobs.shares import Share, make_shares, share_failed, share_of, shares_of, shares_said
from lmk_experiments.profiles import Profile
from lmk_experiments.profiles import shares_of as number_of_shares
from lmk_experiments.records import Cell, GridRecord, training_cell
from lmk_experiments.records.claim import claimed
from lmk_experiments.records.tickets import JobNote
from lmk_experiments.submit.states import cell_state
from lmk_experiments.upkeep import delete, find_leftovers
from lmk_slurm import Job, Sighting

GRID = {
    "grid": "shared",
    "base": ["preset.yaml"],
    "train": [{"row": "lmk", "pooling": {"kind": "landmark", "granularity": [8, 16]}}],
    "evaluate": {
        "suites": [{"name": "short", "tasks": [{"name": "functions", "folder": "built:quickstart-tiny/eval/short"}]}],
        "max_length": 64,
        "views": [{"of": "lmk", "row": "lmk-{g}", "pooling": {"granularity": "{g}"}, "for": {"g": [8, 16]}}],
    },
    "resources": {"evaluate": {"shares": 2}},
}
PRESET = {
    "model": {"path": "built:quickstart-tiny/model"},
    "data": {"train": ["built:quickstart-tiny/train.jsonl"], "query_max_length": 32, "passage_max_length": 32},
    "optim": {"steps": 1, "batch_size": 8, "learning_rate": 0.001},
    "precision": "fp32",
}
SHARD_TEXTS = 16


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the small built data, and the grid's file beside it."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "preset.yaml").write_text(yaml.safe_dump(PRESET))
    (folder / "shared.yaml").write_text(yaml.safe_dump(GRID))
    build("quickstart-tiny", folder / "runs")
    return folder


class Trained:
    """The grid under a root of its own, with its training done: a model that was never trained."""

    def __init__(self, built: Path, root: Path, *assignments: str) -> None:
        from lmk_core import Embedder

        self.root = root
        shutil.copytree(built / "runs" / "built", root / "built")
        self.plan: Plan = make_plan(load_grid_file(str(built / "shared.yaml"), assignments), root)
        self.record: GridRecord = write_cells(self.plan, root, None)
        training = training_cell(root, self.record.trainings[0].id)
        model = Embedder.from_pretrained(root / "built" / "quickstart-tiny" / "model", "landmark", 8, 64)
        model.save_pretrained(training.folder / "model")
        training.finish(1.0, metrics={}, model="model")

    @property
    def jobs(self) -> list[Job]:
        return make_jobs(self.record, self.root, self.plan)

    @property
    def scores(self) -> list[dict]:
        cells = [Cell(self.root / "evaluations" / id_) for row in self.record.rows for id_ in row.evaluations.values()]
        return [(cell.done() or {}).get("scores", {}) for cell in cells]


@pytest.fixture
def shards(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every shard that this process encodes, by its number; corpora are cut into small ones."""
    from functools import partial

    import lmk_eval
    from lmk_eval.corpus import Shards

    written: list[int] = []
    own = Shards.write

    def write(self: Shards, shard: int, vectors: object) -> None:
        own(self, shard, vectors)
        written.append(shard)

    monkeypatch.setattr(lmk_eval, "Settings", partial(lmk_eval.Settings, shard_texts=SHARD_TEXTS))
    monkeypatch.setattr(Shards, "write", write)
    return written


def killed_after(shards: list[int], number: int, job: Job) -> None:
    """Run a share's job in a process that is killed when it has encoded so many shards."""
    child = os.fork()
    if child == 0:

        class Deadly(list):
            def append(self, shard: int) -> None:
                super().append(shard)
                if len(self) == number:
                    os.kill(os.getpid(), signal.SIGKILL)

        from lmk_eval.corpus import Shards

        written, own = Deadly(), Shards.write
        Shards.write = lambda self, shard, vectors: (own(self, shard, vectors), written.append(shard))[0]  # type: ignore[method-assign]
        run_shares(job.argument)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def test_an_evaluation_job_becomes_shares_and_one_that_scores(built: Path, tmp_path: Path) -> None:
    grid = Trained(built, tmp_path / "runs", "resources.evaluate.shares={short: 3, default: 2}")
    train, *shares, score = grid.jobs
    cells = [Cell(Path(folder)) for folder in score.argument.split(os.pathsep)]
    assert [job.name for job in shares] == [f"evaluate lmk, share {number} of 3" for number in (1, 2, 3)]
    assert {job.after for job in shares} == {(train.name,)}
    assert score.after == tuple(job.name for job in shares)
    assert score.name == "evaluate lmk"
    for number, job in enumerate(shares):
        found = [Share(Path(folder)) for folder in job.argument.split(os.pathsep)]
        assert [share.evaluation for share in found] == cells
        assert {share.part for share in found} == {(number, 3)}
        assert job.done == tuple(share.folder / "DONE.json" for share in found)
        assert job.resources == score.resources
    # A reading that is done needs no share, and a job that is done has none.
    cells[0].finish(1.0, scores={"functions": {"ndcg_at_10": 0.5}})
    assert [job.argument.count(os.pathsep) for job in grid.jobs[1:]] == [0, 0, 0, 1]
    cells[1].finish(1.0, scores={"functions": {"ndcg_at_10": 0.5}})
    assert [job.name for job in grid.jobs] == [train.name, "evaluate lmk"]


def test_the_number_of_shares_is_no_part_of_an_identity(built: Path, tmp_path: Path) -> None:
    one, many = (
        make_plan(load_grid_file(str(built / "shared.yaml"), (f"resources.evaluate.shares={shares}",)), built / "runs")
        for shares in (1, 8)
    )
    assert [evaluation.id for _, evaluation in one.evaluations] == [evaluation.id for _, evaluation in many.evaluations]
    assert one.evaluations[0][1].id is not None


def test_the_grid_says_how_many_shares_else_the_profile(built: Path) -> None:
    def plan(*assignments: str) -> Plan:
        return make_plan(load_grid_file(str(built / "shared.yaml"), assignments), built / "runs")

    profile = Profile.model_validate({"profile": "a", "evaluate": {"shares": {"short": 5}}})
    assert number_of_shares(plan().resources, ["short"], profile) == 2
    silent = ResourcesSection()
    assert number_of_shares(silent, ["short"]) == 1
    assert number_of_shares(silent, ["long"], profile) == 1
    assert number_of_shares(silent, ["long", "short"], profile) == 5
    with pytest.raises(ValueError, match="shares"):
        plan("resources.evaluate.shares=0")


def test_a_killed_share_goes_on_and_scores_are_those_of_one_process(
    built: Path, tmp_path: Path, shards: list[int]
) -> None:
    alone = Trained(built, tmp_path / "alone", "resources.evaluate.shares=1")
    run_evaluations(alone.jobs[-1].argument)
    every = sorted(shards)
    assert every == sorted([*range(len(every) // 2)] * 2), "two readings of the same corpus"
    assert len(every) >= 10

    shared = Trained(built, tmp_path / "runs")
    _, first, second, score = shared.jobs
    shards.clear()
    killed_after(shards, 2, first)
    assert [job.name for job in shared.jobs if job.missing()] == [first.name, second.name, score.name]
    run_shares(first.argument)
    run_shares(second.argument)
    of_this_process = list(shards)
    # The killed process had finished shards 0 and 2 of the first reading.
    assert sorted([*of_this_process, 0, 2]) == every, "nothing is encoded again, and nothing is left out"
    assert [job.name for job in shared.jobs if job.missing()] == [score.name]
    shards.clear()
    run_evaluations(score.argument)
    assert shards == [], "the job that scores encodes no document"
    assert shared.scores == alone.scores
    assert all(shared.scores)
    assert not list(shared.root.glob("tokens/*"))
    assert not list(shared.root.rglob("embeddings"))


def test_what_a_share_has_left_is_encoded_by_the_job_that_scores(
    built: Path, tmp_path: Path, shards: list[int]
) -> None:
    grid = Trained(built, tmp_path / "runs")
    _, first, _, score = grid.jobs
    run_shares(first.argument)
    even = set(shards)
    assert {shard % 2 for shard in even} == {0}
    shards.clear()
    run_evaluations(score.argument)
    assert {shard % 2 for shard in shards} == {1}
    assert all(grid.scores)


def test_a_share_without_its_training_fails_and_says_so(built: Path, tmp_path: Path) -> None:
    grid = Trained(built, tmp_path / "runs")
    (training_cell(grid.root, grid.record.trainings[0].id).folder / "DONE.json").unlink()
    job = grid.jobs[1]
    make_shares([job])
    evaluation = Share(Path(job.argument.split(os.pathsep)[0])).evaluation
    assert shares_said(evaluation) == "0 of 1 shares are encoded"
    with pytest.raises(EvaluationsFailed, match=r"2 of 2 shares failed: .* is not done"):
        run_shares(job.argument)
    assert share_failed(evaluation).startswith("share 1-of-2 failed: CellError:")
    note = JobNote(id="7_0", name="a", job="b", log="c", time=0.0, profile="p", user="u", host="h")
    never = Sighting("CANCELLED", "DependencyNeverSatisfied")
    assert "share 1-of-2 failed" in cell_state(evaluation, note, never).reason
    assert cell_state(evaluation, note, Sighting("PENDING", "Dependency")).reason == "0 of 1 shares are encoded"


def test_shares_of_an_unfinished_evaluation_go_with_its_embeddings(built: Path, tmp_path: Path) -> None:
    grid = Trained(built, tmp_path / "runs")
    evaluation = Share(Path(grid.jobs[1].argument.split(os.pathsep)[0])).evaluation
    share = share_of(evaluation, 0, 2).made()
    share.finish(1.0)
    (evaluation.folder / "embeddings" / "functions").mkdir(parents=True)
    (evaluation.folder / "embeddings" / "functions" / "000000.npy").write_bytes(b"x" * 400)
    assert find_leftovers(grid.root, grid.record)[1][0].reason.startswith("it is not finished (")
    with claimed(share.folder):
        found, kept = find_leftovers(grid.root, grid.record, unfinished=True)
        assert found == []
        assert "is working on it" in kept[0].reason
    found, _ = find_leftovers(grid.root, grid.record, unfinished=True)
    assert {one.path.name for one in found} == {"embeddings", "shares"}
    with claimed(share.folder):
        assert delete(found)[0] == 0
    delete(found)
    assert shares_of(evaluation.folder) == []
    assert not (evaluation.folder / "embeddings").exists()


def test_shares_of_a_finished_evaluation_stay_and_say_what_it_cost(built: Path, tmp_path: Path) -> None:
    grid = Trained(built, tmp_path / "runs")
    evaluation = Share(Path(grid.jobs[1].argument.split(os.pathsep)[0])).evaluation
    share = share_of(evaluation, 0, 2).made()
    share.finish(1.0)
    evaluation.finish(1.0, scores={"functions": {"main_score": 0.5}})
    (evaluation.folder / "embeddings").mkdir()
    (share.folder / "logs").mkdir()
    (share.folder / "logs" / "1_0_log.out").write_text("x")
    found, _ = find_leftovers(grid.root, grid.record)
    assert [one.path.name for one in found if one.cell == evaluation] == ["embeddings"]
    found, _ = find_leftovers(grid.root, grid.record, log_days=0)
    assert [one.path.name for one in found if one.cell == evaluation] == ["embeddings", "1_0_log.out"]


def test_a_share_that_did_not_finish_is_not_called_a_training(built: Path, tmp_path: Path) -> None:
    grid = Trained(built, tmp_path / "runs")
    job = grid.jobs[1]
    make_shares([job])
    evaluation = Share(Path(job.argument.split(os.pathsep)[0])).evaluation
    note = JobNote(id="7_0", name="a", job="b", log="c", time=0.0, profile="p", user="u", host="h")
    never = Sighting("CANCELLED", "DependencyNeverSatisfied")
    assert cell_state(evaluation, note, never).reason == "its shares did not finish"

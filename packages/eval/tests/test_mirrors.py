"""MTEB's own tasks on data that lies here: their names, splits and metrics stay, nothing is fetched."""

from __future__ import annotations

import json
import socket

import mteb
import pytest

from lmk_core import PoolingConfig
from lmk_eval import EvaluationError, Settings, Suite, Task
from lmk_eval.tasks import DataMissing, TaskDataError, load_task, open_task

MEAN = PoolingConfig("mean")


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    def blocked(self, address):
        raise AssertionError(f"asked for {address}")

    monkeypatch.setattr(socket.socket, "connect", blocked)


@pytest.fixture
def evaluated(run, tiny_model, tmp_path):
    """Scores of one task of MTEB on the mirrors in ``tmp_path/mirrors``."""

    def evaluated(**task) -> dict[str, float]:
        suite = Suite(name="s", tasks=(Task(name="task", **task),))
        settings = Settings(mirrors=tmp_path / "mirrors")
        return run(tiny_model, suite, tmp_path / "out", pooling=MEAN, settings=settings)["task"]

    return evaluated


@pytest.mark.parametrize("place", ["NFCorpus", "mteb/nfcorpus"])
def test_a_task_in_beir_layout_by_its_own_or_its_data_sets_name(
    evaluated, run, tiny_model, make_folder, toy_folder, tmp_path, place
):
    make_folder(tmp_path / "mirrors" / place)
    scores = evaluated(mteb="NFCorpus")
    local = run(tiny_model, Suite.from_folder("toy", toy_folder), tmp_path / "local", pooling=MEAN)
    assert scores == local["toy"]
    (file,) = (tmp_path / "out" / "results").rglob("NFCorpus.json")
    result = mteb.TaskResult.from_disk(file)
    assert result.task_name == "NFCorpus"
    assert result.dataset_revision.startswith("local-")
    assert mteb.get_task("NFCorpus").metadata.dataset["path"] == "mteb/nfcorpus", "the class is as it was"
    # Other content is another result.
    make_folder(tmp_path / "mirrors" / place, relevant=[("q0", "d5", 1)])
    assert evaluated(mteb="NFCorpus") != scores


def test_languages_and_splits_in_folders_of_their_own(evaluated, make_folder, tmp_path):
    for language in ("de", "en"):
        make_folder(tmp_path / "mirrors" / "MultiLongDocRetrieval" / language)
    scores = evaluated(mteb="MultiLongDocRetrieval", split="test", subsets=["de", "en"], group_by="subset")
    assert scores["ndcg_at_10[subset=de]"] == scores["ndcg_at_10[subset=en]"] == scores["ndcg_at_10"]
    place = tmp_path / "mirrors" / "LEMBNeedleRetrieval"
    for power in range(8):
        split = f"test_{256 * 2**power}"
        relevant = [("q0", f"d{power}", 1)]
        make_folder(place / split, relevant=relevant, split=split)
    needles = evaluated(mteb="LEMBNeedleRetrieval", metric="precision_at_1", group_by="split")
    found = [value for name, value in needles.items() if name.startswith("precision_at_1[")]
    assert len(found) == 8
    assert needles["main_score"] == pytest.approx(sum(found) / 8, abs=1e-6), "P@1, the mean over all eight lengths"


def test_a_language_that_is_missing(evaluated, make_folder, tmp_path):
    make_folder(tmp_path / "mirrors" / "MultiLongDocRetrieval" / "de")
    with pytest.raises(EvaluationError, match="MultiLongDocRetrieval/en: no such folder"):
        evaluated(mteb="MultiLongDocRetrieval", split="test", subsets=["de", "en"])


def test_labelled_texts(evaluated, tmp_path):
    for language in ("en", "de"):
        folder = tmp_path / "mirrors" / "MultiEURLEXMultilabelClassification" / language
        folder.mkdir(parents=True)
        for name in ("train", "test"):
            rows = [{"text": f"law {number}", "labels": [number % 3]} for number in range(12)]
            (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    task = {"mteb": "MultiEURLEXMultilabelClassification", "split": "test", "subsets": ["en", "de"], "metric": "f1"}
    scores = evaluated(**task, group_by="subset")
    assert scores["main_score"] == scores["f1"]
    assert scores["f1[subset=de]"] == scores["f1[subset=en]"], "the same texts draw the same samples"


def test_a_copy_of_the_hubs_repository(evaluated, make_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = make_folder(tmp_path / "copy")
    place = tmp_path / "mirrors" / "NFCorpus"
    place.mkdir(parents=True)
    rows = [row.split("\t") for row in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]]
    judged = [json.dumps({"query-id": query, "corpus-id": key, "score": int(score)}) for query, key, score in rows]
    (place / "data-corpus.jsonl").write_bytes((folder / "corpus.jsonl").read_bytes())
    (place / "data-queries.jsonl").write_bytes((folder / "queries.jsonl").read_bytes())
    (place / "data-qrels.jsonl").write_text("\n".join(judged))
    (place / "README.md").write_text(
        "---\nconfigs:\n"
        "- config_name: corpus\n  data_files: [{split: corpus, path: data-corpus.jsonl}]\n"
        "- config_name: queries\n  data_files: [{split: queries, path: data-queries.jsonl}]\n"
        "- config_name: default\n  data_files: [{split: test, path: data-qrels.jsonl}]\n---\n"
    )
    copied = evaluated(mteb="NFCorpus")
    make_folder(tmp_path / "mirrors" / "SciFact")
    assert evaluated(mteb="SciFact") == copied


def test_an_empty_mirror(evaluated, tmp_path):
    (tmp_path / "mirrors" / "NFCorpus").mkdir(parents=True)
    with pytest.raises(EvaluationError, match="NFCorpus: holds no files, so NFCorpus can't be read from it"):
        evaluated(mteb="NFCorpus")


def test_data_that_is_missing_is_one_error_that_names_the_command(evaluated):
    with pytest.raises(
        EvaluationError, match=r"'task': DataMissing: the data of NFCorpus \(mteb/nfcorpus on the hub\)"
    ) as caught:
        evaluated(mteb="NFCorpus")
    assert "`lmk fetch GRID`" in str(caught.value)
    assert str(caught.value).count("\n") == 0


def test_a_data_set_that_is_a_program_needs_files(monkeypatch):
    (task,) = open_task(Task(name="t", mteb="NFCorpus"))

    def refuse(*_, **__):
        raise RuntimeError("Dataset scripts are no longer supported, but found nfcorpus.py")

    monkeypatch.setattr(type(task), "load_data", refuse)
    with pytest.raises(DataMissing, match=r"mteb/nfcorpus is a program .* NFCorpus needs files: put a copy"):
        load_task(task)


def test_what_a_task_itself_gets_wrong_is_told_as_it_is(monkeypatch):
    (task,) = open_task(Task(name="t", mteb="NFCorpus"))
    for error in (ValueError("a bad row"), TaskDataError("corpus.jsonl:3: no key")):

        def fail(*_, error=error, **__):
            raise error

        monkeypatch.setattr(type(task), "load_data", fail)
        with pytest.raises(type(error), match=str(error)[:8]):
            load_task(task)

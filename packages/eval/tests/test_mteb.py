"""Tasks of MTEB go the same way as local folders. Nothing is fetched: mock tasks, and one that reads a local folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmk_core import Embedder, PoolingConfig
from lmk_eval import EvaluationError, Suite, Task, read_per_query

METRICS = ["ndcg_at_10", "precision_at_1", "recall_at_10", "recall_at_100", "mrr_at_10", "main_score"]
TEXTS = ["Title of d1 This is a positive sentence", "Title of d2 This is another positive sentence"]


@pytest.fixture
def mock_tasks(monkeypatch):
    """MTEB's own mock tasks, found by name."""
    from importlib import import_module

    from mteb.mocks.mock_tasks import classification, retrieval

    registry = import_module("mteb.get_tasks")._TASKS_REGISTRY
    for task in (
        retrieval.MockRetrievalTask,
        retrieval.MockMultilingualRetrievalTask,
        classification.MockMultilabelClassification,
    ):
        monkeypatch.setitem(registry, task.metadata.name, task)


def mock_suite(name: str, **more) -> Suite:
    return Suite(name="mock", tasks=(Task(name="mock", mteb=name, **more),))


@pytest.fixture
def half_right(told):
    """Answers the mock tasks' q1 rightly and q2 wrongly."""
    right = {TEXTS[1]: 1.0, TEXTS[0]: 0.5}
    return told(TEXTS, {"This is a test sentence": right, "This is another test sentence": right})


def test_a_mock_task(run, mock_tasks, half_right, tmp_path, remembering):
    scores = run(half_right, mock_suite("MockRetrievalTask"), tmp_path / "out", recorder=remembering)["mock"]
    assert list(scores) == METRICS
    assert scores["precision_at_1"] == 0.5
    assert scores["mrr_at_10"] == 0.75
    by_query = read_per_query(tmp_path / "out", "mock")
    assert by_query == {"val/q1": 1.0, "val/q2": 0.63093, "test/q1": 1.0, "test/q2": 0.63093}
    assert scores["ndcg_at_10"] == pytest.approx((1 + 0.63093) / 2, abs=1e-5)
    # Two splits of two documents and two queries.
    assert (remembering.events[0]["documents"], remembering.events[0]["queries"]) == (4, 4)
    assert remembering.steps[-1] == (8, 8, "text")


def test_one_split_and_then_all(run, mock_tasks, half_right, tmp_path):
    out = tmp_path / "out"
    run(half_right, mock_suite("MockRetrievalTask", split="test"), out)
    assert list(read_per_query(out, "mock")) == ["q1", "q2"]
    assert len(half_right.encoded) == 4
    scores = run(half_right, mock_suite("MockRetrievalTask", group_by="split"), out)["mock"]
    assert len(half_right.encoded) == 8
    assert scores["precision_at_1[split=test]"] == scores["precision_at_1[split=val]"] == 0.5
    # MTEB's result file now holds more than the first suite asks for.
    run(half_right, mock_suite("MockRetrievalTask", split="test"), out)
    assert list(read_per_query(out, "mock")) == ["q1", "q2"]
    assert len(half_right.encoded) == 8


def test_subsets(run, mock_tasks, half_right, tmp_path):
    scores = run(half_right, mock_suite("MockMultilingualRetrievalTask", group_by="subset"), tmp_path / "out")["mock"]
    assert [name for name in scores if name.startswith("ndcg")] == [
        "ndcg_at_10",
        "ndcg_at_10[subset=eng]",
        "ndcg_at_10[subset=fra]",
    ]
    french = mock_suite("MockMultilingualRetrievalTask", subsets=["fra"], split="test")
    run(half_right, french, tmp_path / "french")
    assert len(half_right.encoded) == 16 + 4


def test_a_task_that_is_not_retrieval(run, mock_tasks, tiny_model, tmp_path):
    suite = mock_suite("MockMultilabelClassification")
    scores = run(tiny_model, suite, tmp_path / "out", pooling=PoolingConfig("mean"))["mock"]
    assert list(scores) == ["f1", "accuracy", "main_score"]
    assert not (tmp_path / "out" / "per_query").exists()


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"mteb": "NFCorpu"}, r"task 'mock': .*MTEB has no task 'NFCorpu': Did you mean: 'NFCorpus'"),
        ({"mteb": "NFCorpus", "split": "tset"}, r"NFCorpus has no split 'tset'; it has test"),
        ({"mteb": "MultiLongDocRetrieval", "subsets": ["xx"]}, r"has no subset 'xx'; it has ar, de, en"),
    ],
)
def test_names_that_mteb_does_not_have(run, half_right, tmp_path, task, message):
    with pytest.raises(EvaluationError, match=message):
        run(half_right, Suite(name="mock", tasks=(Task(name="mock", **task),)), tmp_path / "out")


def redirect(task, folder: Path):
    """Let a built-in task read a local folder instead of the hub."""
    (folder / "README.md").write_text(
        "---\nconfigs:\n"
        "- config_name: corpus\n  data_files: [{split: corpus, path: corpus.jsonl}]\n"
        "- config_name: queries\n  data_files: [{split: queries, path: queries.jsonl}]\n"
        "- config_name: default\n  data_files: [{split: test, path: qrels.jsonl}]\n---\n"
    )
    rows = [row.split("\t") for row in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]]
    lines = [json.dumps({"query-id": query, "corpus-id": key, "score": int(score)}) for query, key, score in rows]
    (folder / "qrels.jsonl").write_text("\n".join(lines))
    task.metadata = task.metadata.model_copy(update={"dataset": {"path": str(folder), "revision": "local"}})
    return task


def test_a_built_in_task_gives_what_the_local_reader_gives(run, tiny_model, toy_folder, tmp_path, monkeypatch):
    """MTEB's own loader and ours, on the same files and the same vectors."""
    import mteb

    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    real = mteb.get_task
    monkeypatch.setattr(mteb, "get_task", lambda name: redirect(real(name), toy_folder))
    embedder = Embedder.from_pretrained(tiny_model, "landmark", 4, 64)
    suite = Suite(name="both", tasks=(Task(name="built", mteb="NFCorpus"), Task(name="local", folder=str(toy_folder))))
    scores = run(embedder, suite, tmp_path / "out")
    assert scores["built"] == scores["local"]
    assert read_per_query(tmp_path / "out", "built") == read_per_query(tmp_path / "out", "local")


def test_a_folder_named_like_a_task_of_mteb(run, tiny_model, toy_folder, tmp_path, monkeypatch, remembering):
    """Each keeps its own result file, so that a second call runs neither."""
    import mteb

    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    real = mteb.get_task
    monkeypatch.setattr(mteb, "get_task", lambda name: redirect(real(name), toy_folder))
    embedder = Embedder.from_pretrained(tiny_model, "landmark", 4, 64)
    tasks = (Task(name="NFCorpus", folder=str(toy_folder)), Task(name="built", mteb="NFCorpus"))
    suite = Suite(name="both", tasks=tasks)
    scores = run(embedder, suite, tmp_path / "out")
    assert run(embedder, suite, tmp_path / "out", recorder=remembering) == scores
    assert [(event["name"], event["cached"]) for event in remembering.events] == [("NFCorpus", True), ("built", True)]
    names = {path.name for path in (tmp_path / "out" / "results").rglob("*NFCorpus.json")}
    assert names == {"NFCorpus.json", "local.NFCorpus.json"}


def test_no_task_of_mteb_is_named_as_a_folder_is():
    from importlib import import_module

    names = import_module("mteb.get_tasks")._TASKS_REGISTRY
    assert "NFCorpus" in names
    assert not [name for name in names if name.casefold().startswith("local.")]


def test_an_aggregate_is_the_mean_of_its_parts(run, make_oracle, toy_folder, make_folder, tmp_path, monkeypatch):
    from mteb.abstasks.aggregate_task_metadata import AggregateTaskMetadata
    from mteb.abstasks.aggregated_task import AbsTaskAggregate

    from lmk_eval.tasks import LocalRetrieval, opening

    half = make_folder(tmp_path / "half", relevant=[("q0", "d0", 1), ("q1", "d7", 1)])
    parts = [LocalRetrieval("good", toy_folder), LocalRetrieval("half", half)]

    class Both(AbsTaskAggregate):
        metadata = AggregateTaskMetadata(
            name="Both", description="d", tasks=parts, main_score="ndcg_at_10", type="Retrieval", eval_splits=["test"]
        )

    monkeypatch.setattr(opening.mteb, "get_task", lambda name: Both())
    scores = run(make_oracle(), mock_suite("Both"), tmp_path / "out")["mock"]
    assert scores["precision_at_1"] == 0.75
    assert "local.good/q0" in read_per_query(tmp_path / "out", "mock")

"""The paper's suites against the registry of the installed MTEB; nothing is fetched."""

from __future__ import annotations

import json

import mteb
import pytest

from lmk_eval.suites import Task, shipped_suite, shipped_suites, task_sizes
from lmk_eval.suites.measure import measure
from lmk_eval.suites.sizes import SIZES_FILE
from lmk_eval.tasks import open_task

SUITES = [shipped_suite(name) for name in shipped_suites()]
TASKS = [pytest.param(task, id=f"{suite.name}-{task.name}") for suite in SUITES for task in suite.tasks]


def test_every_suite_of_the_paper_is_there():
    counts = {suite.name: len(suite.tasks) for suite in SUITES}
    assert counts == {
        "beir15": 15,
        "coir10": 10,
        "coir8": 8,
        "longembed": 6,
        "miracl-en": 1,
        "miracl-hn-18": 1,
        "mldr-13": 1,
        "mldr-en": 1,
        "msmarco-dev": 1,
        "mteb-eng-v2-retrieval": 10,
        "multieurlex-23": 1,
    }


@pytest.mark.parametrize("task", TASKS)
def test_mteb_has_the_task_its_split_and_its_subsets(task: Task):
    parts = open_task(task)
    assert parts
    for part in parts:
        assert part.metadata.name == task.mteb or task.mteb == "CQADupstackRetrieval"
        if task.split is not None:
            assert part.eval_splits == [task.split]
        if task.subsets is not None:
            assert sorted(part.hf_subsets) == sorted(task.subsets)


@pytest.mark.parametrize("task", TASKS)
def test_the_metric_is_mtebs_main_score_or_the_papers_own(task: Task):
    main = mteb.get_task(str(task.mteb)).metadata.main_score
    exceptions = {
        "LEMBNeedleRetrieval": ("ndcg_at_1", "precision_at_1"),
        "LEMBPasskeyRetrieval": ("ndcg_at_1", "precision_at_1"),
        "MultiEURLEXMultilabelClassification": ("accuracy", "f1"),
    }
    assert (main, task.metric) == exceptions.get(str(task.mteb), ("ndcg_at_10", "ndcg_at_10"))


def test_the_lists_are_mtebs_benchmarks():
    def names(suite: str) -> set[str]:
        return {str(task.mteb) for task in shipped_suite(suite).tasks}

    def benchmark(name: str, kind: str | None = None) -> set[str]:
        tasks = mteb.get_benchmark(name).tasks
        return {task.metadata.name for task in tasks if kind is None or task.metadata.type == kind}

    assert names("beir15") == benchmark("BEIR")
    assert names("mteb-eng-v2-retrieval") == benchmark("MTEB(eng, v2)", "Retrieval")
    assert names("coir10") == benchmark("CoIR")
    assert names("coir8") < names("coir10")
    assert names("longembed") == benchmark("LongEmbed")


@pytest.mark.parametrize(("name", "languages"), [("miracl-hn-18", 18), ("mldr-13", 13), ("multieurlex-23", 23)])
def test_all_languages_of_the_multilingual_ones(name: str, languages: int):
    (task,) = shipped_suite(name).tasks
    assert len(task.subsets or ()) == languages
    assert set(task.subsets or ()) == set(mteb.get_task(str(task.mteb)).hf_subsets)
    assert task.group_by == "subset"


def test_needle_and_passkey_are_means_over_all_eight_lengths():  # mteb #868, #2638
    for task in shipped_suite("longembed").tasks[-2:]:
        assert task.split is None
        (opened,) = open_task(task)
        assert opened.eval_splits == [f"test_{256 * 2**power}" for power in range(8)]


def test_the_sizes_are_those_of_the_installed_mteb():
    stored = json.loads(SIZES_FILE.read_text())
    assert set(stored) == {str(task.mteb) for suite in SUITES for task in suite.tasks}
    for name, sizes in stored.items():
        assert sizes == measure(name), name


def test_sizes_of_a_task():
    (english,) = task_sizes(shipped_suite("miracl-en").tasks[0]) or []
    assert english.queries == 799
    assert len(task_sizes(shipped_suite("miracl-hn-18").tasks[0]) or []) == 18
    assert len(task_sizes(shipped_suite("longembed").tasks[-1]) or []) == 8
    assert task_sizes(Task(name="other", mteb="NoSuchTask")) is None
    assert task_sizes(Task(name="own", folder="data/own")) is None

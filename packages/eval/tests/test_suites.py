"""Suites and tasks: what is valid, and what the messages say of the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from lmk_eval.suites import Suite, SuiteError, Task, check_name


def test_suite_from_folder():
    suite = Suite.from_folder("wiki", Path("some/wiki"), group_by="quarter")
    assert suite == Suite(name="wiki", tasks=(Task(name="wiki", folder="some/wiki", group_by="quarter"),))
    assert suite.tasks[0].kind == "folder"
    assert suite.tasks[0].split == "test"


def test_dump_reads_back_equal():
    suite = Suite(
        name="all",
        title="Everything",
        tasks=(
            Task(name="wiki", folder="built:wiki", split="dev"),
            Task(name="mldr", mteb="MultiLongDocRetrieval", split="test", subsets=("en",), group_by="subset"),
        ),
    )
    assert Suite.model_validate_json(suite.model_dump_json()) == suite
    assert Suite.model_validate(suite.model_dump()) == suite


def test_a_task_of_mteb_runs_its_own_splits_unless_said():
    task = Task(name="msmarco", mteb="MSMARCO")
    assert (task.kind, task.split, task.subsets) == ("mteb", None, None)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "a"}, "none of the keys folder, labels, passkey, needle, mteb"),
        ({"name": "a", "folder": "x", "mteb": "NFCorpus"}, "folder and mteb of the keys folder, labels"),
        ({"name": "a", "folder": ""}, "folder is empty"),
        (
            {"name": "a", "foldr": "x"},
            "'foldr'; valid keys: characters_a_token, folder, group_by, labels, lengths, metric, mteb, name, needle,",
        ),
        ({"name": "../a", "folder": "x"}, "task name '../a' can't be a part of a path"),
        ({"name": "a/b", "folder": "x"}, "task name 'a/b' can't be"),
        ({"name": "", "folder": "x"}, "task name '' can't be"),
        ({"name": "a", "folder": "x", "split": "../test"}, "split '../test' can't be"),
        ({"name": "a", "folder": "x", "subsets": ["en"]}, "only for a task of MTEB"),
        ({"name": "a", "mteb": "x", "subsets": []}, "non-empty list"),
        ({"name": "a", "mteb": "x", "group_by": "quarter"}, "'quarter'; valid for a task of MTEB: split, subset"),
        ({"name": "a", "folder": "x", "group_by": ""}, "group_by is empty"),
        ({"name": "a", "labels": "x", "group_by": "part"}, "'part'; valid for labels: none"),
        ({"name": "a", "passkey": "x", "group_by": "part"}, "'part'; valid for passkey: split, depth"),
        ({"name": "a", "passkey": "x", "split": "test"}, "passkey has no split"),
        ({"name": "a", "needle": "x", "lengths": [256, 256]}, "lengths is [256, 256]; different numbers"),
        ({"name": "a", "needle": "x", "lengths": [32]}, "of at least 64 are valid"),
        ({"name": "a", "needle": "x", "characters_a_token": 0}, "characters_a_token is 0.0; 0.5 to 20"),
        ({"name": "a", "folder": "x", "lengths": [256]}, "lengths is only for passkey and needle"),
        ({"name": "a", "mteb": "x", "metric": "ndcg"}, "metric is 'ndcg'; valid: ndcg_at_10, precision_at_1"),
    ],
)
def test_bad_tasks(values, message):
    with pytest.raises(ValidationError) as caught:
        Task(**values)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "s", "tasks": []}, "suite 's' has no tasks"),
        ({"name": "a b", "tasks": [{"name": "a", "folder": "x"}]}, "suite name 'a b' can't be"),
        ({"name": "s", "task": []}, "'task'; valid keys: assumed, name, source, tasks, title"),
        ({"name": "s", "tasks": [{"name": "Wiki", "folder": "x"}, {"name": "wiki", "folder": "y"}]}, "two tasks named"),
        ({"name": "s", "tasks": [{"name": "a", "folder": "x", "zz": 1}]}, "tasks.0"),
    ],
)
def test_bad_suites(values, message):
    with pytest.raises(ValidationError) as caught:
        Suite(**values)
    assert message in str(caught.value)


def test_frozen():
    suite = Suite.from_folder("wiki", "x")
    with pytest.raises(ValidationError, match="frozen"):
        suite.name = "other"


def test_marks_of_the_identity():
    assert Task.model_fields["folder"].json_schema_extra == {"identity": "content"}
    assert Suite.model_fields["title"].json_schema_extra == {"identity": "transient"}


@pytest.mark.parametrize("name", [".", "..", ".hidden", "a.", "a\n", "ü", "a" * 128, "C:"])
def test_names_that_are_no_part_of_a_path(name):
    with pytest.raises(SuiteError, match="letters, digits"):
        check_name(name, "task name")


def test_importing_is_light():
    code = (
        "import sys, lmk_eval, lmk_eval.suites, lmk_eval.tasks, lmk_eval.encoders, lmk_eval.evaluation\n"
        "heavy = {'torch', 'mteb', 'datasets', 'transformers', 'lightning', 'numpy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

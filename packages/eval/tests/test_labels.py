"""Multilabel classification on own texts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lmk_eval import EvaluationError, Suite, Task, TaskDataError
from lmk_eval.labels import labels_fingerprint, read_labels


class ByLabel:
    """A text is the mean of the unit vectors of the words in it, so that equal labels are near."""

    words = ("fish", "trade", "law", "road")

    def encode(self, texts, *, max_length=None, batch_tokens=16384):
        out = np.array([[word in text for word in self.words] for text in texts], dtype=np.float32)
        return out / np.linalg.norm(out, axis=1, keepdims=True)


def write(folder: Path, name: str, rows: list[tuple[str, list]]) -> None:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"text": text, "labels": labels}) for text, labels in rows]
    (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")


def rows(count: int) -> list[tuple[str, list]]:
    pairs = [("fish",), ("trade", "law"), ("road",)]
    return [(f"{' '.join(pair)} {number}", list(pair)) for number, pair in enumerate(pairs * (count // 3))]


def test_a_probe_on_clear_vectors_is_always_right(run, tmp_path):
    write(tmp_path / "set", "train", rows(100))
    write(tmp_path / "set", "test", rows(20))
    suite = Suite(name="own", tasks=(Task(name="own", labels=str(tmp_path / "set")),))
    scores = run(ByLabel(), suite, tmp_path / "out")["own"]
    assert scores == {"f1": 1.0, "accuracy": 1.0, "main_score": 1.0}
    assert not (tmp_path / "out" / "per_query").exists()
    # The same texts with the labels of others.
    write(
        tmp_path / "set",
        "test",
        [(text, labels) for (text, _), (_, labels) in zip(rows(20), rows(20)[1:] + rows(20)[:1], strict=True)],
    )
    assert run(ByLabel(), suite, tmp_path / "out")["own"]["f1"] < 0.5


def test_labels_as_numbers_and_an_empty_list(tmp_path):
    write(tmp_path, "train", [("a", [3, 1]), ("b", [])])
    write(tmp_path, "dev", [("c", [1, 1])])
    train, scored = read_labels(tmp_path, "dev")
    assert (train.labels, scored.labels) == ([["1", "3"], []], [["1"]])
    before = labels_fingerprint(tmp_path, "dev")
    write(tmp_path, "test", [("c", [1])])
    assert labels_fingerprint(tmp_path, "dev") == before
    assert labels_fingerprint(tmp_path, "test") != before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"test\.jsonl:2: not JSON"),
        ("[1]", "is a list .*must be an object with the keys text, labels"),
        ('{"text": "a"}', "no key 'labels'; found text"),
        ('{"text": 1, "labels": []}', "key 'text' is a number"),
        ('{"text": "a", "labels": "fish"}', "key 'labels' is a text .*must be a list"),
        ('{"text": "a", "labels": [true]}', "must be a list of texts or whole numbers"),
        ('{"text": "a", "labels": ["sea"]}', "labels that train.jsonl does not have: sea"),
    ],
)
def test_bad_lines(run, tmp_path, line, message):
    write(tmp_path / "set", "train", rows(10))
    write(tmp_path / "set", "test", rows(5)[:1])
    with (tmp_path / "set" / "test.jsonl").open("a") as file:
        file.write(line + "\n")
    suite = Suite(name="own", tasks=(Task(name="own", labels=str(tmp_path / "set")),))
    with pytest.raises(EvaluationError, match=rf"task 'own': .*{message}"):
        run(ByLabel(), suite, tmp_path / "out")


def test_missing_files(tmp_path):
    with pytest.raises(TaskDataError, match="no such folder"):
        read_labels(tmp_path / "none")
    write(tmp_path / "set", "train", rows(5))
    with pytest.raises(TaskDataError, match=r"test\.jsonl: no such file; the folder has: train\.jsonl"):
        read_labels(tmp_path / "set")
    with pytest.raises(TaskDataError, match="what the probe learns from"):
        read_labels(tmp_path / "set", "train")


def test_every_language_draws_the_same_samples_whatever_came_before(run, tiny_model, tmp_path, monkeypatch):
    """MTEB draws on from language to language; here each begins anew, so that a stopped evaluation ends equal."""
    from importlib import import_module

    from mteb.mocks.mock_tasks.classification import MockMultilingualMultilabelClassification as Mock

    from lmk_core import PoolingConfig

    monkeypatch.setitem(import_module("mteb.get_tasks")._TASKS_REGISTRY, Mock.metadata.name, Mock)

    def scores(out: str, *subsets: str) -> dict[str, float]:
        task = Task(name="mock", mteb=Mock.metadata.name, subsets=subsets, group_by="subset")
        suite = Suite(name="mock", tasks=(task,))
        return run(tiny_model, suite, tmp_path / out, pooling=PoolingConfig("mean"))["mock"]

    both, alone = scores("both", "eng", "fra"), scores("alone", "fra")
    named = [name for name in alone if name.endswith("[subset=fra]")]
    assert named
    assert {name: both[name] for name in named} == {name: alone[name] for name in named}

"""Texts are tokenized once, by whoever comes first, and never half."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import pickle
import shutil
import signal
import time
from pathlib import Path

import datasets
import numpy as np
import pytest
from transformers import AutoTokenizer

from lmk_core.layouts import PoolingTokenizer
from lmk_core.layouts.sentences import SentencexSplitter
from lmk_core.pooling import PoolingConfig
from lmk_train.data import DataError
from lmk_train.data.cache import TokenCache, building, cache_folder, text_keys, tokenizer_digest
from lmk_train.data.cache.fingerprints import content_digest

LANDMARK = PoolingConfig("landmark", granularity=4)
SENTENCE = PoolingConfig("landmark", granularity="sentence")


@pytest.fixture
def cache(tiny_model, tmp_path):
    def make(pooling: PoolingConfig = LANDMARK, max_length: int = 32, **keywords) -> TokenCache:
        tokenizer = PoolingTokenizer(AutoTokenizer.from_pretrained(tiny_model), pooling, 512)
        return TokenCache(tokenizer, max_length, folder=str(tmp_path / "cache"), **keywords)

    return make


@pytest.fixture
def no_tokenizing(monkeypatch):
    """Makes it an error to tokenize anything from here on."""

    def arm():
        def refuse(*_, **__):
            raise AssertionError("tokenized again")

        monkeypatch.setattr(PoolingTokenizer, "tokenize", refuse)

    return arm


def places(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "cache/tokens").glob("*/*") if path.name != "lock")


@pytest.mark.parametrize("pooling", [LANDMARK, SENTENCE], ids=["whole", "sentence"])
def test_a_row_is_what_the_tokenizer_says(cache, pooling, make_rows, write_rows, tmp_path, monkeypatch):
    monkeypatch.setattr(building, "_ROWS", 7)  # several record batches
    rows = make_rows(20, scores=True)
    rows[3] |= {"neg": [], "neg_scores": []}
    rows[4]["neg_scores"] = None
    rows[5]["query"] = "Kaba lodo. Migi nupu! Re. " * 9
    rows[6]["query"] = ""
    ours = cache(pooling)
    tokens = ours.open(write_rows(tmp_path / "rows.jsonl", rows))
    assert len(tokens) == 20
    assert tokens.negatives().tolist() == [3, 3, 3, 0, *[3] * 16]
    for place, row in enumerate(rows):
        texts = [row["query"], row["pos"][0], *row["neg"]]
        found, expected = tokens[place], ours.tokenizer.tokenize(texts, max_length=32)
        for name in ("ids", "bounds", "pieces", "piece_bounds", "limit"):
            np.testing.assert_equal(getattr(found.texts, name), getattr(expected, name), err_msg=name)
        assert ours.tokenizer.lay_out(found.texts, max_length=32) == ours.tokenizer.layouts(texts, max_length=32)
        assert found.keys.tolist() == text_keys(texts)
        if place == 4:
            assert found.scores is None
        else:
            assert found.scores.tolist() == [5.0, *row["neg_scores"]]


def test_it_is_tokenized_once(cache, rows_file, tmp_path, no_tokenizing):
    first = cache().open(rows_file)
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(rows_file.read_bytes())
    no_tokenizing()
    for path in (rows_file, copy):
        again = cache().open(path)
        assert again.folder == first.folder
    assert len(again) == 64
    assert cache(PoolingConfig("cls")).open(rows_file).folder == first.folder, "poolings share plain ids"
    assert cache(max_length=16).open(rows_file).folder == first.folder, "a longer cut serves a shorter one"


def test_what_changes_the_tokens_is_tokenized_anew(cache, rows_file, make_rows, write_rows, tmp_path):
    path = write_rows(tmp_path / "rows.jsonl", make_rows(5))
    places = [
        cache().open(path),
        cache(max_length=64).open(path),
        cache(SENTENCE).open(path),
        cache(prompt="{prompt} {text}").open(path),
    ]
    write_rows(path, make_rows(5, seed=1))
    places.append(cache().open(path))
    assert len({one.folder for one in places}) == 5
    first, second = PoolingTokenizer(cache().tokenizer.hf_tokenizer, SENTENCE, 32), cache(SENTENCE).tokenizer
    assert tokenizer_digest(first) == tokenizer_digest(second)
    second.sentence_splitter = SentencexSplitter("de")
    assert tokenizer_digest(first) != tokenizer_digest(second)
    second.sentence_splitter = str.splitlines
    assert tokenizer_digest(second) != tokenizer_digest(second), "nobody knows what this function does"


def test_settings_of_a_tokenizer_that_change_no_ids_change_nothing(cache):
    tokenizer = cache().tokenizer
    before = tokenizer_digest(tokenizer)
    tokenizer.hf_tokenizer(["kaba", "kaba lodo"], padding=True, truncation=True, max_length=5)
    assert tokenizer_digest(tokenizer) == before
    tokenizer.hf_tokenizer.add_tokens(["kaba"])
    assert tokenizer_digest(tokenizer) != before


def test_other_processes_map_the_same_file(cache, rows_file):
    tokens = cache().open(rows_file)
    again = pickle.loads(pickle.dumps(tokens))
    assert again.folder == tokens.folder
    np.testing.assert_equal(again[5].texts.ids, tokens[5].texts.ids)
    assert len(pickle.dumps(tokens)) < 1000


def test_drafts_of_two_machines_have_different_names(tmp_path, monkeypatch):
    """Their processes may have one id, and both write what is known of a file."""
    drafts, replace = [], Path.replace
    monkeypatch.setattr(Path, "replace", lambda path, target: drafts.append(path.name) or replace(path, target))
    (tmp_path / "rows.jsonl").write_text("{}")
    for _ in range(2):
        content_digest(tmp_path / "rows.jsonl", tmp_path / "memory")
        shutil.rmtree(tmp_path / "memory")
    assert len(set(drafts)) == 2


def test_tokens_that_cannot_be_put_in_place_are_an_error(cache, rows_file, tmp_path, monkeypatch):
    """But for those of another machine that was faster: they are there."""
    rename = Path.rename

    def refused(path, target):
        raise PermissionError(errno.EACCES, "Permission denied", str(target))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refused)
        with pytest.raises(PermissionError):
            cache().open(rows_file)
    assert places(tmp_path) == []

    def outrun(path, target):
        shutil.copytree(path, target)
        rename(path, target)

    monkeypatch.setattr(Path, "rename", outrun)
    assert len(cache().open(rows_file)) == 64
    assert places(tmp_path) == ["cut-32"]


def test_datasets_opens_it_too(cache, rows_file):
    tokens = cache().open(rows_file)
    table = datasets.Dataset.from_file(str(tokens.folder / "rows.arrow"))
    assert table.num_rows == 64
    flat = [token for text in table[7]["ids"] for token in text]
    assert flat == tokens[7].texts.ids.tolist()
    assert table[7]["line"] == 8


def test_faulty_rows_are_remembered(cache, make_rows, write_rows, tmp_path, no_tokenizing):
    path = write_rows(tmp_path / "rows.jsonl", [*make_rows(9), {"query": "q", "pos": "p"}, *make_rows(10, seed=1)])
    with pytest.raises(DataError, match=r"rows.jsonl:10: 'pos' must be a list of strings"):
        cache().open(path)
    assert places(tmp_path) == [], "what is refused is not kept"
    tokens = cache(max_faulty=0.05).open(path)
    assert len(tokens) == 19
    assert tokens.findings_of(path).counts["wrong_type"] == 1
    no_tokenizing()
    assert [str(fault) for fault in cache(max_faulty=0.5).open(path).findings_of(path).faults] == [
        f'{path}:10: \'pos\' must be a list of strings, found "p"; write ["p"]'
    ]
    with pytest.raises(DataError, match=r"rows.jsonl:10: "):
        cache().open(path)


def test_without_leave_reading_stops_at_the_tenth_faulty_row(cache, make_rows, write_rows, tmp_path):
    path = write_rows(tmp_path / "rows.jsonl", [{"query": "q"}] * 30 + make_rows(3))
    with pytest.raises(DataError, match="not read any further") as caught:
        cache().open(path)
    assert str(caught.value).count("the key 'pos' is missing") == 10


def test_where_it_lies(monkeypatch, tmp_path):
    monkeypatch.setenv("LMK_CACHE", str(tmp_path / "a"))
    assert cache_folder(None) == tmp_path / "a"
    assert cache_folder("b") == Path("b")
    monkeypatch.delenv("LMK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder(None) == tmp_path / "lmk"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder(None) == Path.home() / ".cache/lmk"


def forked(work) -> multiprocessing.Process:
    """A process that does ``work`` from this one's state: no import has to be waited for."""
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    return process


def slowly(ours: TokenCache, log: Path, seconds: float) -> TokenCache:
    """The cache, tokenizing four rows at once, each time with a line in ``log`` and a pause."""
    original = ours.tokenizer.tokenize

    def tokenize(*args, **keywords):
        with log.open("a") as stream:
            stream.write("tokenizing\n")
        time.sleep(seconds)
        return original(*args, **keywords)

    ours.tokenizer.tokenize = tokenize
    return ours


def wait_for(log: Path, lines: int) -> None:
    for _ in range(3000):
        if log.exists() and len(log.read_text().splitlines()) >= lines:
            return
        time.sleep(0.01)
    raise AssertionError(f"{log} has not {lines} lines after 30 s")


def test_two_processes_at_once_tokenize_once(cache, rows_file, tmp_path, monkeypatch):
    monkeypatch.setattr(building, "_ROWS", 4)

    def work(number: int) -> None:
        ours = slowly(cache(), tmp_path / "log", 0.02)
        (tmp_path / f"rows{number}").write_text(str(len(ours.open(rows_file))))

    both = [forked(lambda number=number: work(number)) for number in range(2)]
    for process in both:
        process.join(60)
    assert [(tmp_path / f"rows{number}").read_text() for number in range(2)] == ["64", "64"]
    assert (tmp_path / "log").read_text().splitlines() == ["tokenizing"] * 16
    assert places(tmp_path) == ["cut-32"]


def test_a_killed_process_leaves_nothing_half(cache, rows_file, tmp_path, monkeypatch):
    monkeypatch.setattr(building, "_ROWS", 4)
    process = forked(lambda: slowly(cache(), tmp_path / "log", 0.2).open(rows_file))
    wait_for(tmp_path / "log", 3)
    process.kill()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    (left,) = places(tmp_path)
    assert left.startswith("."), "a hidden folder, which nothing takes for tokens"
    assert len(cache().open(rows_file)) == 64
    assert places(tmp_path) == ["cut-32"], "and which the next one clears away"


def test_without_locks_the_first_one_wins(cache, rows_file, monkeypatch, tmp_path):
    def refuse(*_, **__):
        raise NotImplementedError

    monkeypatch.setattr(building.FileLock, "acquire", refuse)
    ours = cache()
    original = ours._write

    def overtaken(path, folder):
        original(path, folder)
        ours._write = original
        assert len(ours.open(path)) == 64

    ours._write = overtaken
    assert len(ours.open(rows_file)) == 64
    assert places(tmp_path) == ["cut-32"]


def test_a_file_that_changed_is_read_again(cache, make_rows, write_rows, tmp_path):
    path = write_rows(tmp_path / "rows.jsonl", make_rows(5))
    assert len(cache().open(path)) == 5
    status = path.stat()
    write_rows(path, make_rows(6))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert len(cache().open(path)) == 6
    notes = [json.loads(note.read_text()) for note in (tmp_path / "cache/digests").iterdir()]
    assert [note["path"] for note in notes] == [str(path)]


def test_progress_is_reported(cache, rows_file):
    seen = []
    cache(report=lambda *fields: seen.append(fields)).open(rows_file)
    size = rows_file.stat().st_size
    assert seen[-1] == (rows_file, size, size)

"""Vectors in a memory-mapped file: resumed after a kill, refused when texts or model changed."""

from __future__ import annotations

import errno
import fcntl
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from lmk_core import Embedder
from lmk_core.embedder import VectorFileError, files
from lmk_core.layouts.sentences import SentencexSplitter

LENGTHS = [5, 40, 0, 12, 60, 3, 8, 9, 30, 31, 32]


@pytest.fixture
def embedder(tiny_model_folder):
    return Embedder.from_pretrained(tiny_model_folder, "landmark", 8, max_length=64)


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(files, "SHARD_TEXTS", 4)


def record_of(path):
    return json.loads(path.with_name(path.name + ".json").read_text())


def test_a_file_holds_what_encode_gives(embedder, texts_of, tmp_path, small_shards):
    texts = texts_of(LENGTHS)
    wanted = embedder.encode(texts, dim=8)
    path = tmp_path / "new" / "vectors.npy"
    found = embedder.encode_to_file((text for text in texts), path, dim=8)
    assert isinstance(found, np.memmap)
    assert not found.flags.writeable
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    np.testing.assert_array_equal(np.load(path), found)
    assert [shard["rows"] for shard in record_of(path)["shards"]] == [4, 4, 3]
    assert sorted(file.name for file in path.parent.iterdir()) == ["vectors.npy", "vectors.npy.json"]


def test_finished_shards_are_not_done_again(embedder, texts_of, tmp_path, small_shards, monkeypatch):
    texts = texts_of(LENGTHS)
    path = tmp_path / "vectors.npy"

    def broken():
        yield from texts[:9]
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        embedder.encode_to_file(broken(), path)
    assert not path.exists()
    assert [shard["rows"] for shard in record_of(path)["shards"]] == [4, 4]
    # A shard of which only a part was written is cut off.
    with (tmp_path / ".vectors.npy.partial").open("ab") as stream:
        stream.write(b"half a row")
    seen, real = [], embedder.tokenizer.tokenize

    def tokenize(part, **options):
        seen.extend(part)
        return real(part, **options)

    monkeypatch.setattr(embedder.tokenizer, "tokenize", tokenize)
    found = embedder.encode_to_file(iter(texts), path)
    assert sorted(seen) == sorted(texts[8:])
    np.testing.assert_allclose(found, embedder.encode(texts), atol=1e-5)
    seen.clear()
    np.testing.assert_array_equal(embedder.encode_to_file(texts, path), found)
    assert seen == []


def test_changes_are_refused(embedder, texts_of, tmp_path, small_shards):
    texts = texts_of(LENGTHS)
    path = tmp_path / "vectors.npy"
    embedder.encode_to_file(texts, path)
    before = path.read_bytes()
    changed = [*texts[:5], "another", *texts[6:]]
    for other, message in [
        (changed, r"the texts have changed: rows 4 to 7 are not"),
        (texts[:8], r"rows 8 to 10 are not"),
        ([*texts, "more"], r"the finished file has 11 rows, and there are more"),
    ]:
        with pytest.raises(VectorFileError, match=rf"vectors\.npy\.json: .*{message}"):
            embedder.encode_to_file(other, path)
    for options, message in [
        ({"max_length": 32}, "max_length: 64 then, 32 now"),
        ({"dim": 8}, "dim: 32 then, 8 now"),
        ({"prompt": "query: "}, "prompt: None then, 'query: ' now"),
        ({"bf16": True}, "bf16: False then, True now"),
    ]:
        with pytest.raises(VectorFileError, match=rf"of another encoding \({message}\)"):
            embedder.encode_to_file(texts, path, **options)
    with pytest.raises(VectorFileError, match=r"pooling: .*'granularity': 8.* then, .*'granularity': 4.* now"):
        embedder.with_granularity(4).encode_to_file(texts, path)
    with torch.no_grad():
        next(embedder.module.parameters())[7] += 1
    with pytest.raises(VectorFileError, match="model: "):
        embedder.encode_to_file(texts, path)
    assert path.read_bytes() == before


def test_what_decides_a_vector_is_part_of_the_record(embedder, tiny_model_folder, tmp_path):
    """Special tokens, configuration and sentence splitter do; how somebody's batch was padded does not."""
    path, texts = tmp_path / "vectors.npy", ["the river", "a stone"]
    embedder.encode_to_file(texts, path)
    hf_tokenizer = embedder.tokenizer.hf_tokenizer
    hf_tokenizer(texts, padding=True, truncation=True, max_length=16)
    assert embedder.encode_to_file(texts, path).shape == (2, 32)
    hf_tokenizer.sep_token = hf_tokenizer.convert_ids_to_tokens(20)
    with pytest.raises(VectorFileError, match="model: "):
        embedder.encode_to_file(texts, path)
    other = Embedder.from_pretrained(tiny_model_folder, "landmark", 8, max_length=64)
    assert other.encode_to_file(texts, path).shape == (2, 32)
    other.module.encoder.config.local_attention = 4
    with pytest.raises(VectorFileError, match="model: "):
        other.encode_to_file(texts, path)
    english, german = (
        Embedder.from_pretrained(
            tiny_model_folder, "landmark", "sentence", max_length=64, sentence_splitter=SentencexSplitter(language)
        )
        for language in ("en", "de")
    )
    english.encode_to_file(texts, tmp_path / "sentences.npy")
    with pytest.raises(VectorFileError, match="sentence_splitter: 'sentencex:en' then, 'sentencex:de' now"):
        german.encode_to_file(texts, tmp_path / "sentences.npy")


def test_a_finished_file_that_is_another_by_now(embedder, tmp_path):
    path, texts = tmp_path / "vectors.npy", ["the river", "a stone"]
    vectors = np.array(embedder.encode_to_file(texts, path))
    np.save(path, vectors.astype(np.float64))
    with pytest.raises(VectorFileError, match=r"vectors\.npy: holds float64 \(2, 32\), and .* says float32 \(2, 32\)"):
        embedder.encode_to_file(texts, path)
    path.write_bytes(b"junk")
    with pytest.raises(VectorFileError, match=r"vectors\.npy: is no file of vectors"):
        embedder.encode_to_file(texts, path)
    path.unlink()
    with pytest.raises(VectorFileError, match=r"vectors\.npy: is not there, and .*vectors\.npy\.json says"):
        embedder.encode_to_file(texts, path)
    path.with_name("vectors.npy.json").unlink()
    np.testing.assert_array_equal(embedder.encode_to_file(texts, path), vectors)
    path.with_name("vectors.npy.json").write_text('{"settings": "x", "shards": [], "done": true}')
    with pytest.raises(VectorFileError, match="is no record of an encoding"):
        embedder.encode_to_file(texts, path)


def test_where_there_are_no_locks(embedder, tmp_path, monkeypatch):
    """File systems of clusters may know none, and Windows has no such module."""

    def fails(number):
        def flock(*_):
            raise OSError(number, os.strerror(number))

        return flock

    monkeypatch.setattr(fcntl, "flock", fails(errno.ENOSYS))
    assert embedder.encode_to_file(["a"], tmp_path / "one.npy").shape == (1, 32)
    monkeypatch.setattr(fcntl, "flock", fails(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        embedder.encode_to_file(["a"], tmp_path / "two.npy")
    monkeypatch.setitem(sys.modules, "fcntl", None)
    spec = importlib.util.spec_from_file_location("files_elsewhere", files.__file__)
    elsewhere = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(elsewhere)
    store = elsewhere.VectorFile(tmp_path / "three.npy", 2, {})
    with store.writing() as add:
        add(["a"], np.ones((1, 2), dtype=np.float32))
        assert store.finish().tolist() == [[1, 1]]


def test_files_of_others(embedder, tmp_path):
    path = tmp_path / "thesis.npy"
    path.write_bytes(b"ten years of work")
    with pytest.raises(VectorFileError, match=r"thesis\.npy: exists, and there is no thesis\.npy\.json"):
        embedder.encode_to_file(["a"], path)
    assert path.read_bytes() == b"ten years of work"
    with pytest.raises(VectorFileError, match=r"ends in \.npy"):
        embedder.encode_to_file(["a"], tmp_path / "vectors.bin")
    (tmp_path / "bad.npy.json").write_text("{")
    with pytest.raises(VectorFileError, match=r"bad\.npy\.json: is no record"):
        embedder.encode_to_file(["a"], tmp_path / "bad.npy")
    with pytest.raises(TypeError, match="one for all texts"):
        embedder.encode_to_file(["a"], tmp_path / "new.npy", prompt=["q"])
    with pytest.raises(TypeError, match="expected many strings, found one str"):
        embedder.encode_to_file("a text", tmp_path / "new.npy")
    for bad in (3, ("a", 3)):
        with pytest.raises(TypeError, match=r"texts\[1\]: expected a string"):
            embedder.encode_to_file(iter(["a", bad]), tmp_path / "new.npy")


def test_no_text_at_all(embedder, tmp_path):
    found = embedder.encode_to_file([], tmp_path / "none.npy")
    assert found.shape == (0, 32)
    assert embedder.encode_to_file([], tmp_path / "none.npy").shape == (0, 32)


def test_two_writers(embedder, tmp_path, texts_of, small_shards):
    texts = texts_of(LENGTHS)
    path = tmp_path / "vectors.npy"

    def meanwhile():
        yield from texts[:6]
        with pytest.raises(VectorFileError, match="another process is writing it"):
            embedder.encode_to_file(texts, path)
        yield from texts[6:]

    np.testing.assert_allclose(embedder.encode_to_file(meanwhile(), path), embedder.encode(texts), atol=1e-5)


SCRIPT = """
import sys, time
from lmk_core import Embedder
from lmk_core.embedder import files
files.SHARD_TEXTS = 4
def texts():
    for number in range(40):
        time.sleep(float(sys.argv[3]))
        print(number, flush=True)
        yield "the river " * (number % 7) + str(number)
Embedder.from_pretrained(sys.argv[1], "landmark", 8).encode_to_file(texts(), sys.argv[2])
"""


def test_killed_and_started_again(tiny_model_folder, tmp_path):
    path = tmp_path / "vectors.npy"
    command = [sys.executable, "-c", SCRIPT, str(tiny_model_folder), str(path)]
    process = subprocess.Popen([*command, "0.05"], stdout=subprocess.PIPE, text=True)
    record = path.with_name("vectors.npy.json")
    deadline = time.monotonic() + 120
    while not (record.exists() and len(record_of(path)["shards"]) >= 2):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not path.exists()
    finished = record_of(path)["shards"]
    assert 2 <= len(finished) < 10
    kept = (tmp_path / ".vectors.npy.partial").read_bytes()[: 128 + 4 * len(finished) * 32 * 4]
    subprocess.run([*command, "0"], check=True, stdout=subprocess.PIPE)
    assert record_of(path)["shards"][: len(finished)] == finished
    assert path.read_bytes()[128 : len(kept)] == kept[128:]
    texts = ["the river " * (number % 7) + str(number) for number in range(40)]
    wanted = Embedder.from_pretrained(tiny_model_folder, "landmark", 8).encode(texts)
    np.testing.assert_allclose(np.load(path), wanted, atol=1e-5)

"""Files of a model on the Hub: there, known to be absent, or not known."""

from __future__ import annotations

import shutil

import huggingface_hub
import pytest
from huggingface_hub import constants
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

from lmk_core import Embedder
from lmk_core.encoders import EncoderError
from lmk_core.hub.config import CONFIG_FILE
from lmk_core.hub.find import find_file

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cached(tiny_model_folder, tmp_path, monkeypatch):
    """The model ``org/tiny`` in a cache of its own, as a download of all of it leaves it; it has no lmk_config.json."""
    place = tmp_path / "cache" / "models--org--tiny"
    shutil.copytree(tiny_model_folder, place / "snapshots" / COMMIT)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return place


def answering(monkeypatch, error):
    """Online, where every question ends like this."""

    def ask(*_, **__):
        raise error

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", ask)


def test_offline_a_cached_model_is_what_is_cached_of_it(cached):
    assert find_file("org/tiny", "config.json") == cached / "snapshots" / COMMIT / "config.json"
    assert find_file("org/tiny", CONFIG_FILE) is None
    assert find_file("org/tiny", CONFIG_FILE, COMMIT) is None
    assert Embedder.from_pretrained("org/tiny", "mean", device="cpu").pooling.kind == "mean"


@pytest.mark.parametrize(("name", "revision"), [("org/other", None), ("org/tiny", "v2")])
def test_offline_a_model_that_is_not_cached_is_none(cached, name, revision):
    assert find_file(name, CONFIG_FILE, revision) is None
    with pytest.raises(EncoderError, match=f"{name}: neither a folder here nor a model"):
        Embedder.from_pretrained(name, "mean", revision=revision)


def test_a_name_that_the_hub_cannot_have_is_an_error_of_the_disk(cached):
    with pytest.raises(OSError, match=r"org/a/b: no folder here, and no model of the Hub"):
        find_file("org/a/b", CONFIG_FILE)


def test_a_hub_that_does_not_answer_is_no_word_of_the_file(cached, monkeypatch):
    """Else a saved model would be read with other settings than its own, without a word."""
    answering(monkeypatch, LocalEntryNotFoundError("An error happened while trying to locate the file"))
    with pytest.raises(OSError, match=rf"org/tiny: whether it has {CONFIG_FILE} .*HF_HUB_OFFLINE=1.*An error happened"):
        find_file("org/tiny", CONFIG_FILE)
    with pytest.raises(OSError, match=CONFIG_FILE):
        Embedder.from_pretrained("org/tiny", "mean", device="cpu")
    absent = cached / ".no_exist" / COMMIT
    absent.mkdir(parents=True)
    (absent / CONFIG_FILE).touch()
    assert find_file("org/tiny", CONFIG_FILE) is None, "the hub had said so before"


def test_a_hub_that_says_no_is_believed(cached, monkeypatch):
    answering(monkeypatch, EntryNotFoundError("404"))
    assert find_file("org/tiny", CONFIG_FILE) is None


def test_a_folder_needs_no_hub(tiny_model_folder, monkeypatch):
    answering(monkeypatch, AssertionError("asked"))
    assert find_file(str(tiny_model_folder), CONFIG_FILE) is None
    assert find_file(str(tiny_model_folder), "config.json") == tiny_model_folder / "config.json"

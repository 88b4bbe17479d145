"""The model card: a header that a hub can read, the right way to load, and nothing that breaks out of its place."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import yaml
from sentence_transformers import SentenceTransformer

from lmk_core import Embedder, PoolingConfig
from lmk_core.hub.card import base_model_of
from lmk_core.hub.config import SavedModelError


def parts(folder):
    """The header, and the text behind it."""
    _, header, text = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(header), text


def fences(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def embedder(tiny_model_folder):
    return Embedder.from_pretrained(tiny_model_folder, "landmark", (8, 16), max_length=60)


def test_a_card(embedder, tmp_path):
    training = {"optim": {"steps": 3}, "pooling": {"kind": "landmark"}}
    embedder.prompts = {"query": "q: ", "document": ""}
    card = {"name": "My model", "license": "mit", "base_model": "org/base", "language": ["en"], "tags": ["mine"]}
    folder = embedder.save_pretrained(tmp_path / "model", training=training, card=card)
    header, text = parts(folder)
    common = ["sentence-transformers", "sentence-similarity", "feature-extraction", "lmk-core", "landmark-pooling"]
    assert header == {
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "license": "mit",
        "base_model": "org/base",
        "language": ["en"],
        "tags": [*common, "custom_code", "mine"],
    }
    assert text.startswith("\n# My model\n")
    assert [json.loads(block) for block in fences(text, "json")] == [
        embedder.pooling.to_dict(),
        {"query": "q: "},
        training,
    ]
    assert "vectors of 32 float32 numbers" in text
    assert "at most 60 tokens" in text


@pytest.mark.parametrize("pooling", [PoolingConfig("mean"), PoolingConfig("mean_at_k")])
def test_the_ways_to_load_work(tiny_model_folder, tmp_path, pooling):
    embedder = Embedder.from_pretrained(tiny_model_folder, pooling, max_length=60)
    folder = embedder.save_pretrained(tmp_path / "model")
    header, text = parts(folder)
    assert ("license" in header, "base_model" in header) == (False, False)
    assert ("custom_code" in header["tags"]) == (pooling.kind != "mean") == ("trust_remote_code=True" in text)
    assert "## Training" not in text
    blocks = fences(text, "python")
    assert len(blocks) == 2
    for block in blocks:
        space = {}
        exec(block.replace("path-or-name-of-this-model", str(folder)), space)
        np.testing.assert_allclose(space["vectors"], embedder.encode(["a text", "another"]), atol=1e-5)


def test_nothing_breaks_out(embedder, tmp_path):
    """Names, licences and configurations come from files of others."""
    evil = "a\n---\nlicense: mit\n# B <script>alert(1)</script> `x` [y](z) *b*\n```\n\u2028\x85```"
    training = {"data": {"train": [evil]}, evil: 1}
    card = {"name": evil, "license": evil, "base_model": evil, "tags": [evil], "language": evil}
    header, text = parts(embedder.save_pretrained(tmp_path / "model", training=training, card=card))
    assert (header["license"], header["base_model"], header["tags"][-1]) == (evil, evil, evil)
    assert "<script>" not in text.split("## Pooling")[0]
    heading = text.splitlines()[1]
    assert heading.startswith(
        "# a --- license: mit \\# B &lt;script&gt;alert(1)&lt;/script&gt; \\`x\\` \\[y\\](z) \\*b\\*"
    )
    assert [json.loads(block) for block in fences(text, "json")] == [embedder.pooling.to_dict(), training]
    assert len(re.findall("^```", text, flags=re.MULTILINE)) == 8
    assert len(re.findall("^# ", text, flags=re.MULTILINE)) == 3  # the heading, and two comments in code


def test_mistakes(embedder, tmp_path):
    with pytest.raises(SavedModelError, match="card: unknown key 'licence'; valid: name, library_name"):
        embedder.save_pretrained(tmp_path / "model", card={"licence": "mit"})
    with pytest.raises(SavedModelError, match=r"training: .*not JSON serializable; expected plain JSON values"):
        embedder.save_pretrained(tmp_path / "model", training={"path": tmp_path})
    with pytest.raises(SavedModelError, match=r"training: .*nan"):
        embedder.save_pretrained(tmp_path / "model", training={"loss": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_base_model(tiny_model_folder, tmp_path, monkeypatch):
    assert base_model_of("answerdotai/ModernBERT-base") == "answerdotai/ModernBERT-base"
    for name in (None, "", str(tiny_model_folder), "../model", "model", "a/b/c", "~/model"):
        assert base_model_of(name) is None
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out/model").mkdir(parents=True)
    assert base_model_of("out/model") is None


def test_sentence_transformers_keeps_the_card(embedder, tmp_path):
    """What it has not trained it saves with the card that it found."""
    folder = embedder.save_pretrained(tmp_path / "model", card={"name": "My model"})
    model = SentenceTransformer(str(folder), trust_remote_code=True)
    model.save_pretrained(str(tmp_path / "again"))
    assert (tmp_path / "again/README.md").read_text() == (folder / "README.md").read_text()

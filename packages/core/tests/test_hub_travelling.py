"""The file that travels with a saved model: the same code as here, and all that it needs."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lmk_core
from lmk_core import Embedder, PoolingConfig
from lmk_core.hub import travelling, travelling_source
from lmk_core.hub.travelling import TravellingSourceError

# Runs where neither this package nor jaxtyping can be found, nor a splitter of sentences.
PROGRAM = """
import sys
class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("lmk_core", "jaxtyping", "beartype"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refused())
from pathlib import Path
import numpy as np
from sentence_transformers import SentenceTransformer
for folder in map(Path, sys.argv[1:]):
    model = SentenceTransformer(str(folder), trust_remote_code=True)
    texts = (folder / "texts.txt").read_text().split("|")
    model.save_pretrained(str(folder / "again"))
    again = SentenceTransformer(str(folder / "again"), trust_remote_code=True)
    np.save(folder / "found.npy", np.stack([model.encode(texts), again.encode(texts)]))
assert "lmk_core" not in sys.modules
"""


def definitions(source):
    """Every function and class at the top of a module, by name, as a tree without what is only formatting."""
    nodes = [node for node in ast.parse(source).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return {plain(node.name): plain(ast.dump(node)) for node in nodes}


def plain(text):
    """Without what was added to names that are not the only ones."""
    return re.sub(r"\b(_[A-Za-z_]+?)__[a-z_]+\b", r"\1", text)


def test_it_is_the_same_code():
    source = travelling_source()
    assert source == travelling_source.__wrapped__()
    own = {}
    for file in Path(lmk_core.__file__).parent.rglob("*.py"):
        for name, tree in definitions(file.read_text(encoding="utf-8")).items():
            own.setdefault(name, []).append(tree)
    found = definitions(source)
    assert {"LayoutTransformer", "LayoutPooling", "PoolingTokenizer", "PoolingConfig", "LatentAttention"} <= set(found)
    assert [name for name, tree in found.items() if tree not in own.get(name, [])] == []
    assert "lmk_core" not in {name.split(".")[0] for name in imported(source)}
    assert "jaxtyping" not in imported(source)
    assert travelling_source().count("from __future__ import annotations") == 1


def imported(source):
    modules = [node.module or "" for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    return modules + [
        alias.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import) for alias in node.names
    ]


def test_it_runs_where_the_package_is_not(tiny_model_folder, texts_of, tmp_path):
    texts = ["", *texts_of([1, 30, 120]), "the [SEP] river </s>"]
    expected = {}
    for pooling in (
        PoolingConfig("landmark", granularity=(8, 16)),
        PoolingConfig("multi_cls", every=8),
        PoolingConfig("mean_at_k", k=8),
        PoolingConfig("latent_attention", num_latents=6),
        PoolingConfig("landmark", granularity="sentence"),
    ):
        embedder = Embedder.from_pretrained(tiny_model_folder, pooling, max_length=60)
        folder = embedder.save_pretrained(tmp_path / f"{len(expected)}")
        assert (folder / "modeling_lmk.py").read_text(encoding="utf-8") == travelling_source()
        (folder / "texts.txt").write_text("|".join(texts))
        expected[folder] = embedder.encode(texts)
    subprocess.run([sys.executable, "-c", PROGRAM, *map(str, expected)], check=True, timeout=300)
    for folder, vectors in expected.items():
        for found in np.load(folder / "found.npy"):
            np.testing.assert_allclose(found, vectors, atol=1e-5)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a": "import lmk_core.b"}, "a:1: import names of lmk_core with from"),
        ({"a": "from .b import x"}, "a:1: a relative import"),
        ({"a": "from lmk_core.b import x as y", "b": "x = 1"}, "a:1: a name of lmk_core under another name"),
        ({"a": "from lmk_core.b import x\ny = 1", "b": "x = 1\ny = 2"}, "y is of lmk_core.b and of lmk_core.a"),
        ({"a": "from lmk_core.b import x\nos = 1", "b": "import os\nx = 1"}, "os is of os and of lmk_core.a"),
        ({"a": "from lmk_core.b import x\n_y = 1\nf(_y=_y)", "b": "x = 1\n_y = 2"}, "_y is defined twice"),
        ({"a": "from lmk_core.b import x", "b": "y = 1"}, "b neither defines nor imports x"),
        ({"a": "from lmk_core.nowhere import x"}, "the source of lmk_core.nowhere is not here"),
    ],
)
def test_source_that_cannot_be_joined(monkeypatch, files, message):
    real = travelling._source

    def source(module):
        return files.get(module.removeprefix("lmk_core.")) or real(module)

    monkeypatch.setattr(travelling, "_source", source)
    monkeypatch.setattr(travelling, "_ROOT", "lmk_core.a")
    with pytest.raises(TravellingSourceError, match=message):
        travelling_source.__wrapped__()


def test_private_names_of_several_modules(monkeypatch):
    files = {
        "a": """'First.'
from lmk_core.b import x

class _Kind: pass

def _y(é: str = "ü") -> str:
    ö = "ä"; return ö + é + (_y.__name__ if é else "")

z = [_y(), x(), _Kind.__name__]""",
        "b": "'Second.'\nclass _Kind: pass\ndef _y():\n    return 2\ndef x():\n    return _y()",
    }
    monkeypatch.setattr(travelling, "_source", lambda module: files[module.removeprefix("lmk_core.")])
    monkeypatch.setattr(travelling, "_ROOT", "lmk_core.a")
    space = {}
    exec(travelling_source.__wrapped__(), space)
    assert space["z"] == ["äü_y__a", 2, "_Kind__a"]
    assert plain("_y__a Call(_Kind__a) __init__ _y") == "_y Call(_Kind) __init__ _y"


def test_a_source_is_joined_in_order(monkeypatch):
    files = {
        "a": """'First.'\nimport os\nfrom lmk_core.c import x\n
def f():
    from lmk_core.b import y
    return x + y""",
        "b": '"""Second."""\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from lmk_core.c import x\ny = 1',
        "c": "from lmk_core.d import x",
        "d": '"""Third."""\nfrom math import (\n    pi,\n)\nx = pi  # stays',
    }
    monkeypatch.setattr(travelling, "_source", lambda module: files[module.removeprefix("lmk_core.")])
    monkeypatch.setattr(travelling, "_ROOT", "lmk_core.a")
    source = travelling_source.__wrapped__()
    assert source.index("import os") < source.index("x = pi  # stays") < source.index("y = 1") < source.index("def f")
    space = {}
    exec(source, space)
    assert space["f"]() == pytest.approx(4.14159265)
    assert importlib.import_module("math").pi == space["x"]

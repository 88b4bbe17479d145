"""Real sets through our evaluation and through Sentence Transformers with scikit-learn: the same scores.

With a model of random weights; `acceptance/pretrained_encoders.py` does the same with pretrained ones.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from lmk_core import Embedder

ACCEPTANCE = Path(__file__).parent / "acceptance"


def script(name: str) -> ModuleType:
    """A script of acceptance, as a module."""
    spec = importlib.util.spec_from_file_location(f"acceptance_{name}", ACCEPTANCE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved random encoder that Sentence Transformers opens too."""
    folder = tmp_path_factory.mktemp("random")
    plain = script("million_passages").write_model(folder / "plain")
    return Embedder.from_pretrained(plain, "mean", max_length=512).save_pretrained(folder / "model")


@pytest.mark.parametrize(
    ("name", "languages", "documents", "prompts", "queries"),
    [("xquad", "en|zh", 30, True, 100), ("manpages-long", "ja", None, True, 20), ("wiki-long-en", None, 20, False, 20)],
)
def test_scores_are_those_of_sentence_transformers_and_another_measure(
    random_model: Path,
    shared: Path,
    tmp_path: Path,
    name: str,
    languages: str | None,
    documents: int | None,
    prompts: bool,
    queries: int,
) -> None:
    pretrained = script("pretrained_encoders")
    model = "e5" if prompts else "minilm"  # e5 is the one with prompts
    check = pretrained.Check(name, model, name, languages=languages, documents=documents, max_length=96)
    found = pretrained.compare(check, random_model, shared / "data" / "ir", tmp_path)
    assert found.queries >= queries
    assert 0 < found.ours < 1
    assert found.ours == pytest.approx(found.sklearn, abs=1e-5)
    assert found.largest < 1e-5, "of any query"
    assert found.equal()

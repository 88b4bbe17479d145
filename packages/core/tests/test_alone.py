"""The wheel alone: with what it declares and nothing else, it imports and encodes.

The environment is a folder of links to the installed files of the declared dependencies, and of theirs, in a Python
that looks nowhere else. So it needs no network and no second copy of torch, and what is not declared is not there.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import PathDistribution, distribution
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

from lmk_core import Embedder

PACKAGE = Path(__file__).parent.parent
START = "import sys; sys.path[:] = [path for path in sys.argv.pop(1).split('|') if path]; del sys.argv[0]\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built by the project's own build backend from a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=PACKAGE, check=True, capture_output=True, timeout=120)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def alone(wheel, tmp_path_factory):
    """The wheel's files and, as links, those of every distribution that it declares, directly or not."""
    folder = tmp_path_factory.mktemp("alone")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    (own,) = folder.glob("*.dist-info")
    done, waiting = set(), [(one, "") for one in PathDistribution(own).requires or []]
    while waiting:
        text, extra = waiting.pop()
        requirement = Requirement(text)
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": extra})
        for own_extra in ("", *requirement.extras) if wanted else ():
            if (requirement.name, own_extra) not in done:
                done.add((requirement.name, own_extra))
                found = distribution(requirement.name)
                waiting += [(one, own_extra) for one in found.requires or []]
                link(found, folder)
    names = {name for name, _ in done}
    assert {"torch", "transformers", "numpy"} <= names
    assert not {"sentence-transformers", "datasets", "scipy"} & names
    return folder


def link(found, folder):
    """Link each top folder and file of a distribution."""
    for top in {Path(file).parts[0] for file in found.files or [] if ".." not in Path(file).parts}:
        target = folder / top
        if top != "__pycache__" and not target.exists():
            target.symlink_to(Path(str(found.locate_file(top))))


def run(folder, program, *arguments):
    """Run a program that finds the standard library and ``folder``, and nothing else."""
    paths = sysconfig.get_paths()
    path = "|".join(
        [*(paths[name] for name in ("stdlib", "platstdlib")), sysconfig.get_config_var("DESTSHARED"), str(folder)]
    )
    command = [sys.executable, "-I", "-S", "-c", START + program, path, *arguments]
    environment = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)


ENCODE = """
import lmk_core, numpy as np
assert "torch" not in sys.modules
folder, model, vectors = sys.argv
assert lmk_core.__file__.startswith(folder)
embedder = lmk_core.Embedder.from_pretrained(model)
np.save(vectors, embedder.encode(["a text of some words", ""]))
assert embedder.encode_landmarks(["a text of some words"])[0].spans
embedder.save_pretrained(vectors + "-model")
"""


def test_it_imports_and_encodes(alone, tiny_model_folder, tmp_path):
    """And writes a model for Sentence Transformers, which is not there."""
    embedder = Embedder.from_pretrained(tiny_model_folder, "landmark", 2)
    model, vectors = embedder.save_pretrained(tmp_path / "model"), tmp_path / "vectors.npy"
    done = run(alone, ENCODE, str(alone), str(model), str(vectors))
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(vectors), embedder.encode(["a text of some words", ""]), atol=1e-6)
    written = Path(f"{vectors}-model")
    assert (written / "modeling_lmk.py").read_bytes() == (model / "modeling_lmk.py").read_bytes()
    assert (written / "modules.json").read_bytes() == (model / "modules.json").read_bytes()


def test_every_module_imports(alone):
    """All but the modules for Sentence Transformers, which is an extra."""
    package = alone / "lmk_core"
    names = [".".join(file.relative_to(alone).with_suffix("").parts) for file in package.rglob("*.py")]
    names = sorted(name.removesuffix(".__init__") for name in names if name != "lmk_core.hub.modules")
    assert len(names) > 25
    program = f"from importlib import import_module\nfor name in {names!r}:\n    import_module(name)\n"
    done = run(alone, program)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["sentence_transformers", "datasets", "pytest", "beartype", "sentencex"])
def test_what_is_not_declared_is_not_there(alone, name):
    """So the tests above would fail if the package imported it."""
    done = run(alone, f"import {name}")
    assert f"No module named '{name}'" in done.stderr


def test_the_convenience_says_what_is_missing(alone, tmp_path):
    done = run(alone, "import lmk_core\nlmk_core.load_sentence_transformer('x')")
    assert "ImportError: load_sentence_transformer needs Sentence Transformers: pip install" in done.stderr


def test_the_wheel_holds_the_package_and_its_types(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
    assert "lmk_core/py.typed" in names
    assert {name.split("/")[0] for name in names} == {"lmk_core", names[-1].split("/")[0]}
    assert "Provides-Extra: sentence-transformers" in metadata
    assert "# lmk-core" in metadata

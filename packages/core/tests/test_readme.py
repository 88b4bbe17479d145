"""The README's recipes, run as they stand there, in a folder where a small model has ModernBERT's name."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def recipes():
    """By heading, in order: the examples of a section, which may go on from the ones before."""
    text = README.read_text(encoding="utf-8")
    sections = re.split(r"^### (?=\d\. )", text, flags=re.MULTILINE)[1:]
    found = {}
    for section in sections:
        heading, _, body = section.partition("\n")
        blocks = re.findall(r"^```python\n(.*?)^```$", body, flags=re.MULTILINE | re.DOTALL)
        found[heading] = "\n".join(block for block in blocks if block.startswith(">>>"))
    return found


def test_the_five_recipes_run(tiny_model_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("answerdotai").mkdir()
    Path("answerdotai/ModernBERT-base").symlink_to(tiny_model_folder)
    found = recipes()
    assert len(found) == 5
    names = {}
    for heading, source in found.items():
        test = doctest.DocTestParser().get_doctest(source, names, heading, str(README), 0)
        assert len(test.examples) >= 4, heading
        said = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        runner.run(test, out=said.append, clear_globs=False)
        assert runner.summarize(verbose=False).failed == 0, "".join(said)
        names |= test.globs

"""Reading functions: docstrings go exactly, everything else stays."""

from __future__ import annotations

import pytest

from lmk_experiments.builders.pairs import Pair, digest, drop_copies, find_pairs, split_of, training_rows
from lmk_experiments.builders.retrieval import quarter_of
from lmk_experiments.builders.sources import Function, Source, first_paragraph, read_module, read_source

MODULE = '''
"""Of the module."""
import os

@decorated
def plain(a,
          b=1):  # a comment
    """First paragraph
    on two lines.

    More: def inside(): "text"
    """  # after
    # why

    text = """not a docstring"""
    return text

class Thing:
    """Of the class."""

    async def method(self):
        r"single \\d"
        def inner():
            """Of inner."""
            return 1
        class Local:
            'Of Local.'
            x = 1
        return inner, Local

    @property
    def value(self):
        return "no docstring"

    @value.setter
    def value(self, new):
        self._value = new

def shared(): "On the line of the signature."; return 1
def followed():
    "Shares its line with code."; return 1
def form_feed():
    """A docstring."""
    \x0c
    return "é", 2
'''


@pytest.fixture
def functions(tmp_path) -> dict[str, Function]:
    path = tmp_path / "module.py"
    path.write_text(MODULE, encoding="utf-8")
    return {function.name: function for function in read_module(path, "package.module")}


def test_docstrings_go_and_code_and_comments_stay(functions):
    assert list(functions) == ["plain", "Thing.method", "Thing.value", "form_feed"]
    assert functions["plain"].id == "package.module:plain"
    assert functions["plain"].code == (
        'def plain(a,\n          b=1):  # a comment\n    # why\n    text = """not a docstring"""\n    return text'
    )
    assert functions["Thing.method"].code == (
        "async def method(self):\n    def inner():\n        return 1\n"
        "    class Local:\n        x = 1\n    return inner, Local"
    )
    assert functions["Thing.method"].docstring == r"single \d"
    assert functions["Thing.value"].code == 'def value(self):\n    return "no docstring"'
    assert functions["Thing.value"].docstring is None
    assert functions["form_feed"].code == 'def form_feed():\n    return "é", 2'


def test_files_that_do_not_parse_have_no_functions(tmp_path):
    for content in (b"def {{ name }}(): pass", b"def f(): '\xff'", b"\x00def f(): pass", b""):
        path = tmp_path / "template.py"
        path.write_bytes(content)
        assert list(read_module(path, "template")) == []


def test_a_package_that_is_not_installed_has_neither_version_nor_functions():
    source = Source("no_such_package_here", "no-such-distribution-here")
    assert source.version() is None
    assert list(read_source(source)) == []


def test_tests_and_left_out_parts_are_skipped(tmp_path, monkeypatch):
    code = 'def f():\n    """A docstring."""\n    return 1\n'
    for name in ("__init__", "b", "a", "test_a", "a_test", "tests/c", "old/d", "new/__init__", "new/e"):
        path = tmp_path / "made_package" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    found = [function.module for function in read_source(Source("made_package", skip=("old",)))]
    assert found == ["made_package", "made_package.a", "made_package.b", "made_package.new", "made_package.new.e"]
    assert [function.module for function in read_source(Source("made_package", only=("old",)))] == [
        "made_package.old.d"
    ]


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("One line.", "One line."),
        ("\n    Two\n    lines.\n\n    More.", "Two lines."),
        ("read(path, n=1) -> bytes\n\nRead the file.", "Read the file."),
        (
            "Take :class:`~a.b.Frame` and :meth:`the text <a.b>`, `x` and ``y``.",
            "Take a.b.Frame and the text, x and y.",
        ),
        ("Do it.\n:param x: what\n", "Do it."),
        ("Do it.\nArgs:\n    x: what", "Do it."),
        ("Parameters\n----------\nx : int", ""),
        (">>> f(1)\n2\n\nThen the text.", "Then the text."),
        ("", ""),
    ],
)
def test_first_paragraph(docstring, expected):
    assert first_paragraph(docstring) == expected


def function(name: str, docstring: str | None, body: str = "") -> Function:
    body = body or f"    value = compute_the_{name}_of_the_whole_table(table, axis=0, keep=True)\n    return value"
    return Function("m", name, f"def {name}(table):\n{body}", docstring)


def test_pairs_leave_out_generic_short_and_shared_queries():
    good = function("good", "Return the largest value of a table.")
    pairs = find_pairs(
        [
            good,
            function("none", None),
            function("few", "Return the value."),
            function("generic", "See the documentation of the other one."),
            function("shared_a", "Fit the model to the given data."),
            function("shared_b", "Fit the  model to the given data"),
            function("empty", "Return the smallest value of a table.", "    pass"),
            function("symbols", "a -> b <-> c | d & e + 1 2 3 4 5 (6) [7] {8} =~ ^ $ ;"),
        ]
    )
    assert [(pair.query, pair.function) for pair in pairs] == [("Return the largest value of a table.", good)]


def test_only_the_first_of_two_equal_bodies_is_kept_and_short_ones_are_no_copies():
    body = "    return [convert(value) for value in values if value is not None and value.is_valid()] or default"
    first, copy = function("a", "A.", body), function("b", "B.", body.replace("    ", "        "))
    stubs = [function("c", None, "    pass"), function("d", None, "    pass")]
    assert drop_copies([first, copy, *stubs]) == [first, *stubs]


def test_negatives_come_from_the_module_then_the_package_then_anywhere():
    def members(module: str, count: int) -> list[Function]:
        made = [function(f"{module.replace('.', '_')}_{number}", None) for number in range(count)]
        return [Function(module, one.name, one.code, None) for one in made]

    functions = {"a.x": members("a.x", 5), "a.y": members("a.y", 1), "a.z": members("a.z", 2), "b": members("b", 1)}
    pairs = [Pair(f"query {module}", functions[module][0]) for module in functions]
    rows = training_rows(pairs, functions, negatives=3, characters=40)
    assert len(rows) == 4
    for row in rows:
        module = row["query"].removeprefix("query ")
        assert row["pos"] == [functions[module][0].code[:40]]
        assert len(set(row["neg"])) == 3
        assert row["pos"][0] not in row["neg"]
        own = {one.code[:40] for one in functions[module]}
        package = {one.code[:40] for name, group in functions.items() for one in group if name[0] == module[0]}
        assert len(own & set(row["neg"])) == min(3, len(own) - 1)
        assert len(package & set(row["neg"])) == min(3, len(package) - 1)
    assert rows == training_rows(reversed(pairs), dict(reversed(functions.items())), negatives=3, characters=40)


def test_splits_follow_from_the_name_alone():
    names = [f"package.module{number}" for number in range(2000)]
    splits = [split_of(name, validation=0.1, evaluation=0.2) for name in names]
    assert splits == [split_of(name, validation=0.1, evaluation=0.2) for name in names]
    assert 0.17 < splits.count("evaluation") / 2000 < 0.23
    assert 0.08 < splits.count("validation") / 2000 < 0.12
    # A larger share of validation takes modules from training only.
    wider = [split_of(name, validation=0.3, evaluation=0.2) for name in names]
    assert all(a == b for a, b in zip(splits, wider, strict=True) if a != "train")
    assert digest("text") == 0x982D9E3EB996F559


def test_quarters_at_their_edges():
    assert [quarter_of(span, 512) for span in [(0, 10), (118, 138), (127, 129), (250, 262), (502, 512)]] == [
        1,
        2,
        2,
        3,
        4,
    ]

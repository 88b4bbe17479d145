"""Wrong types and odd YAML in a grid file: told with file, line and key, in the words of YAML, each once."""

from __future__ import annotations

import copy
import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from lmk_experiments.configs import ConfigError
from lmk_experiments.grids import load_grid_file, make_plan

GRID: dict[str, Any] = {
    "grid": "g",
    "base": [],
    "seeds": [0],
    "train": [
        {
            "row": "{m}",
            "base": [],
            "model": {"path": "org/one"},
            "data": {"train": ["data:msmarco-passage"]},
            "optim": {"steps": 4, "batch_size": 8, "learning_rate": 0.001},
            "pooling": {"kind": "{m}"},
            "for": {"m": ["cls", "mean"]},
            "when": {},
        },
    ],
    "evaluate": {
        "suites": ["mldr-en"],
        "max_length": 512,
        "views": [
            {"of": "*", "except": [], "when": {}},
            {"of": "cls", "row": "chunks", "pooling": {"kind": "multi_cls"}},
        ],
    },
}
ROW, VIEW = ("train", 0), ("evaluate", "views", 0)


def problems(path: Path, *assignments: str) -> list[Any]:
    with pytest.raises(ConfigError) as caught:
        make_plan(load_grid_file(str(path), assignments), path.parent / "runs")
    return caught.value.problems


def with_value(folder: Path, at: tuple[str | int, ...], value: Any) -> Path:
    grid = copy.deepcopy(GRID)
    holder: Any = grid
    for part in at[:-1]:
        holder = holder[part]
    holder[at[-1]] = value
    (folder / "g.yaml").write_text(yaml.safe_dump(grid, sort_keys=False))
    return folder / "g.yaml"


def test_without_a_mistake_all_is_well(tmp_path: Path) -> None:
    path = with_value(tmp_path, ("title",), "a title")
    plan = make_plan(load_grid_file(str(path)), tmp_path / "runs")
    assert [row.row for row in plan.rows] == ["cls", "mean", "chunks"]


A_MAPPING, A_LIST = "a mapping of keys to values is expected, found ", "a list is expected, found "


@pytest.mark.parametrize(
    ("at", "value", "key", "says"),
    [
        ((*ROW, "for"), "x", "train[0].for", "a mapping such as {g: [32, 64]} is expected, found 'x'"),
        ((*ROW, "for"), [1], "train[0].for", "a mapping such as {g: [32, 64]} is expected, found a list"),
        ((*ROW, "for"), {"m": "cls"}, "train[0].for.m", "a list of values is expected, found 'cls'"),
        ((*ROW, "when"), 3, "train[0].when", "a mapping such as {g: 32} is expected, found 3"),
        ((*ROW, "when"), {"m": "max"}, "train[0].when", "no row is left"),
        ((*ROW, "base"), 3, "train[0].base", "a list of presets and model files is expected, found 3"),
        ((*ROW, "base"), None, "train[0].base", "a list of presets and model files is expected, found null"),
        ((*ROW, "base"), [3], "train[0].base[0]", "the name of a preset or model file is expected, found 3"),
        (("base",), 3, "base", A_LIST + "3"),
        (("base",), None, "base", A_LIST + "null"),
        (("base",), [3], "base[0]", "text is expected, found 3; put it in quotes"),
        (("train",), [3], "train[0]", A_MAPPING + "3"),
        (("train",), [], "train", "at least 1 item is expected, found 0"),
        ((*ROW, "row"), True, "train[0].row", "found true: put it in quotes"),
        ((*ROW, "row"), False, "train[0].row", "found false: put it in quotes"),
        ((*ROW, "row"), None, "train[0].row", "found null: put it in quotes"),
        ((*ROW, "row"), 32, "train[0].row", "found 32: put it in quotes"),
        ((*ROW, "baseline"), None, "train[0].baseline", "true or false is expected, found null"),
        ((*ROW, "model"), 3, "model", A_MAPPING + "3"),
        ((*ROW, "optim", "betas"), [0.9], "optim.betas[1]", "one item more is expected"),
        ((*ROW, "optim", "steps"), "many", "optim.steps", "a whole number is expected, found 'many'"),
        ((*ROW, "optim", "gradient_clip"), "x", "optim.gradient_clip", "a number is expected, found 'x'"),
        ((*ROW, "pooling"), {"kind": "clss"}, "pooling.kind", "'clss' is not a pooling kind"),
        ((*ROW, "pooling"), {"kind": "cls", "k": 3}, "pooling.k", "does not apply to the pooling kind 'cls'"),
        (("evaluate",), None, "evaluate", A_MAPPING + "null"),
        (("evaluate", "max_length"), "long", "evaluate.max_length", "a whole number or " + A_MAPPING + "'long'"),
        (("evaluate", "max_length"), True, "evaluate.max_length", "a whole number or " + A_MAPPING + "true"),
        (("evaluate", "max_length"), "512", "evaluate.max_length", "a whole number or " + A_MAPPING + "'512'"),
        (("evaluate", "max_length"), 1, "evaluate.max_length", "greater than or equal to 2, found 1"),
        (("evaluate", "max_length"), {"default": 9.0}, "evaluate.max_length.default", "a whole number is expected"),
        (("evaluate", "views"), [], "evaluate.views", "no row is left"),
        ((*VIEW, "of"), 3, "evaluate.views[0].of", "text or a list is expected, found 3; put it in quotes"),
        ((*VIEW, "of"), [3], "evaluate.views[0].of[0]", "text is expected, found 3; put it in quotes"),
        ((*VIEW, "of"), [], "evaluate.views[0]", "no row is left"),
        ((*VIEW, "except"), ["*"], "evaluate.views[0]", "no row is left"),
        ((*VIEW, "when"), {"m": []}, "evaluate.views[0]", "no row is left"),
        ((*VIEW, "pooling"), {"kind": "x"}, "evaluate.views[0].pooling.kind", "'x' is not a pooling kind"),
        ((*VIEW, "row"), True, "evaluate.views[0].row", "text is expected, found true; put it in quotes"),
        (("seeds",), [True], "seeds[0]", "a whole number is expected, found true"),
        (("seeds",), [1.0], "seeds[0]", "a whole number is expected, found 1.0"),
        (("seeds",), ["0"], "seeds[0]", "a whole number is expected, found '0'"),
        (("resources",), {"train": {"cpus": 1.5}}, "resources.train.cpus", "a whole number is expected, found 1.5"),
        ((3,), 1, "3", "a key is text, and 3 is not: put it in quotes"),
        ((True,), 1, "true", "a key is text, and true is not: put it in quotes"),
        ((*ROW, 3), 1, "train[0].3", "a key is text, and 3 is not: put it in quotes"),
    ],
)
def test_one_problem_in_the_words_of_yaml(
    at: tuple[str | int, ...], value: Any, key: str, says: str, tmp_path: Path
) -> None:
    (problem,) = problems(with_value(tmp_path, at, value))
    assert problem.key == key
    assert problem.file.endswith("g.yaml")
    assert problem.line is not None
    assert says in problem.message
    assert not re.search(r"tuple|dict|instance|Config|None|True|kind: kind|str\b", str(problem).split("g.yaml")[-1])


@pytest.mark.parametrize(
    ("text", "line", "key", "says"),
    [
        ("grid: g\ntrain: &a [*a]\n", 2, "train[0]", "an alias (*name) stands inside of what it names"),
        ("grid: g\nbase: &a {b: {c: *a}}\n", 2, "base.b.c", "an alias (*name) stands inside of what it names"),
        ("grid: g\nbase: " + "[" * 5000 + "]" * 5000, 2, "", "not valid YAML"),
        ("grid: g\ntitle: 2024-13-45\n", 2, "", "not valid YAML: month must be in 1..12"),
        ("grid: g\ntitle: !!int x\n", 2, "", "not valid YAML: invalid literal"),
        ("grid: g\ntitle: !!python/name:os.system\n", 2, "", "not valid YAML: could not determine a constructor"),
        ('grid: "a\0b"\n', None, "", "not valid YAML: unacceptable character"),
        ("? [a]\n: b\n", 1, "", "not valid YAML: found unhashable key"),
    ],
)
def test_odd_yaml(text: str, line: int | None, key: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(text)
    (problem,) = problems(tmp_path / "g.yaml")
    assert (problem.line, problem.key) == (line, key)
    assert says in problem.message


def test_aliases_of_aliases_of_aliases_do_not_fill_the_memory(tmp_path: Path) -> None:
    names = "abcdefgh"
    lines = ["a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]" for old, new in itertools.pairwise(names)]
    (tmp_path / "g.yaml").write_text("\n".join(lines))
    assert "more than 200,000 values" in problems(tmp_path / "g.yaml")[0].message


def test_a_set_that_names_itself(tmp_path: Path) -> None:
    (problem,) = problems(with_value(tmp_path, ("title",), "t"), "title=&a [*a]")
    assert str(problem) == "--set title=&a [*a]: title: an alias (*name) stands inside of what it names"


def test_what_every_row_lacks_is_told_once(tmp_path: Path) -> None:
    rows = [{"row": name, "pooling": {"kind": name}} for name in ("cls", "mean")]
    found = problems(with_value(tmp_path, ("train",), rows))
    assert [(problem.key, problem.message) for problem in found] == [
        (key, "this key is required and is not there") for key in ("model", "data", "optim")
    ]


def test_the_same_mistake_in_two_rows_is_told_for_both(tmp_path: Path) -> None:
    one = {**GRID["train"][0], "optim": {**GRID["train"][0]["optim"], "steps": -1}}
    found = problems(with_value(tmp_path, ("train",), [one, copy.deepcopy({**one, "row": "{m}-2"})]))
    assert len({problem.line for problem in found}) == len(found) == 2


def test_values_of_for_become_names_as_yaml_writes_them(tmp_path: Path) -> None:
    grid = copy.deepcopy(GRID)
    del grid["evaluate"]["views"]
    row = grid["train"][0]
    row |= {"row": "{g}", "pooling": {"kind": "landmark", "granularity": "{g}"}, "for": {"g": [32, 64]}}
    (tmp_path / "g.yaml").write_text(yaml.safe_dump(grid, sort_keys=False))
    plan = make_plan(load_grid_file(str(tmp_path / "g.yaml")), tmp_path / "runs")
    assert [one.row for one in plan.rows] == ["32", "64"]

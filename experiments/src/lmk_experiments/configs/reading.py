"""YAML text as plain values; whatever is wrong with it is one kind of error that knows its line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from lmk_experiments.configs.errors import Path as KeyPath

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The C parser where PyYAML has it: a plan reads the same few files many times."""

MOST_VALUES = 200_000
"""Values of one file, aliases written out: more is a mistake, or meant to fill the memory."""


class YamlError(ValueError):
    """Text that is not YAML, or YAML that cannot be a tree of plain values; ``path`` is empty where no key is known."""

    def __init__(self, message: str, line: int | None, path: KeyPath = ()) -> None:
        super().__init__(message)
        self.line = line
        self.path = path


def read_yaml(text: str) -> tuple[Any, yaml.Node | None]:
    """The value of ``text`` (safe tags only), and the nodes that it was made of (``None`` where there is no value).

    Raises:
        YamlError: not YAML, another tag, an alias inside of what it names, or far too many values.
    """
    loader = None
    node = None
    try:
        loader = _LOADER(text)
        node = loader.get_single_node()
        if node is None:
            return None, None
        _refuse_loops(node)
        return loader.construct_document(node), node
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or " ".join(str(error).split())
        raise YamlError(f"not valid YAML: {what}", mark.line + 1 if mark else None) from None
    except RecursionError:
        raise YamlError("not valid YAML: nested too deeply", None) from None
    except YamlError:
        raise
    except ValueError as error:  # a date that no calendar has, or a tag that its text does not fit
        raise YamlError(f"not valid YAML: {error}", _line_of_bad_scalar(node)) from None
    finally:
        if loader is not None:
            loader.dispose()


def _refuse_loops(root: yaml.Node) -> None:
    above: set[int] = set()
    count = 0

    def visit(node: yaml.Node, path: KeyPath) -> None:
        nonlocal count
        count += 1
        if count > MOST_VALUES:
            raise YamlError(f"more than {MOST_VALUES:,} values, aliases written out", None)
        if id(node) in above:
            raise YamlError("an alias (*name) stands inside of what it names", node.start_mark.line + 1, path)
        above.add(id(node))
        for part, child in _children(node):
            visit(child, (*path, part))
        above.remove(id(node))

    visit(root, ())


def _children(node: yaml.Node) -> Iterator[tuple[str | int, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield "(key)", key
            yield str(key.value), value
    elif isinstance(node, yaml.SequenceNode):
        yield from enumerate(node.value)


def _line_of_bad_scalar(node: yaml.Node | None) -> int | None:
    """The line of the first value that cannot be made."""
    if node is None:
        return None
    if isinstance(node, yaml.ScalarNode):
        try:
            yaml.SafeLoader("").construct_object(node)
        except ValueError:
            return node.start_mark.line + 1
        return None
    return next((line for _, child in _children(node) if (line := _line_of_bad_scalar(child))), None)

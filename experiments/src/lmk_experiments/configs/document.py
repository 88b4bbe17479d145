"""A YAML file as plain values that remember their lines, and the merging of several."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from lmk_experiments.configs.errors import ConfigError, Problem, dotted
from lmk_experiments.configs.errors import Path as KeyPath
from lmk_experiments.configs.reading import YamlError, read_yaml


@dataclass(frozen=True)
class Origin:
    """Where a value was written."""

    file: str
    line: int | None
    folder: Path
    """Relative paths in the file count from here."""


@dataclass(frozen=True)
class Document:
    """One YAML file: plain values, and the line of every key and list item."""

    file: str
    folder: Path
    value: dict[str, Any]
    lines: dict[KeyPath, int]

    def origin(self, path: KeyPath) -> Origin:
        """Where ``path`` was written; of a key that is missing, where its nearest parent was."""
        while path and path not in self.lines:
            path = path[:-1]
        return Origin(self.file, self.lines.get(path), self.folder)

    def problem(self, path: KeyPath, message: str) -> Problem:
        """A problem at ``path``."""
        return Problem(self.file, self.origin(path).line, dotted(path), message)


def load_document(path: Path, shown: str | None = None) -> Document:
    """Read a YAML file (safe tags only). A file that did not change since is not read again; do not change its values.

    Args:
        path: the file.
        shown: how errors name it; default: ``path``.

    Raises:
        ConfigError: no such file, not YAML, not a mapping, a key that is not text, or one that stands there twice.
    """
    name = shown or str(path)
    try:
        status = path.stat()
        return _load(path.resolve(), name, (status.st_mtime_ns, status.st_size))
    except FileNotFoundError:
        raise ConfigError([Problem(name, None, "", "no such file")]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([Problem(name, None, "", f"cannot be read: {error}")]) from None


_KEY_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")


@lru_cache(maxsize=256)
def _load(path: Path, name: str, _state: tuple[int, int]) -> Document:
    """The document; ``_state`` is only there so that a changed file is read again."""
    try:
        value, node = read_yaml(path.read_text(encoding="utf-8"))
    except YamlError as error:
        raise ConfigError([Problem(name, error.line, dotted(error.path), str(error))]) from None
    if not isinstance(value, dict) or node is None:
        raise ConfigError([Problem(name, 1, "", "a mapping of keys to values is expected at the top")])
    lines: dict[KeyPath, int] = {}
    problems: list[Problem] = []
    _collect(node, (), lines, problems, name)
    if problems:
        raise ConfigError(problems)
    return Document(name, path.parent, value, lines)


def _collect(node: yaml.Node, path: KeyPath, lines: dict[KeyPath, int], problems: list[Problem], file: str) -> None:
    """Note the line of every key below ``node``; YAML's own loader would let a repeated key overwrite the first."""
    if isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            line = key.start_mark.line + 1
            if key.tag not in _KEY_TAGS:
                # YAML reads on, no, 3 and an empty key as other things than text.
                written = key.value if isinstance(key, yaml.ScalarNode) and key.value else "this one"
                place = dotted((*path, written)) if written == key.value else dotted(path)
                problems.append(Problem(file, line, place, f"a key is text, and {written} is not: put it in quotes"))
                continue
            here = (*path, key.value)
            if here in lines:
                problems.append(Problem(file, line, dotted(here), f"stands here twice (first in line {lines[here]})"))
            lines[here] = line
            _collect(child, here, lines, problems, file)
    elif isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            lines[(*path, index)] = child.start_mark.line + 1
            _collect(child, (*path, index), lines, problems, file)


def parse_assignment(text: str) -> tuple[tuple[str, ...], Any]:
    """``a.b=c`` as its path and its value, read as YAML.

    >>> parse_assignment("optim.steps=50")
    (('optim', 'steps'), 50)
    """
    key, equals, value = text.partition("=")
    parts = tuple(key.strip().split("."))
    if not equals or not all(parts):
        raise ConfigError([Problem(f"--set {text}", None, "", "expected KEY=VALUE, for example optim.steps=50")])
    try:
        return parts, read_yaml(value)[0]
    except YamlError as error:
        raise ConfigError([Problem(f"--set {text}", None, key, str(error))]) from None


ATOMIC_KEYS = frozenset({"pooling"})
"""Keys whose mapping a later layer replaces whole: half of one pooling and half of another is neither."""


@dataclass
class Layers:
    """Several mappings merged into one, later ones winning, each value remembering where it was written."""

    value: dict[str, Any] = field(default_factory=dict)
    origins: dict[KeyPath, Origin] = field(default_factory=dict)
    last: Origin | None = None
    """Where the last layer was written: the place of a key that no layer has."""

    def add(self, layer: dict[str, Any], document: Document, at: KeyPath = ()) -> None:
        """Merge ``layer``, which stands at ``at`` of ``document``, over what is there."""
        self.last = document.origin(at)
        self._merge(self.value, copy.deepcopy(layer), (), document, at)

    def add_assignment(self, text: str) -> None:
        """Merge one ``--set`` over what is there."""
        path, value = parse_assignment(text)
        nested: Any = value
        for part in reversed(path):
            nested = {part: nested}
        document = Document(f"--set {text}", Path.cwd(), nested, {})
        before = self.last
        self.add(nested, document)
        self.last = before

    def origin(self, path: KeyPath) -> Origin:
        """Where ``path`` was written; of a key that is missing, where its nearest parent was."""
        while path and path not in self.origins:
            path = path[:-1]
        return self.origins.get(path) or self.last or Origin("the configuration", None, Path.cwd())

    def problem(self, path: KeyPath, message: str) -> Problem:
        """A problem at ``path``, with the file and line that said it."""
        origin = self.origin(path)
        return Problem(origin.file, origin.line, dotted(path), message)

    def _merge(
        self, into: dict[str, Any], layer: dict[str, Any], path: KeyPath, document: Document, at: KeyPath
    ) -> None:
        for key, value in layer.items():
            here = (*path, key)
            self.origins[here] = document.origin((*at, *here))
            if isinstance(value, dict) and key not in ATOMIC_KEYS:
                target = into.setdefault(key, {})
                if not isinstance(target, dict):
                    target = into[key] = {}
                self._merge(target, value, here, document, at)
            else:
                into[key] = value
                self._mark(value, here, document, at)

    def _mark(self, value: Any, path: KeyPath, document: Document, at: KeyPath) -> None:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, child in items:
            here = (*path, key)
            self.origins[here] = document.origin((*at, *here))
            self._mark(child, here, document, at)

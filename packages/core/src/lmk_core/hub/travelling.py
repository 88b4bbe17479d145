"""The one Python file that a saved model carries: this package's own source, joined.

With it Sentence Transformers opens the model where this package is not installed. It is made from the source of
`lmk_core.hub.modules` and of all that this imports from the package, so there is no second copy to keep. Of private
names that several modules define all but the first become ``_name__module``.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec

from lmk_core.version import __version__

MODULE_NAME = "modeling_lmk"
"""Of the file, without ``.py``: what ``modules.json`` refers to."""

_ROOT = "lmk_core.hub.modules"
_PACKAGE = "lmk_core"
# Only named in annotations, which are never evaluated; Sentence Transformers does not bring it along.
_ANNOTATIONS_ONLY = "jaxtyping"

_HEADER = f'''"""Landmark pooling and its baselines, for Sentence Transformers. Written by lmk-core {__version__}.

The source of ``lmk_core.hub.modules`` and of what it uses, joined into one file, so that this model opens where
lmk-core is not installed. Change it there, not here. Shapes in annotations are those of jaxtyping.
"""

from __future__ import annotations
'''


class TravellingSourceError(RuntimeError):
    """The package's source cannot be joined into one file."""


@dataclass
class _Joined:
    """What has been taken over so far."""

    imports: set[str] = field(default_factory=set)
    froms: dict[str, set[str]] = field(default_factory=dict)
    bodies: list[str] = field(default_factory=list)
    origins: dict[str, str] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)


@cache
def travelling_source() -> str:
    """The file's text. The same version of this package gives the same text.

    Raises:
        TravellingSourceError: if two modules use one name for two things, or one imports in a way that cannot be
            joined.
    """
    joined = _Joined()
    _take(_ROOT, joined)
    froms = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(joined.froms.items())]
    return "\n".join([_HEADER, *sorted(joined.imports), *froms, "", *joined.bodies])


def _take(module: str, joined: _Joined) -> None:
    """Take over a module, behind all that it imports from this package."""
    if module in joined.done:
        return
    joined.done.add(module)
    source = _source(module)
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            _take_import(module, node, joined, at_top=node in tree.body)
    names = _defined_names(tree)
    taken = {
        name: f"{name}__{module.rpartition('.')[2]}" for name in names if name[0] == "_" and name in joined.origins
    }
    for name in names:
        _claim(taken.get(name, name), module, joined)
    lines = renamed(source, tree, taken).splitlines()
    drop = {number for node in _left_out(tree) for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    body = "\n".join(line for number, line in enumerate(lines, start=1) if number not in drop).strip("\n")
    joined.bodies.append(f"\n# {module}: {(ast.get_docstring(tree) or '-').splitlines()[0]}\n\n\n{body}\n")


def _claim(name: str, origin: str, joined: _Joined) -> None:
    """Note where a name is from; the joined file has one of each."""
    if joined.origins.setdefault(name, origin) != origin:
        raise TravellingSourceError(
            f"{name} is of {joined.origins[name]} and of {origin}; the file that travels with saved models joins both, "
            "so rename one of them"
        )


def _take_import(module: str, node: ast.Import | ast.ImportFrom, joined: _Joined, at_top: bool) -> None:
    """Take over what is imported from this package; note what else is imported at the top of the module."""
    names = [ast.unparse(alias) for alias in node.names]
    if isinstance(node, ast.Import):
        if any(name.split(".")[0] == _PACKAGE for name in names):
            raise TravellingSourceError(f"{module}:{node.lineno}: import names of {_PACKAGE} with from ... import")
        if at_top:
            joined.imports |= {f"import {name}" for name in names}
            for alias in node.names:
                _claim(alias.asname or alias.name.split(".")[0], alias.name, joined)
    elif node.level or node.module is None:
        raise TravellingSourceError(f"{module}:{node.lineno}: a relative import cannot be joined")
    elif node.module.split(".")[0] == _PACKAGE:
        if any(alias.asname for alias in node.names):
            raise TravellingSourceError(f"{module}:{node.lineno}: a name of {_PACKAGE} under another name")
        for name in names:
            _take(_defining_module(node.module, name), joined)
    elif at_top and node.module not in ("__future__", _ANNOTATIONS_ONLY):
        joined.froms.setdefault(node.module, set()).update(names)
        for alias in node.names:
            _claim(alias.asname or alias.name, f"{node.module}.{alias.name}", joined)


def renamed(source: str, tree: ast.Module, names: Mapping[str, str]) -> str:
    """The source with other names for some of what it defines; every use of such a word must be a plain name.

    Raises:
        TravellingSourceError: where one of them is an argument, a keyword or an attribute too, or imported.
    """
    lines = [line.encode() for line in source.splitlines()]
    places: set[tuple[int, int, str]] = set()
    for node in ast.walk(tree):
        words = [getattr(node, key, None) for key in ("arg", "attr", "asname")]
        words += [alias.name for alias in getattr(node, "names", []) if isinstance(alias, ast.alias)]
        if bad := sorted(set(names).intersection(word for word in words if isinstance(word, str))):
            raise TravellingSourceError(f"{bad[0]} is defined twice in the package, and not only a name; rename it")
        if isinstance(node, ast.Name) and node.id in names:
            places.add((node.lineno, node.col_offset, node.id))
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in names:
            column = lines[node.lineno - 1].index(b" " + node.name.encode(), node.col_offset) + 1
            places.add((node.lineno, column, node.name))
    for number, column, name in sorted(places, reverse=True):
        line = lines[number - 1]
        lines[number - 1] = line[:column] + names[name].encode() + line[column + len(name.encode()) :]
    return "\n".join(line.decode() for line in lines)


def _left_out(tree: ast.Module) -> list[ast.stmt]:
    """The module's docstring, its imports at the top, and every import from this package."""
    out: list[ast.stmt] = []
    for position, node in enumerate(tree.body):
        docstring = position == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        typing_only = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if docstring or typing_only or isinstance(node, (ast.Import, ast.ImportFrom)):
            out.append(node)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == _PACKAGE:
            out.append(node)
    return out


def _defined_names(tree: ast.Module) -> list[str]:
    names = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [target.id for target in targets if isinstance(target, ast.Name)]
    return names


def _defining_module(module: str, name: str) -> str:
    """The module in which ``name`` is defined: ``module``, or where a package imports it from."""
    tree = ast.parse(_source(module))
    if name in _defined_names(tree):
        return module
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            return _defining_module(node.module or "", name)
    raise TravellingSourceError(f"{module} neither defines nor imports {name}")


def _source(module: str) -> str:
    spec = find_spec(module)
    loader = None if spec is None else spec.loader
    source = None if loader is None else getattr(loader, "get_source", lambda _: None)(module)
    if source is None:
        raise TravellingSourceError(f"the source of {module} is not here")
    return source

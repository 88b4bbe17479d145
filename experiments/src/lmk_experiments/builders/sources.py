"""Functions of the Python standard library and of installed packages, read with `ast`; nothing is imported or run."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import inspect
import platform
import re
import sysconfig
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

STANDARD_LIBRARY = "python"

TEST_FOLDERS = ("test", "tests", "testing", "_testing", "conftest", "idlelib", "lib2to3")
COPIED_FOLDERS = ("site-packages", "dist-packages", "_vendor", "vendored", "externals", "extern")


@dataclass(frozen=True, slots=True)
class Source:
    """An installed package to read: its import name and the distribution that brings it."""

    package: str
    distribution: str | None = None
    only: tuple[str, ...] = ()
    """Top-level names below the package to read; all when empty."""
    skip: tuple[str, ...] = ()
    """Top-level names below the package to leave out."""

    def version(self) -> str | None:
        """The installed version, or None when the package isn't installed."""
        if self.package == STANDARD_LIBRARY:
            return platform.python_version()
        try:
            return importlib.metadata.version(self.distribution or self.package)
        except importlib.metadata.PackageNotFoundError:
            return None

    def folder(self) -> Path | None:
        """Where its modules lie, or None when it has no folder of Python files here."""
        if self.package == STANDARD_LIBRARY:
            return Path(sysconfig.get_paths()["stdlib"])
        spec = importlib.util.find_spec(self.package)
        places = list(spec.submodule_search_locations or []) if spec else []
        return Path(places[0]) if places else None


@dataclass(frozen=True, slots=True)
class Function:
    """A function or method without any docstring, and the docstring it had."""

    module: str
    name: str
    code: str
    docstring: str | None

    @property
    def id(self) -> str:
        return f"{self.module}:{self.name}"

    @property
    def body(self) -> str:
        """The code below the signature's first line, spaces collapsed: what two copies of one function share."""
        return " ".join(self.code.partition("\n")[2].split())


def read_source(source: Source) -> Iterator[Function]:
    """All functions of a package, in the order of the files' sorted names and of the lines; test files are left out."""
    folder = source.folder()
    if folder is None:
        return
    skipped = {*TEST_FOLDERS, *COPIED_FOLDERS}
    for path in sorted(folder.rglob("*.py"), key=lambda path: path.relative_to(folder).as_posix()):
        parts = path.relative_to(folder).with_suffix("").parts
        if (source.only and parts[0] not in source.only) or parts[0] in source.skip:
            continue
        if skipped.intersection(parts) or re.match(r"test_|.*_test$", parts[-1]):
            continue
        prefix = () if source.package == STANDARD_LIBRARY else (source.package,)
        names = parts[:-1] if parts[-1] == "__init__" else parts
        yield from read_module(path, ".".join((*prefix, *names)) or source.package)


def read_module(path: Path, module: str) -> Iterator[Function]:
    """The functions of one file: those of the module and of its classes, not those inside another function.

    A file that isn't UTF-8 or doesn't parse (templates, other versions' syntax) has none.
    """
    content = path.read_bytes()
    if b"def " not in content:
        return
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in other people's strings
            tree = ast.parse(text)
    except (UnicodeDecodeError, SyntaxError, ValueError, RecursionError):
        return
    # Not splitlines(): it also splits at form feeds, which the parser doesn't count as lines.
    lines = text.split("\n")
    seen: set[str] = set()
    for name, node in _definitions(tree.body, ""):
        code = _without_docstrings(node, lines)
        if code is not None and name not in seen:  # the first of a property and its setter, of overloads
            seen.add(name)
            yield Function(module, name, code, ast.get_docstring(node, clean=False))


def _definitions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _definitions(node.body, f"{prefix}{node.name}.")


def _without_docstrings(node: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]) -> str | None:
    """Source of a function from its `def` on, comments kept, without its docstring and those of definitions inside it.

    Whole lines are removed. None when a docstring shares a line with other code, which would need more care than
    such a rare function is worth.
    """
    dropped: set[int] = set()
    numbers = range(node.lineno - 1, node.end_lineno or node.lineno)
    nested = any("def " in lines[number] or "class " in lines[number] for number in numbers[1:])
    for inner in ast.walk(node) if nested else (node,):
        if not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        docstring = inner.body[0]
        if not (isinstance(docstring, ast.Expr) and isinstance(docstring.value, ast.Constant)):
            continue
        if not isinstance(docstring.value.value, str):
            continue
        first, last = docstring.lineno - 1, (docstring.end_lineno or docstring.lineno) - 1
        before = lines[first].encode()[: docstring.col_offset]
        after = lines[last].encode()[docstring.end_col_offset :].strip()
        if before.strip() or (after and not after.startswith(b"#")):
            return None
        dropped.update(range(first, last + 1))
    kept = [lines[number].rstrip() for number in numbers if number not in dropped]
    return textwrap.dedent("\n".join(line for line in kept if line))


_FIELDS = re.compile(
    r"^(:\w|\.\. |>>> |@\w"
    r"|(Args|Arguments|Parameters|Returns?|Raises|Yields|Examples?|Notes?|See Also|References)\s*:?$)"
)
_SIGNATURE = re.compile(r"^[\w.\[\], ]*\w\(.*\)(\s*->.*)?\.?$", re.DOTALL)
_ROLE = re.compile(r":[\w:+-]+:`~?\.?([^`<]+?)(?:\s*<[^`]*>)?`")


def first_paragraph(docstring: str) -> str:
    """The first paragraph of prose of a docstring on one line; reST roles and backticks become plain words."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(docstring)):
        lines: list[str] = []
        for line in map(str.strip, paragraph.split("\n")):
            if _FIELDS.match(line) or re.fullmatch(r"[-=~^]{3,}", line):
                break
            lines.append(line)
        text = "\n".join(lines).strip()
        if text and not _SIGNATURE.match(text):  # "name(arguments) -> result" heads many docstrings of C origin
            return " ".join(_ROLE.sub(r"\1", text).replace("`", "").split())
    return ""

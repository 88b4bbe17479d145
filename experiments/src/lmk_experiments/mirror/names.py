"""How names are spelled in MLflow, and read back.

MLflow takes letters, digits, ``_ - . : /`` and spaces in the name of a metric or a parameter, and no path that
``posixpath.normpath`` would change. Ours may hold anything (``ndcg_at_10[quarter=1]``), so they are quoted; the quoting
is reversible, and a plain name stays as it is.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

MAX_NAME = 250
"""Characters in a name, MLflow's limit."""
MAX_PARAM = 500
"""Characters in a parameter's value; the whole configuration is the artifact ``cell.json``."""

_KEPT = 16384
"""Names that are remembered: every cell of a grid spells the same ones."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_. \-]|-(?=x)")
_QUOTED = re.compile(r"-x([0-9a-f]+)-")
# Of its own (`records.groups` also takes "=" in a value): databases hold names that were spelled by this one.
_GROUP = re.compile(r"(?P<metric>[^\[\]=]+)\[(?P<key>[^\[\]=]+)=(?P<value>[^\[\]=]+)\]")


def quote(part: str) -> str:
    """One component of a path, with every character that MLflow refuses as ``-x<hex>-``.

    >>> quote("mean@64"), quote("beir15")
    ('mean-x40-64', 'beir15')
    """
    if not part.strip("."):
        return "".join(f"-x{ord(letter):x}-" for letter in part)
    return _UNSAFE.sub(lambda match: f"-x{ord(match.group()):x}-", part)


def unquote(part: str) -> str:
    """The inverse of ``quote``.

    >>> unquote("mean-x40-64")
    'mean@64'
    """
    return _QUOTED.sub(lambda match: chr(int(match.group(1), 16)), part)


@lru_cache(_KEPT)
def score_name(suite: str, task: str, metric: str) -> str:
    """``<suite>/<task>/<metric>``, the name of an evaluation's score; a group becomes ``metric:key:value``.

    >>> score_name("places", "Needle", "ndcg_at_10[quarter=1]")
    'places/Needle/ndcg_at_10:quarter:1'
    """
    group = _GROUP.fullmatch(metric)
    parts = (group["metric"], group["key"], group["value"]) if group else (metric,)
    return "/".join([quote(suite), quote(task), ":".join(map(quote, parts))])


@lru_cache(_KEPT)
def parse_score_name(name: str) -> tuple[str, str, str] | None:
    """Suite, task and metric of a name that ``score_name`` made; ``None`` for any other name.

    >>> parse_score_name("places/Needle/ndcg_at_10:quarter:1")
    ('places', 'Needle', 'ndcg_at_10[quarter=1]')
    """
    parts = name.split("/")
    if len(parts) != 3:
        return None
    suite, task, spelled = parts
    group = [unquote(part) for part in spelled.split(":")]
    if len(group) == 1:
        return unquote(suite), unquote(task), group[0]
    if len(group) == 3:
        return unquote(suite), unquote(task), f"{group[0]}[{group[1]}={group[2]}]"
    return None


@lru_cache(_KEPT)
def path_name(name: str) -> str:
    """The name of a curve or of a parameter: its components quoted one by one.

    >>> path_name("train/loss"), path_name("validation/recall@10")
    ('train/loss', 'validation/recall-x40-10')
    """
    return "/".join(quote(part) for part in name.split("/") if part)


def fitting(name: str) -> str:
    """``name``, or its beginning and a digest of the whole where it is too long for MLflow: no two become one.

    >>> fitting("train/loss"), fitting("a" * 300)[-20:], len(fitting("a" * 300))
    ('train/loss', 'aaaaaaa-9835fa6bf4e2', 250)
    """
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    return f"{name[: MAX_NAME - 1 - len(digest)]}-{digest}"


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """A configuration as MLflow's flat parameters: dotted keys, values as text.

    >>> flatten({"optim": {"betas": [0.9, 0.999]}, "tasks": [{"name": "a"}], "note": None})
    {'optim.betas': '[0.9, 0.999]', 'tasks.0.name': 'a', 'note': 'null'}
    """
    flat: dict[str, str] = {}
    for key, value in config.items():
        dotted = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
            value = {str(index): item for index, item in enumerate(value)}
        if isinstance(value, Mapping) and value:
            flat.update(flatten(value, dotted))
        else:
            flat[dotted] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return flat


def cut(text: str, limit: int = MAX_PARAM) -> str:
    """``text``, or its beginning and how much of it is missing.

    >>> cut("abcdefgh" * 10, 30)
    'abcdefghabcd... (80 in all)'
    """
    tail = f"... ({len(text)} in all)"
    return text if len(text) <= limit else text[: limit - len(tail)] + tail

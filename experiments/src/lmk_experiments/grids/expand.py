"""``for`` and ``when``: the only expander a grid file has."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from lmk_experiments.configs import in_yaml
from lmk_experiments.configs.errors import Path as KeyPath

_VARIABLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def wrong_loops(row: Mapping[str, Any]) -> list[tuple[KeyPath, str]]:
    """What is wrong with the ``for`` and ``when`` of a row: the key's path in it, and what is to be said.

    >>> wrong_loops({"for": {"g": 32}})
    [(('for', 'g'), 'a list of values is expected, found 32')]
    """
    wrong: list[tuple[KeyPath, str]] = []
    for key in ("for", "when"):
        held = row.get(key)
        if held is not None and not isinstance(held, dict):
            example = "{g: [32, 64]}" if key == "for" else "{g: 32}"
            wrong.append(((key,), f"a mapping such as {example} is expected, found {in_yaml(held)}"))
        elif held and (other := [name for name in held if not isinstance(name, str)]):
            wrong.append(((key,), f"a variable's name is text, found {in_yaml(other[0])}: put it in quotes"))
    variables = row.get("for")
    if not wrong and variables:
        wrong += [
            (("for", name), f"a list of values is expected, found {in_yaml(values)}")
            for name, values in variables.items()
            if not isinstance(values, list) or not values
        ]
    return wrong


def combinations(variables: Mapping[str, list[Any]], when: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of the variables' values that ``when`` lets through, the last variable running fastest.

    >>> list(combinations({"g": [32, 64]}, {}))
    [{'g': 32}, {'g': 64}]

    Raises:
        ValueError: a variable without values, or ``when`` naming a variable that is not there.
    """
    for name, values in variables.items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"'for' needs a list of values for {name!r}, found {in_yaml(values)}")
    if unknown := set(when) - set(variables):
        listed = ", ".join(variables) or "(none)"
        raise ValueError(f"'when' names {sorted(unknown)[0]!r}, which 'for' does not; valid: {listed}")
    for values in itertools.product(*variables.values()):
        chosen = dict(zip(variables, values, strict=True))
        if all(chosen[name] in (wanted if isinstance(wanted, list) else [wanted]) for name, wanted in when.items()):
            yield chosen


def substitute(value: Any, variables: Mapping[str, Any]) -> Any:
    """``value`` with ``"{name}"`` filled in, at any depth.

    A string that is exactly ``"{name}"`` becomes the variable's value with its own type; inside a longer string it
    becomes text.

    >>> substitute({"row": "lmk-{g}", "granularity": "{g}"}, {"g": 32})
    {'row': 'lmk-32', 'granularity': 32}

    Raises:
        ValueError: a name that no variable has.
    """
    if isinstance(value, dict):
        return {key: substitute(child, variables) for key, child in value.items()}
    if isinstance(value, list):
        return [substitute(child, variables) for child in value]
    if not isinstance(value, str):
        return value
    for name in _VARIABLE.findall(value):
        if name not in variables:
            listed = ", ".join(variables) or "(none: there is no 'for')"
            raise ValueError(f"{value!r} uses {{{name}}}, which 'for' does not define; valid: {listed}")
    whole = _VARIABLE.fullmatch(value)
    if whole:
        return variables[whole.group(1)]
    return _VARIABLE.sub(lambda match: as_text(variables[match.group(1)]), value)


def as_text(value: Any) -> str:
    """A value as text, or inside a longer one, as YAML writes it."""
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)

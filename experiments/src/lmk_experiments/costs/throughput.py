"""Measured speed, from a cluster's profile: ``throughput: {train: ..., evaluate: ...}`` in tokens a second and GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import PositiveFloat

from lmk_experiments.configs import Section, find_file, load_document, validate

Encoding = PositiveFloat | dict[Literal["float32", "bfloat16", "float16"], PositiveFloat]
"""Tokens a second that are encoded: in float32, as evaluations are unless they say otherwise, or by the type."""


class ThroughputSection(Section):
    """Tokens a second on one GPU, as measured; `lmk plan` estimates hours with them."""

    train: PositiveFloat | None = None
    """While training, forward and backward."""
    evaluate: Encoding | None = None
    """While encoding: a number in float32, or one for each type of weights (`{float32: ..., bfloat16: ...}`)."""


@dataclass(frozen=True)
class Throughput:
    """Tokens a second and GPU, each ``None`` where it was not measured, and the file that says so."""

    train: float | None
    evaluate: float | Mapping[Any, float] | None
    source: str

    def encoding(self, weights: str) -> float | None:
        """Tokens a second that are encoded with weights of a type; ``None`` where that was not measured."""
        by_type = self.evaluate if isinstance(self.evaluate, Mapping) else {"float32": self.evaluate}
        return by_type.get(weights)


def load_throughput(profile: str) -> Throughput | None:
    """What a profile (a shipped name or a YAML file) says of its measured speed; ``None`` where it says nothing.

    Raises:
        ConfigError: no such profile, or a wrong value.
    """
    path = find_file(profile, "profiles")
    document = load_document(path)
    if document.value.get("throughput") is None:
        return None
    at = ("throughput",)
    found = validate(
        ThroughputSection, document.value["throughput"], lambda rest, text: document.problem((*at, *rest), text)
    )
    return Throughput(found.train, found.evaluate, path.name)

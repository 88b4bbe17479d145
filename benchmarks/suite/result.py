"""One result format: a line of JSON for each thing that is compared with a peer."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIMITS = {
    "matrix products": "the products that the model asks for at the rate of `torch.mm` in its shapes, same process",
    "tokenizer": "the fast tokenizer's own call, without cutting, special tokens or masks",
    "interpreter": "`python -c pass`",
    "vectors": "the ids, vectors and gradients of vectors of the whole batch",
    "inputs": "the states that go in and come out, and their gradients",
}
"""What the physical limits are, by their names in the table."""


_FOR_QUARTILES = 5
"""Repetitions: of fewer, quartiles would make the spread look smaller than what was seen."""


@dataclass(frozen=True)
class Spread:
    """A median and its quartiles; of fewer than five values the least and the most."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of one value or more."""
        if len(values) < _FOR_QUARTILES:
            return cls(statistics.median(values), min(values), max(values))
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(middle, low, high)


@dataclass(frozen=True)
class Side:
    """One of the two that are compared."""

    name: str
    values: tuple[float, ...]
    """One a repetition: processor seconds, or MB."""
    clock: tuple[float, ...] = ()
    """Wall seconds of the same repetitions; none where memory is measured."""
    processed: int | None = None
    """Tokens that it computes, padding included."""

    @property
    def median(self) -> float:
        """Of the repetitions."""
        return statistics.median(self.values)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "name": self.name,
            "median": self.median,
            "values": list(self.values),
            "clock": list(self.clock),
            "processed": self.processed,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Side:
        """The inverse of `to_json`."""
        return cls(value["name"], tuple(value["values"]), tuple(value["clock"]), value["processed"])


@dataclass(frozen=True)
class Result:
    """What was measured of us and of one peer, repetition by repetition, in the same run."""

    benchmark: str
    case: str
    ours: Side
    peer: Side
    unit: str
    """`s` of the processor, or `MB`; less is better."""
    same: str = ""
    """What was found to be equal on both sides, and how nearly."""
    needed: int | None = None
    """Tokens that have to be computed, without padding."""
    limit: float | None = None
    """The least that is physically possible, in `unit`."""
    limit_of: str = ""
    """A key of `LIMITS`."""
    conditions: dict[str, Any] = field(default_factory=dict)
    headline: bool = False
    """Whether the README at the root shows it."""
    remark: str = ""
    """What the two do differently, and why one would take ours also where it is worse."""

    def __post_init__(self) -> None:
        if not self.ours.values or len(self.ours.values) != len(self.peer.values):
            raise ValueError(f"{self.name}: {len(self.ours.values)} and {len(self.peer.values)} repetitions")
        if self.limit is not None and self.limit_of not in LIMITS:
            raise ValueError(f"{self.name}: limit_of is {self.limit_of!r}; valid: {', '.join(LIMITS)}")

    @property
    def name(self) -> str:
        """Unique in a run."""
        return f"{self.benchmark}: {self.case} beside {self.peer.name}"

    @property
    def ratio(self) -> Spread:
        """How many times better ours is, from neighbouring repetitions; below 1 the peer is."""
        return Spread.of([peer / ours for ours, peer in zip(self.ours.values, self.peer.values, strict=True)])

    @property
    def worse(self) -> bool:
        """Whether the peer is better by more than the spread: in all of fewer than five repetitions, else in three of
        four.
        """
        return self.ratio.high < 1

    @property
    def unclear(self) -> bool:
        """Whether the median says worse, and the spread reaches to 1 or above."""
        return self.ratio.median < 1 and not self.worse

    @property
    def clock_ratio(self) -> Spread | None:
        """The same by the wall clock."""
        if not self.ours.clock or len(self.ours.clock) != len(self.peer.clock):
            return None
        return Spread.of([peer / ours for ours, peer in zip(self.ours.clock, self.peer.clock, strict=True)])

    def to_json(self) -> dict[str, Any]:
        """Plain values; the ratio stands in them for who reads the file."""
        return {
            "benchmark": self.benchmark,
            "case": self.case,
            "unit": self.unit,
            "ratio": vars(self.ratio),
            "repetitions": len(self.ours.values),
            "ours": self.ours.to_json(),
            "peer": self.peer.to_json(),
            "same": self.same,
            "needed": self.needed,
            "limit": self.limit,
            "limit_of": self.limit_of,
            "conditions": self.conditions,
            "headline": self.headline,
            "remark": self.remark,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Result:
        """The inverse of `to_json`."""
        rest = {key: one for key, one in value.items() if key not in ("ratio", "repetitions", "ours", "peer")}
        return cls(ours=Side.from_json(value["ours"]), peer=Side.from_json(value["peer"]), **rest)


@dataclass(frozen=True)
class Missing:
    """Something that could not be compared, and why."""

    benchmark: str
    case: str
    missing: str

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return dict(vars(self))


def to_line(value: Result | Missing) -> str:
    """One line of a file."""
    return json.dumps(value.to_json(), ensure_ascii=False)


def read_results(file: Path) -> list[Result | Missing]:
    """The lines of a benchmark's own file."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [from_json(json.loads(line)) for line in lines]


def from_json(value: Mapping[str, Any]) -> Result | Missing:
    """What a line holds."""
    return Missing(**value) if "missing" in value else Result.from_json(value)

"""A run's results as the tables of the READMEs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from suite.parts import Part
from suite.result import LIMITS, Missing, Result

NOTHING = "Not run yet: `make bench` writes this."


def results_of(parts: Sequence[Part]) -> list[Result]:
    """Everything that was compared, the worst first."""
    found = [one for part in parts for one in part.results if isinstance(one, Result)]
    return sorted(found, key=lambda one: one.ratio.median)


def conditions_text(run: dict[str, Any]) -> str:
    """The run in some sentences: machine, versions, code, time."""
    if not run:
        return NOTHING
    versions = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
    quick = "\n\n**A run with `--quick`, which measures little of everything: no figures.**" if run["quick"] else ""
    texts, commit = run.get("texts", "unknown"), run["commit"] or "unknown"
    return (
        f"Run of {run['date']}: {run['processor']}, {run['cores']} cores, {run['memory_gb']} GB, {run['system']}; "
        f"{run['minutes']:.1f} minutes{_calls(run)}; load of the machine before {run['load_before']:.1f} and after "
        f"{run['load_after']:.1f}. Texts: {texts}. {versions}. Commit {commit}, sources {run['code']}. "
        f"One thread.{quick}"
    )


def _calls(run: dict[str, Any]) -> str:
    calls = run.get("calls", 1)
    return "" if calls == 1 else f" in {calls} calls"


def main_table(parts: Sequence[Part]) -> str:
    """Everything in one table, what is worse than its peer first."""
    results = results_of(parts)
    if not results:
        return NOTHING
    worse = sum(one.worse for one in results)
    head = (
        "| benchmark | case | ours | peer | times better (spread) | by the clock | n | padding | of the limit "
        "| equal | what to know |"
    )
    lines = [head, "|---|---|---|---|--:|--:|--:|--:|---|---|---|", *map(_line, results)]
    said = (
        f"{worse} of {len(results)} are worse than their peer (the whole spread is below 1){_unclear(results)}; "
        "the worst is first."
    )
    return said + "\n\n" + "\n".join(lines)


def _unclear(results: Sequence[Result]) -> str:
    count = sum(one.unclear for one in results)
    return f", and of {count} with a median below 1 it is not clear" if count else ""


def _line(one: Result) -> str:
    clock = one.clock_ratio
    cells = [
        one.benchmark,
        one.case,
        f"{one.ours.name}: {quantity(one.ours.median, one.unit)}",
        f"{one.peer.name}: {quantity(one.peer.median, one.unit)}",
        ratio_text(one),
        "" if clock is None else f"{clock.median:.2f}",
        str(len(one.ours.values)),
        _padding(one),
        "" if one.limit is None else _reached(one.limit, one),
        one.same,
        one.remark,
    ]
    return _cells(*cells)


def _cells(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def ratio_text(one: Result) -> str:
    """The ratio with its spread."""
    ratio, unclear = one.ratio, ", unclear" if one.unclear else ""
    spread = f"{ratio.low:.2f} to {ratio.high:.2f}" if len(one.ours.values) > 1 else "one run"
    return f"{ratio.median:.2f} ({spread}{unclear})"


def quantity(value: float, unit: str) -> str:
    """A value with its unit, in three digits.

    >>> quantity(0.01234, "s"), quantity(1234.5, "MB"), quantity(12.34, "s")
    ('0.0123 s', '1,234 MB', '12.3 s')
    """
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3 if value >= 0.1 else 4
    return f"{value:,.{digits}f} {unit}"


def _reached(limit: float, one: Result) -> str:
    return f"{limit / one.ours.median:.0%} of {quantity(limit, one.unit)}, {one.limit_of}"


def _padding(one: Result) -> str:
    if one.needed is None:
        return ""
    shares = [1 - one.needed / side.processed for side in (one.ours, one.peer) if side.processed]
    return " / ".join(f"{share:.0%}".replace("-0%", "0%") for share in shares)


def limits_text() -> str:
    """What the limits are."""
    return "\n".join(f"- {name}: {text}." for name, text in LIMITS.items())


def rates_table(parts: Sequence[Part]) -> str:
    """The matrix products' rate that each benchmark has measured."""
    rates = dict(_rates(parts))
    if not rates:
        return NOTHING
    lines = [f"| {name} | {rate / 1e9:.1f} |" for name, rate in rates.items()]
    return "\n".join(["| in the process of | GFLOP/s of `torch.mm`, one thread |", "|---|--:|", *lines])


def _rates(parts: Sequence[Part]) -> Iterator[tuple[str, float]]:
    for part in parts:
        for one in part.results:
            if isinstance(one, Result) and "matrix_rate" in one.conditions:
                yield f"{one.benchmark}, {one.conditions.get('shapes', 'its shapes')}", one.conditions["matrix_rate"]


def missing_table(parts: Sequence[Part]) -> str:
    """What was not compared, and why."""
    lines = [_cells(part.name, _without_paths(part.reason)) for part in parts if part.state != "done"]
    lines += [
        _cells(f"{one.benchmark}: {one.case}", _without_paths(one.missing))
        for part in parts
        for one in part.results
        if isinstance(one, Missing)
    ]
    if not parts:
        return NOTHING
    return "\n".join(["| not compared | why |", "|---|---|", *lines]) if lines else "Everything was compared."


def _without_paths(text: str) -> str:
    """A log's last line may name folders of this machine."""
    return re.sub(r"(?<![\w.])/(?:[^\s/:'\"]+/)+", ".../", text)


def times_table(parts: Sequence[Part]) -> str:
    """How long each took."""
    if not parts:
        return NOTHING
    lines = [f"| {part.name} | {part.state} | {part.seconds:.0f} |" for part in parts]
    return "\n".join(["| benchmark | | seconds |", "|---|---|--:|", *lines])


def short_table(parts: Sequence[Part], run: dict[str, Any]) -> str:
    """For the README at the root: what is worse than its peer, and of the others some."""
    shown = [one for one in results_of(parts) if one.headline or one.ratio.median < 1]
    if not shown:
        return NOTHING
    lines = [
        _cells(
            f"{one.benchmark}: {one.case}",
            "memory" if one.unit == "MB" else "time",
            one.peer.name,
            ratio_text(one),
            one.remark,
        )
        for one in shown
    ]
    head = ["| what | measured | beside | times better (spread) | what to know |", "|---|---|---|--:|---|"]
    return f"{run['processor']}, one thread.\n\n" + "\n".join([*head, *lines])

"""The tested versions: every package that we ask for by name is pinned exactly."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def name(requirement: str) -> str:
    """The normalised name at the start of a requirement."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found, requirement
    return re.sub(r"[-_.]+", "-", found.group()).lower()


def asked_for() -> set[str]:
    """Every package that a distribution, its extras or the development tools name."""
    asked: set[str] = set()
    places = ("packages/*", "slurm", "experiments")
    files = [file for place in places for file in ROOT.glob(f"{place}/pyproject.toml")]
    assert len(files) == 5
    for file in files:
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        asked |= {name(one) for one in project["dependencies"]}
        asked |= {name(one) for extra in project.get("optional-dependencies", {}).values() for one in extra}
    tools = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8").splitlines()
    asked |= {name(line) for line in tools if line and not line.startswith("#")}
    return {one for one in asked if not one.startswith("lmk-")}


def test_every_package_we_name_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", pin) for pin in pins), "name==version, nothing else"
    assert asked_for() - {name(pin) for pin in pins} == set()

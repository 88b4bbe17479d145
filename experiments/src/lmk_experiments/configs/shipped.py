"""Find a file by name: the user's own path first, then what ships with the product."""

from __future__ import annotations

from pathlib import Path

import lmk_experiments
from lmk_experiments.configs.errors import ConfigError, Problem, explain

KINDS = ("grids", "presets", "models", "tables", "datasets", "profiles", "published")


def shipped_folder(kind: str) -> Path:
    """The folder that holds the shipped ``kind`` of files: in a wheel beside the code, in a checkout above ``src``."""
    package = Path(lmk_experiments.__file__).parent
    inside = package / "data" / kind
    return inside if inside.is_dir() else package.parent.parent / kind


def shipped_names(kind: str) -> list[str]:
    """The names of the shipped files of this kind, without their ending."""
    return sorted(path.stem for path in shipped_folder(kind).glob("*.yaml"))


def find_file(name: str, kind: str, beside: Path | None = None) -> Path:
    """The YAML file that ``name`` means.

    ``name`` is a path (with ``.yaml``, or with a slash and starting at ``beside``), or the name of a shipped file, with
    or without its folder: ``quickstart`` and ``presets/quickstart``.

    Raises:
        ConfigError: there is none; the message lists the shipped names.
    """
    short = name.removeprefix(f"{kind}/")
    candidates = [Path(name).expanduser(), *([beside / name, beside / f"{name}.yaml"] if beside else [])]
    for candidate in candidates:
        if candidate.suffix in {".yaml", ".yml"} and candidate.is_file():
            return candidate
    if short in shipped_names(kind):
        return shipped_folder(kind) / f"{short}.yaml"
    if Path(name).suffix in {".yaml", ".yml"}:
        raise ConfigError([Problem(name, None, "", "no such file")])
    one = kind.removesuffix("s")
    raise ConfigError(
        [Problem(name, None, "", f"no such {one}; {explain(short, shipped_names(kind))} (or a .yaml file)")]
    )

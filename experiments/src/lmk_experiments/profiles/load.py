"""Read a profile."""

from __future__ import annotations

from pathlib import Path

from lmk_experiments.configs import ConfigError, Problem, find_file, load_document, validate
from lmk_experiments.profiles.schema import Profile


def load_profile(name: str) -> Profile:
    """The profile ``name``: a YAML file of the user's, or one that ships.

    Raises:
        ConfigError: no such profile, or something in it is wrong; file, line, key and the valid values are named.
    """
    path = find_file(name, "profiles")
    document = load_document(path, _shown(path))
    profile = validate(Profile, document.value, document.problem)
    for section in ("train", "evaluate", "analyze"):
        need = getattr(profile, section)
        if profile.gpu.per_node is not None and need.gpus > profile.gpu.per_node:
            message = f"a node has {profile.gpu.per_node} (gpu.per_node), found {need.gpus}"
            raise ConfigError([document.problem((section, "gpus"), message)])
    if Path(name).suffix in {".yaml", ".yml"} or profile.profile == path.stem:
        return profile
    raise ConfigError([Problem(str(path), document.lines.get(("profile",)), "profile", f"must be {path.stem!r}")])


def _shown(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)

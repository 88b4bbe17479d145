"""What the hub says of a repository: how large it is, who may have it, and whether its data is a program."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HTTPError,
    LocalEntryNotFoundError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
)

from lmk_experiments.errors import WorkFailed
from lmk_experiments.fetch.needs import MODEL_FILES

Kind = Literal["model", "dataset"]
_FOLDER = re.compile(r"\w[\w.-]*")
_LOGIN = "log in with `hf auth login`, and ask for access on its page"


class HubUnreachable(WorkFailed):
    """Nothing can be fetched from here."""


@dataclass(frozen=True)
class Repository:
    """What was found out about one repository.

    Attributes:
        gb: the size of the files that are needed, in GB; None where it is not known.
        gated: whether access must be asked for.
        script: the loading script that `datasets` does not run any more, where there is one.
        problem: why it can't be had; empty where it can.
    """

    gb: float | None = None
    gated: bool = False
    script: str = ""
    problem: str = ""


def look(kind: Kind, name: str, revision: str | None) -> Repository:
    """Ask the hub about a repository. Downloads nothing.

    Raises:
        HubUnreachable: there is no network, or the hub is down.
    """
    api = HfApi()
    try:
        api.auth_check(name, repo_type=kind)
        info = api.repo_info(name, repo_type=kind, revision=revision, files_metadata=True)
    except GatedRepoError:
        return Repository(gated=True, problem=f"gated: {_LOGIN}")
    except RepositoryNotFoundError:
        return Repository(problem=f"no such {kind} on the hub, or a private one: {_LOGIN}")
    except HfHubHTTPError as error:
        return Repository(problem=f"the hub refuses it: {_first_line(error)}")
    except (HTTPError, OSError) as error:
        raise HubUnreachable(
            f"the hub can't be reached from here ({_first_line(error)}); run this where there is a network, "
            "without HF_HUB_OFFLINE"
        ) from error
    files: list[Any] = list(getattr(info, "siblings", None) or [])
    wanted = [file for file in files if kind == "dataset" or _is_needed(file.rfilename)]
    sizes = [file.size for file in wanted]
    gb = sum(size or 0 for size in sizes) / 1e9 if sizes else None
    own = f"{name.rpartition('/')[2]}.py"
    script = own if kind == "dataset" and any(file.rfilename == own for file in files) else ""
    problem = ""
    if kind == "model" and not any(file.rfilename.endswith(".safetensors") for file in wanted):
        problem = "it has no *.safetensors, and other weights are not read"
    return Repository(gb, bool(getattr(info, "gated", False)), script, problem)


def fetch_model(name: str, revision: str | None) -> str:
    """Bring a model into the cache; empty where that worked, else why not."""
    try:
        # A pattern's `*` stands for slashes too.
        place = snapshot_download(name, revision=revision, allow_patterns=list(MODEL_FILES), ignore_patterns=["*/*"])
        _fetch_modules(name, Path(place))
    except LocalEntryNotFoundError as error:
        return f"not in the cache, and no network: {_first_line(error)}"
    except (HfHubHTTPError, HTTPError, OSError) as error:
        return _first_line(error)
    return ""


def _fetch_modules(name: str, snapshot: Path) -> None:
    """The configurations of Sentence Transformers' modules, which say how the model is pooled: small files."""
    try:
        modules = json.loads((snapshot / "modules.json").read_text(encoding="utf-8"))
        folders = [str(module["path"]) for module in modules]
    except (OSError, ValueError, LookupError, TypeError):
        return  # of another library, or not readable; opening the model says so
    for folder in filter(_FOLDER.fullmatch, folders):
        with contextlib.suppress(RemoteEntryNotFoundError):
            # The same commit, also where the hub's newest has changed meanwhile.
            hf_hub_download(name, f"{folder}/config.json", revision=snapshot.name)


def _is_needed(name: str) -> bool:
    return "/" not in name and any(name.endswith(pattern.lstrip("*")) for pattern in MODEL_FILES)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().split("\n")[0]

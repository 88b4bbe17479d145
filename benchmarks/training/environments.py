"""An environment for each peer, made where it is missing."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

TORCH = "torch==2.13.0"
PACKAGES = {
    "FlagEmbedding": (TORCH, "FlagEmbedding==1.4.0", "transformers==4.57.1"),
    "Sentence Transformers": (TORCH, "sentence-transformers[train]==6.2.0", "transformers==5.24.0"),
}
"""What is installed. FlagEmbedding 1.4.0 allows transformers 5, but does not open with it (5.24 was tried)."""

SECONDS = 420
"""How long an installation may take."""
PROBE_SECONDS = 60
"""How long an index may take to answer whether it has a peer."""


class NotInstalledError(RuntimeError):
    """A peer's environment is not there and can't be made."""


def python_of(peer: str, folder: Path, *, install: bool = True) -> Path:
    """The interpreter of a peer's environment below ``folder``, which is made if need be.

    Raises:
        NotInstalledError: it can't be made, or ``install`` is false; the message says why and what would help.
    """
    place = folder / peer.replace(" ", "-").lower()
    python, mark = place / "bin" / "python", place / "installed.txt"
    wanted = "\n".join(PACKAGES[peer])
    if mark.exists() and mark.read_text() == wanted and python.exists():
        return python
    named = ", ".join(PACKAGES[peer])
    if not install:
        print(f"{peer}: no environment in {place}", file=sys.stderr, flush=True)
        raise NotInstalledError(f"peer not installed: {named}")
    print(f"{peer}: installing {named} in {place} ...", file=sys.stderr, flush=True)
    venv.create(place, with_pip=True, clear=place.exists())
    # The peer alone first, without patience: a missing index is known before anything large is fetched.
    why = _pip(
        python, ["--dry-run", "--no-deps", "--retries", "0", "--timeout", "10", PACKAGES[peer][1]], PROBE_SECONDS
    )
    why = why or _pip(python, list(PACKAGES[peer]), SECONDS)
    if why:
        print(
            f"{peer} needs a package index, or an environment that has {named}: {python}, and {mark} with their names, "
            "one a line.",
            file=sys.stderr,
        )
        raise NotInstalledError(f"peer not installed: pip could not install {named} ({why})")
    mark.write_text(wanted)
    return python


def _pip(python: Path, arguments: list[str], seconds: float) -> str:
    """Calls ``pip install``: nothing, or why it failed."""
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"pip did not end in {seconds:.0f} s"
    if not done.returncode:
        return ""
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return errors[-1] if errors else done.stderr.strip()[-300:] or f"pip ended with {done.returncode}"

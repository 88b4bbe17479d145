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


def python_of(peer: str, folder: Path) -> Path | None:
    """The interpreter of a peer's environment below ``folder``, which is made if need be; None where it can't be."""
    place = folder / peer.replace(" ", "-").lower()
    python, mark = place / "bin" / "python", place / "installed.txt"
    wanted = "\n".join(PACKAGES[peer])
    if mark.exists() and mark.read_text() == wanted:
        return python
    print(f"{peer}: installing {', '.join(PACKAGES[peer])} in {place} ...", file=sys.stderr, flush=True)
    venv.create(place, with_pip=True, clear=place.exists())
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES[peer]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        why = errors[-1] if errors else done.stderr.strip()[-300:]
        print(
            f"{peer} is not compared: pip could not install {', '.join(PACKAGES[peer])} ({why}). It needs a package "
            f"index, or an environment that has them: {python}, and {mark} with their names, one a line.",
            file=sys.stderr,
        )
        return None
    mark.write_text(wanted)
    return python

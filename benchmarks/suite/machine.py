"""What a run was measured on: the machine, the versions, and the code."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
VERSIONS = ("torch", "transformers", "sentence-transformers", "mteb", "lightning", "mlflow", "tokenizers", "numpy")
CODE = (
    "packages/*/src/**/*",
    "slurm/src/**/*",
    "experiments/src/**/*",
    *(f"experiments/{folder}/**/*" for folder in ("datasets", "grids", "models", "presets", "tables")),
    "benchmarks/**/*.py",
)
"""Files whose change begins a run anew: the sources, and what `lmk plan` reads."""


def describe(root: Path = ROOT) -> dict[str, Any]:
    """The machine, the libraries and the code, as plain values."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {"python": platform.python_version(), **versions()},
        "code": code_of(root),
        "commit": commit_of(root),
    }


def versions() -> dict[str, str]:
    """The versions of what we build on, as far as it is installed here."""
    found = {}
    for name in VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def code_of(root: Path) -> str:
    """A digest of the sources of this project, the benchmarks and the tested versions; 12 hex digits."""
    found = {path for pattern in CODE for path in root.glob(pattern) if path.is_file()}
    # Not what Python or an open editor leaves beside the sources: a change during a run stops it.
    files = {path for path in found if path.suffix != ".pyc" and not path.name.startswith(".")}
    digest = hashlib.sha256()
    for path in sorted(files | {root / "constraints.txt"}):
        digest.update(f"{path.relative_to(root)}\0".encode())
        digest.update(path.read_bytes() if path.exists() else b"")
    return digest.hexdigest()[:12]


def commit_of(root: Path) -> str:
    """The commit that is checked out, with a + where files differ from it; nothing outside of a clone."""
    run = ["git", "-C", str(root)]
    try:
        head = subprocess.run([*run, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run([*run, "status", "--porcelain"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


def has_cuda() -> bool:
    """Whether torch finds a CUDA device here."""
    code = "import torch; raise SystemExit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0

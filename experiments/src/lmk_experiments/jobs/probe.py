"""The job that looks at nodes from the inside: what runs there, and whether processes can talk to each other."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lmk_experiments.records.atomic import write_json
from lmk_experiments.records.claim import scheduler_job
from lmk_experiments.submit.snapshot import running_code

REPORT = "PROBE.json"
_CONNECT_SECONDS = 5.0
_NUMBERS = 1 << 20


def run_probe(folder: str) -> None:
    """Every process of the job adds up one tensor with all others; the first writes ``PROBE.json`` into ``folder``."""
    import torch

    rank, size = _number("SLURM_PROCID", 0), _number("SLURM_NTASKS", 1)
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(_number("SLURM_LOCALID", 0) % torch.cuda.device_count())
    ranks = _all_reduce(rank, size, "nccl" if cuda else "gloo")
    if rank == 0:
        write_json(Path(folder) / REPORT, {**_node(Path(folder)), **_torch(), **ranks})


def _all_reduce(rank: int, size: int, backend: str) -> dict[str, Any]:
    """One sum over all processes, and who took part."""
    import torch
    import torch.distributed as dist

    os.environ.setdefault("MASTER_ADDR", _first_node())
    os.environ.setdefault("MASTER_PORT", str(20000 + _number("SLURM_JOB_ID", 0) % 20000))
    dist.init_process_group(backend, rank=rank, world_size=size)
    try:
        device = "cuda" if backend == "nccl" else "cpu"
        numbers = torch.full((_NUMBERS,), float(rank + 1), device=device)
        dist.all_reduce(numbers)  # the first call also makes the connections
        started = time.monotonic()
        dist.all_reduce(numbers)
        total = float(numbers[0].item())
        seconds = time.monotonic() - started
        who: list[Any] = [None] * size
        dist.all_gather_object(who, {"rank": rank, "host": socket.gethostname(), "pid": os.getpid()})
        expected = size * size * (size + 1) / 2
        return {"backend": backend, "sum_is_right": total == expected, "seconds_of_4_mb": seconds, "ranks": who}
    finally:
        dist.destroy_process_group()


def _first_node() -> str:
    from submitit.slurm.slurm import SlurmJobEnvironment

    return SlurmJobEnvironment().hostnames[0] if "SLURM_JOB_NODELIST" in os.environ else "127.0.0.1"


def _node(folder: Path) -> dict[str, Any]:
    return {
        "job": scheduler_job(),
        "nodes": os.environ.get("SLURM_JOB_NODELIST", socket.gethostname()),
        "python": platform.python_version(),
        **running_code(),
        "driver": _driver(),
        "shared_root_writable": _writable(folder),
        "temporary_gb_free": round(shutil.disk_usage(os.environ.get("TMPDIR", "/tmp")).free / 1e9, 1),  # noqa: S108
        "tracking": _tracking(),
    }


def _torch() -> dict[str, Any]:
    import torch

    cuda = torch.cuda.is_available()
    return {
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda if cuda else None,
        "gpu": torch.cuda.get_device_name() if cuda else None,
        "gpus_seen": torch.cuda.device_count(),
        "bf16": torch.cuda.is_bf16_supported() if cuda else False,
    }


def _driver() -> str | None:
    try:
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.split("\n")[0].strip() or None if done.returncode == 0 else None


def _writable(folder: Path) -> bool:
    mark = folder / f".probe-{os.getpid()}"
    try:
        mark.touch()
        mark.unlink()
    except OSError:
        return False
    return True


def _tracking() -> str:
    """Whether the tracking server can be reached from this node; a file needs no server."""
    uri = os.environ.get("LMK_STORE") or os.environ.get("MLFLOW_TRACKING_URI") or ""
    parts = urlsplit(uri)
    if not parts.scheme.startswith("http") or parts.hostname is None:
        return "no server is set (LMK_STORE, MLFLOW_TRACKING_URI): the last job of a grid, or `lmk sync`, mirrors it"
    try:
        with socket.create_connection((parts.hostname, parts.port or 443), timeout=_CONNECT_SECONDS):
            return "the server is reached"
    except OSError as error:
        return f"the server is not reached ({error}); nothing is lost: `lmk sync` on a login node mirrors the records"


def _number(name: str, default: int) -> int:
    return int(os.environ.get(name, default))

"""What a job uses of its machine: measured, written, and small after weeks."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from lmk_experiments.jobs.work import work_on
from lmk_experiments.records import Cell, CellRecorder
from lmk_experiments.usage import sampler
from lmk_experiments.usage.gpus import Gpus
from lmk_experiments.usage.host import Host


def samples(cell: Cell) -> list[dict]:
    return [json.loads(line) for line in (cell.folder / "system.jsonl").read_text().splitlines()]


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    return Cell(tmp_path / "trainings" / "0123456789ab").create("training", {})


def test_the_host_is_measured_with_what_this_process_holds(tmp_path: Path) -> None:
    host = Host(tmp_path)
    before = host.measure()
    held = bytearray(os.urandom(1 << 20) * 64)
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    after = host.measure()
    gained = after["process_memory_usage_megabytes"] - before["process_memory_usage_megabytes"]
    assert gained > 50, len(held)
    assert after["process_cpu_utilization_percentage"] > 1
    assert 0 < after["system_memory_usage_percentage"] <= 100
    disk = os.statvfs(tmp_path)
    assert after["disk_available_megabytes"] == pytest.approx(disk.f_bavail * disk.f_frsize / 1e6, rel=0.05)


def test_a_short_cell_has_a_sample_and_every_start_adds_to_one_curve(cell: Cell) -> None:
    def work(recorder: CellRecorder) -> dict:
        if len(samples(cell)) < 2 if (cell.folder / "system.jsonl").exists() else True:
            raise ValueError("again")
        return {"metrics": {}, "model": "model"}

    for _ in range(2):
        with pytest.raises(ValueError, match="again"):
            work_on(cell, work)
    work_on(cell, work)
    steps = [line["step"] for line in samples(cell)]
    assert len(steps) == 3
    assert steps == sorted(set(steps)), "no two samples share a step"
    assert cell.metrics() == []


def test_a_week_of_samples_is_small() -> None:
    age, count = 0.0, 0
    while age < 7 * 24 * 3600:
        age += sampler.pause(age)
        count += 1
    assert 2000 < count < 2600
    assert sampler.pause(0) == sampler.pause(4 * 3600) == 30


def test_a_disk_that_takes_no_samples_does_not_stop_the_work(cell: Cell) -> None:
    (cell.folder / "system.jsonl").mkdir()
    work_on(cell, lambda recorder: {"metrics": {}, "model": "model"})
    assert cell.done() is not None


class Library:
    """Answers as NVIDIA's library does, for three GPUs, the last of which is a slice without utilization."""

    def nvmlInit(self) -> None:  # noqa: N802
        """Nothing to do."""

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 3

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetHandleByUUID(self, name: str) -> int:  # noqa: N802
        return {"GPU-b": 1, "MIG-c": 2}[name]

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(used=(handle + 1) * 10**9, total=10 * 10**9)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> SimpleNamespace:  # noqa: N802
        if handle == 2:
            raise RuntimeError("Not Supported")
        return SimpleNamespace(gpu=50 + handle)

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:  # noqa: N802
        return 300_000 + handle


@pytest.mark.parametrize(
    ("visible", "memory"),
    [(None, [1000, 2000, 3000]), ("1", [2000]), ("GPU-b,MIG-c", [2000, 3000]), ("", []), ("-1", [])],
)
def test_gpus_are_those_that_the_job_may_see(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, memory: list[float]
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    values = Gpus(Library()).measure()
    names = [f"gpu_{number}_memory_usage_megabytes" for number in range(len(memory))]
    assert [values[name] for name in names] == memory
    assert len([name for name in values if name.endswith("_memory_usage_megabytes")]) == len(memory)


def test_what_a_gpu_does_not_tell_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-c")
    assert Gpus(Library()).measure() == {
        "gpu_0_memory_usage_megabytes": 3000.0,
        "gpu_0_memory_usage_percentage": 30.0,
        "gpu_0_power_usage_watts": pytest.approx(300.002),
    }


def test_without_a_gpu_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Library):
        def nvmlInit(self) -> None:  # noqa: N802
            raise RuntimeError("NVML Shared Library Not Found")

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert Gpus(Broken()).measure() == {}

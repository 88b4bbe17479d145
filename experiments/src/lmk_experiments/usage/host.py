"""Processor, memory and disk, as psutil tells of them. Names are those of MLflow's own system metrics."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil

_MEGABYTE = 1e6


class Host:
    """Measures this machine, and this process with all that it has started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        """Whose disk is measured."""
        self._own: dict[int, psutil.Process] = {}
        self.measure()  # psutil tells of the time since the call before

    def measure(self) -> dict[str, float]:
        """Percentages are means since the call before; those of processes are of one core: 800 is eight busy ones."""
        memory, disk = psutil.virtual_memory(), psutil.disk_usage(str(self.folder))
        percent, resident = self._processes()
        return {
            "cpu_utilization_percentage": psutil.cpu_percent(),
            "system_memory_usage_megabytes": memory.used / _MEGABYTE,
            "system_memory_usage_percentage": 100 * memory.used / memory.total,
            "disk_usage_percentage": disk.percent,
            "disk_available_megabytes": disk.free / _MEGABYTE,
            "process_cpu_utilization_percentage": percent,
            "process_memory_usage_megabytes": resident / _MEGABYTE,
        }

    def _processes(self) -> tuple[float, float]:
        percent = resident = 0.0
        this = psutil.Process()
        known, self._own = self._own, {}
        for process in [this, *this.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                # The object of the call before: it knows how much time the process had used then.
                one = known.get(process.pid, process)
                one = one if one == process else process
                percent += one.cpu_percent()
                resident += one.memory_info().rss
                self._own[one.pid] = one
        return percent, resident

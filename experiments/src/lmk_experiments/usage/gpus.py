"""The GPUs of this job, as NVIDIA's library tells of them; nothing where it or a GPU is missing."""

from __future__ import annotations

import contextlib
import os
from typing import Any

_MEGABYTE = 1e6


class Gpus:
    """Measures the GPUs that this process may see. Names are those of MLflow's own system metrics.

    Args:
        nvml: what ``library`` returns.
    """

    def __init__(self, nvml: Any | None) -> None:
        self.nvml: Any = nvml
        self.handles: list[Any] = []
        if self.nvml is not None:
            with contextlib.suppress(Exception):  # no driver, no GPU: many words for the same
                self.nvml.nvmlInit()
                self.handles = _visible(self.nvml)

    def measure(self) -> dict[str, float]:
        """Numbered as the job sees them. What a GPU does not tell (a slice of one has no utilization) is left out."""
        values: dict[str, float] = {}
        for number, handle in enumerate(self.handles):
            for one in (self._memory, self._utilization, self._power):
                with contextlib.suppress(Exception):  # of the library, which has one for each thing it cannot do
                    values |= {f"gpu_{number}_{name}": float(value) for name, value in one(handle).items()}
        return values

    def _memory(self, handle: Any) -> dict[str, float]:
        memory = self.nvml.nvmlDeviceGetMemoryInfo(handle)
        return {
            "memory_usage_megabytes": memory.used / _MEGABYTE,
            "memory_usage_percentage": 100 * memory.used / memory.total,
        }

    def _utilization(self, handle: Any) -> dict[str, float]:
        return {"utilization_percentage": self.nvml.nvmlDeviceGetUtilizationRates(handle).gpu}

    def _power(self, handle: Any) -> dict[str, float]:
        return {"power_usage_watts": self.nvml.nvmlDeviceGetPowerUsage(handle) / 1000}


def library() -> Any | None:
    """The module ``pynvml`` (of nvidia-ml-py) where it is installed."""
    try:
        import pynvml
    except Exception:  # noqa: BLE001 - not installed, or broken: no GPU metrics either way
        return None
    return pynvml


def _visible(nvml: Any) -> list[Any]:
    """The library sees every GPU of the node, whatever the job was given: ``CUDA_VISIBLE_DEVICES`` says which."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return [nvml.nvmlDeviceGetHandleByIndex(number) for number in range(nvml.nvmlDeviceGetCount())]
    names = [name.strip() for name in chosen.split(",") if name.strip() not in ("", "-1", "NoDevFiles")]
    return [
        nvml.nvmlDeviceGetHandleByIndex(int(name)) if name.isdigit() else nvml.nvmlDeviceGetHandleByUUID(name)
        for name in names
    ]

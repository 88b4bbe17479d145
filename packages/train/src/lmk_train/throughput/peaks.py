"""What devices can compute at most."""

from __future__ import annotations

import re

# Matrix products in bfloat16, dense: NVIDIA's tables give twice these, for matrices of which half is zero.
# H100: https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet (1,979, 1,671 and 1,513)
# H200: https://www.nvidia.com/en-us/data-center/h200/ (1,979 and 1,671)
# A100: https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf
_BF16 = (
    (r"\bH200 NVL\b", 835.5e12),
    (r"\bH200\b", 989.4e12),
    (r"\bH100 NVL\b", 835.5e12),
    (r"\bH100 PCIe\b", 756e12),
    (r"\bH100 80GB HBM3\b", 989.4e12),
    (r"\bA100\b", 312e12),
)


def peak_flops(name: str) -> float | None:
    """Floating-point operations a second of a GPU in bfloat16, dense, from the name that its driver gives.

    None where it is not known, and for a part of a GPU (MIG). Nor is there one for CPUs: theirs goes with the clock,
    the threads and whoever else computes there, and a share of a number measured at the start would be a share of that
    moment.

    Example:
        >>> peak_flops("NVIDIA A100-SXM4-80GB"), peak_flops("NVIDIA H200"), peak_flops("NVIDIA GeForce RTX 3090")
        (312000000000000.0, 989400000000000.0, None)
    """
    if "MIG" in name:
        return None
    return next((peak for pattern, peak in _BF16 if re.search(pattern, name)), None)

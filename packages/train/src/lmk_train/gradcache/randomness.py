"""The state of the random generators that a forward pass draws from."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class RandomState:
    """The CPU's generator and the device's, as they were at one moment: replayed, dropout drops the same again."""

    cpu: Tensor
    device: Tensor | None
    kind: torch.device

    @classmethod
    def now(cls, device: torch.device) -> RandomState:
        own = None
        if device.type == "cuda":
            own = torch.cuda.get_rng_state(device)
        elif device.type == "mps":
            own = torch.mps.get_rng_state()
        return cls(torch.get_rng_state(), own, device)

    def restore(self) -> None:
        torch.set_rng_state(self.cpu)
        if self.device is None:
            return
        if self.kind.type == "cuda":
            torch.cuda.set_rng_state(self.device, self.kind)
        else:
            torch.mps.set_rng_state(self.device)

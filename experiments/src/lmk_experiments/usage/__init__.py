"""What a running job uses of its machine, written to the cell's records."""

from lmk_experiments.usage.sampler import sampled

__all__ = ["sampled"]

"""Bring what a grid needs into this machine's caches, so that its cells run where there is no network.

Importing this package imports neither torch, mteb nor the hub's client.
"""

from lmk_experiments.fetch.needs import GridNeeds, ModelMissing, grid_needs, require_model

__all__ = ["GridNeeds", "ModelMissing", "grid_needs", "require_model"]

"""Profiles: how one cluster is used. A YAML file becomes what the scheduler is told and what jobs may ask.

Importing this package imports neither torch, lightning nor mlflow.
"""

from lmk_experiments.profiles.load import load_profile
from lmk_experiments.profiles.needs import Facts, cpus_here, resources_of, shares_of, split_by
from lmk_experiments.profiles.schema import Profile

__all__ = ["Facts", "Profile", "cpus_here", "load_profile", "resources_of", "shares_of", "split_by"]

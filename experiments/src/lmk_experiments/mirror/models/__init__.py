"""Trained models as models of MLflow. Importing this package does not import mlflow."""

from lmk_experiments.mirror.models.log import Models, held_by_mlflow
from lmk_experiments.mirror.models.policy import ENVIRONMENT, POLICIES, Policy, chosen_policy

__all__ = ["ENVIRONMENT", "POLICIES", "Models", "Policy", "chosen_policy", "held_by_mlflow"]

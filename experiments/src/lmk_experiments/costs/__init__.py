"""What cells cost before they run: tokens, GPU hours and disk, and what the estimate rests on.

Importing this package imports neither torch, mteb nor mlflow.
"""

from lmk_experiments.costs.estimate import (
    Cost,
    evaluation_cost,
    pretraining_cost,
    total,
    training_cost,
)
from lmk_experiments.costs.plan import PlanCosts, plan_costs
from lmk_experiments.costs.throughput import Throughput, load_throughput

__all__ = [
    "Cost",
    "PlanCosts",
    "Throughput",
    "evaluation_cost",
    "load_throughput",
    "plan_costs",
    "pretraining_cost",
    "total",
    "training_cost",
]

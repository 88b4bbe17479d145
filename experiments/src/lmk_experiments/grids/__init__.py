"""A grid file, what it expands to, and the identity of each cell.

Importing this package imports neither torch, lightning nor mlflow.
"""

from lmk_experiments.grids.alone import Alone, load_training_file
from lmk_experiments.grids.assumed import Assumption
from lmk_experiments.grids.identity import NotBuilt, canonical, identity
from lmk_experiments.grids.load import Grid, load_grid_file
from lmk_experiments.grids.plan import (
    Plan,
    PlannedEvaluation,
    PlannedPretraining,
    PlannedRow,
    PlannedTraining,
    make_plan,
)
from lmk_experiments.grids.schema import GridFile
from lmk_experiments.grids.size import ModelSize
from lmk_experiments.grids.together import Counts, Difference, collected, count, difference

__all__ = [
    "Alone",
    "Assumption",
    "Counts",
    "Difference",
    "Grid",
    "GridFile",
    "ModelSize",
    "NotBuilt",
    "Plan",
    "PlannedEvaluation",
    "PlannedPretraining",
    "PlannedRow",
    "PlannedTraining",
    "canonical",
    "collected",
    "count",
    "difference",
    "identity",
    "load_grid_file",
    "load_training_file",
    "make_plan",
]

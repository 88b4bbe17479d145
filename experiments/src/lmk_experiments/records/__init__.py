"""What a cell leaves on disk. ``DONE.json`` is the truth; everything else is a hint or a mirror.

Importing this package imports neither torch, lightning nor mlflow.
"""

from lmk_experiments.records.atomic import read_json, write_json
from lmk_experiments.records.cell import (
    Cell,
    CellError,
    analysis_cell,
    evaluation_cell,
    pretraining_cell,
    training_cell,
)
from lmk_experiments.records.claim import Claim, ClaimedElsewhere
from lmk_experiments.records.grid import (
    AnalysisRecord,
    ElsewhereRecord,
    GridRecord,
    RowRecord,
    TrainingRecord,
    list_grids,
    load_grid,
    load_grids,
)
from lmk_experiments.records.listing import Listed, list_cells
from lmk_experiments.records.recorder import CellRecorder
from lmk_experiments.records.state import State, StateName

__all__ = [
    "AnalysisRecord",
    "Cell",
    "CellError",
    "CellRecorder",
    "Claim",
    "ClaimedElsewhere",
    "ElsewhereRecord",
    "GridRecord",
    "Listed",
    "RowRecord",
    "State",
    "StateName",
    "TrainingRecord",
    "analysis_cell",
    "evaluation_cell",
    "list_cells",
    "list_grids",
    "load_grid",
    "load_grids",
    "pretraining_cell",
    "read_json",
    "training_cell",
    "write_json",
]

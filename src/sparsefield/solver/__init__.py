"""The training loop and its optimizer."""

from sparsefield.solver.callbacks import FitCallbacks
from sparsefield.solver.fit_state import FitResult, PathPoint, TrainingOptions, WarmStart
from sparsefield.solver.model_selection import PathSelection, SelectionOptions, choose_l1, prune_by_wald
from sparsefield.solver.path_trainer import PathTrainer
from sparsefield.solver.selection_criteria import EBIC, SELECTIONS, HeldOut, SelectionCriterion
from sparsefield.solver.solver_options import Solver
from sparsefield.solver.trainer import Trainer

__all__ = [
    "EBIC",
    "SELECTIONS",
    "FitCallbacks",
    "FitResult",
    "HeldOut",
    "PathPoint",
    "PathSelection",
    "PathTrainer",
    "SelectionCriterion",
    "SelectionOptions",
    "Solver",
    "Trainer",
    "TrainingOptions",
    "WarmStart",
    "choose_l1",
    "prune_by_wald",
]

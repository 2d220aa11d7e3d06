"""This package contains the training loop, its optimizer, and the choice of l1."""

from sparsefield.solver.fit_state import FitCallbacks, FitResult, PathPoint, TrainingOptions, WarmStart
from sparsefield.solver.model_selection import PathSelection, prune_by_wald, select_l1
from sparsefield.solver.regularization_path import PathTrainer
from sparsefield.solver.selection_folds import SelectionOptions
from sparsefield.solver.solver_options import EBIC, SELECTIONS, HeldOut, SelectionCriterion, Solver
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
    "prune_by_wald",
    "select_l1",
]

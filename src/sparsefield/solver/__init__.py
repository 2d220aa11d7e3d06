"""The training loop and its optimizer."""

from sparsefield.solver.fit_state import FitResult, TrainingOptions, WarmStart
from sparsefield.solver.model_selection import PathSelection, SelectionOptions, choose_l1, prune_by_wald
from sparsefield.solver.path_trainer import PathTrainer
from sparsefield.solver.regularization_path import PathPoint
from sparsefield.solver.trainer import Trainer

__all__ = [
    "FitResult",
    "PathPoint",
    "PathSelection",
    "PathTrainer",
    "SelectionOptions",
    "Trainer",
    "TrainingOptions",
    "WarmStart",
    "choose_l1",
    "prune_by_wald",
]

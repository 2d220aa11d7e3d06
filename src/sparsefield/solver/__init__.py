"""This package contains the training loop, its optimizer, and the choice of l1."""

from sparsefield.solver.checkpoint import fingerprint
from sparsefield.solver.fit_state import FitCallbacks, FitResult, PathPoint, TrainingOptions, WarmStart
from sparsefield.solver.likelihood_stage import LikelihoodStage, fit_by_likelihood, is_tractable
from sparsefield.solver.model_selection import PathSelection, prune_by_wald, select_l1
from sparsefield.solver.regularization_path import PathTrainer, open_path_fold, warm_start
from sparsefield.solver.selection_checkpoint import SelectionCheckpoint
from sparsefield.solver.selection_folds import SelectionOptions
from sparsefield.solver.solver_options import EBIC, SELECTIONS, Features, HeldOut, SelectionCriterion, Solver
from sparsefield.solver.trainer import Trainer

__all__ = [
    "EBIC",
    "SELECTIONS",
    "Features",
    "FitCallbacks",
    "FitResult",
    "HeldOut",
    "LikelihoodStage",
    "PathPoint",
    "PathSelection",
    "PathTrainer",
    "SelectionCheckpoint",
    "SelectionCriterion",
    "SelectionOptions",
    "Solver",
    "Trainer",
    "TrainingOptions",
    "WarmStart",
    "fingerprint",
    "fit_by_likelihood",
    "is_tractable",
    "open_path_fold",
    "prune_by_wald",
    "select_l1",
    "warm_start",
]

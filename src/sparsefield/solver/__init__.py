"""The training loop, its optimizer, and the choice of l1."""

from sparsefield.solver.checkpoint import fingerprint
from sparsefield.solver.likelihood_stage import LikelihoodStage, fit_by_likelihood, is_tractable
from sparsefield.solver.model_selection import PathSelection, prune_by_wald, select_l1
from sparsefield.solver.path import Path, open_path_fold
from sparsefield.solver.selection_checkpoint import SelectionCheckpoint
from sparsefield.solver.selection_folds import SelectionOptions
from sparsefield.solver.solver_options import EBIC, SELECTIONS, Features, HeldOut, SelectionCriterion, Solver
from sparsefield.solver.state import FitCallbacks, FitResult, PathPoint, State, TrainingOptions, WarmStart

__all__ = [
    "EBIC",
    "SELECTIONS",
    "Features",
    "FitCallbacks",
    "FitResult",
    "HeldOut",
    "LikelihoodStage",
    "Path",
    "PathPoint",
    "PathSelection",
    "SelectionCheckpoint",
    "SelectionCriterion",
    "SelectionOptions",
    "Solver",
    "State",
    "TrainingOptions",
    "WarmStart",
    "fingerprint",
    "fit_by_likelihood",
    "is_tractable",
    "open_path_fold",
    "prune_by_wald",
    "select_l1",
]

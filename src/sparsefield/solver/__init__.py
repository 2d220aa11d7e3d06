"""The training loop, its optimizer, and the choice of l1."""

from sparsefield.solver.checkpoint import SelectionCheckpoint, fingerprint
from sparsefield.solver.folds import SelectionOptions
from sparsefield.solver.path import Path
from sparsefield.solver.policy import TrainingOptions
from sparsefield.solver.selection import PathSelection, prune_by_wald, select_l1
from sparsefield.solver.solver_options import EBIC, SELECTIONS, Features, HeldOut, SelectionCriterion, Solver
from sparsefield.solver.state import FitCallbacks, FitResult, PathPoint, State, WarmStart

__all__ = [
    "EBIC", "SELECTIONS", "Features", "FitCallbacks", "FitResult", "HeldOut", "Path", "PathPoint", "PathSelection",
    "SelectionCheckpoint", "SelectionCriterion", "SelectionOptions", "Solver", "State", "TrainingOptions", "WarmStart",
    "fingerprint", "prune_by_wald", "select_l1",
]  # fmt: skip

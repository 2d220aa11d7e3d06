"""The training loop and its optimizer."""

from sparsefield.solver.fit_state import Learned, Options, Start
from sparsefield.solver.iteration_record import Progress, Step
from sparsefield.solver.model_selection import Choice, Ways, choose_l1, drop_unsupported
from sparsefield.solver.path_trainer import Walker
from sparsefield.solver.regularization_path import PathPoint
from sparsefield.solver.trainer import Trainer

__all__ = [
    "Choice",
    "Learned",
    "Options",
    "PathPoint",
    "Progress",
    "Start",
    "Step",
    "Trainer",
    "Walker",
    "Ways",
    "choose_l1",
    "drop_unsupported",
]

"""The training loop and its optimiser."""

from sparsefield.learning.choice import Choice, Ways, choose_l1, drop_unsupported
from sparsefield.learning.path import PathPoint
from sparsefield.learning.plot import Learned, Options, Start
from sparsefield.learning.trace import Progress, Step
from sparsefield.learning.trainer import Trainer
from sparsefield.learning.walker import Walker

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

"""The training loop and its optimiser."""

from sparsefield.learning.trace import Progress, Step
from sparsefield.learning.trainer import Learned, Options, Trainer

__all__ = ["Learned", "Options", "Progress", "Step", "Trainer"]

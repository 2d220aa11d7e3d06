"""The training loop and its optimiser."""

from sparsefield.learning.plot import Learned, Options
from sparsefield.learning.trace import Progress, Step
from sparsefield.learning.trainer import Trainer

__all__ = ["Learned", "Options", "Progress", "Step", "Trainer"]

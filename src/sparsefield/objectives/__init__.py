"""Objectives by name. A new one is a file here and a line in the registry."""

from sparsefield.objectives.base import Objective, Workspace
from sparsefield.objectives.cd import ContrastiveDivergence
from sparsefield.objectives.evaluation import Contrast, Evaluator
from sparsefield.objectives.pl import PseudoLikelihood

OBJECTIVES: dict[str, type[Objective]] = {kind.name: kind for kind in (PseudoLikelihood, ContrastiveDivergence)}

__all__ = ["OBJECTIVES", "Contrast", "Evaluator", "Objective", "PseudoLikelihood", "Workspace"]

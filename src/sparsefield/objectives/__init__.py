"""Objectives, and the problems that they make of a dataset. A new one is a file here and a line in `OBJECTIVES`."""

from sparsefield.objectives.contrastive_divergence import ContrastiveDivergence
from sparsefield.objectives.dense_evaluator import CellObjective, DenseEvaluator, GradientFactors
from sparsefield.objectives.likelihood_evaluator import (
    BetheEvaluator,
    BetheLikelihood,
    ExactGradients,
    ExactLikelihood,
    LikelihoodEvaluator,
)
from sparsefield.objectives.objective import Objective, Problem
from sparsefield.objectives.pseudo_likelihood import CovariateGradientFactors, LatentEvaluator, PseudoLikelihood
from sparsefield.objectives.sparse_evaluator import SparseEvaluator, SparseGradientFactors
from sparsefield.objectives.training_rows import EM

OBJECTIVES: dict[str, type[Objective]] = {
    kind.name: kind for kind in (PseudoLikelihood, ContrastiveDivergence, ExactLikelihood, BetheLikelihood)
}
"""Objectives by name. Other packages add theirs by entry points of the group ``sparsefield.objectives``."""

__all__ = [
    "EM", "OBJECTIVES", "BetheEvaluator", "BetheLikelihood", "CellObjective", "ContrastiveDivergence",
    "CovariateGradientFactors", "DenseEvaluator", "ExactGradients", "ExactLikelihood", "GradientFactors",
    "LatentEvaluator", "LikelihoodEvaluator", "Objective", "Problem", "PseudoLikelihood", "SparseEvaluator",
    "SparseGradientFactors",
]  # fmt: skip

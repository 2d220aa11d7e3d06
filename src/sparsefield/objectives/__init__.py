"""Objectives, and the problems that they make of a dataset. A new one is a file here and a line in `OBJECTIVES`."""

from sparsefield.objectives.bethe_evaluator import BetheEvaluator, BetheLikelihood
from sparsefield.objectives.contrastive_divergence import ContrastiveDivergence
from sparsefield.objectives.covariate_evaluator import CovariateEvaluator, CovariateGradientFactors
from sparsefield.objectives.curvature import RegressionHessian
from sparsefield.objectives.dense_evaluator import CellObjective, DenseEvaluator, GradientFactors
from sparsefield.objectives.em_options import EM
from sparsefield.objectives.latent_evaluator import LatentEvaluator
from sparsefield.objectives.likelihood_evaluator import ExactGradients, ExactLikelihood, LikelihoodEvaluator
from sparsefield.objectives.objective import Objective, Problem
from sparsefield.objectives.pseudo_likelihood import PseudoLikelihood
from sparsefield.objectives.sparse_evaluator import SparseEvaluator, SparseGradientFactors

AnyGradientFactors = GradientFactors | SparseGradientFactors

OBJECTIVES: dict[str, type[Objective]] = {
    kind.name: kind for kind in (PseudoLikelihood, ContrastiveDivergence, ExactLikelihood, BetheLikelihood)
}
"""Objectives by name. Other packages add theirs by entry points of the group ``sparsefield.objectives``."""

__all__ = [
    "EM",
    "OBJECTIVES",
    "AnyGradientFactors",
    "BetheEvaluator",
    "BetheLikelihood",
    "CellObjective",
    "ContrastiveDivergence",
    "CovariateEvaluator",
    "CovariateGradientFactors",
    "DenseEvaluator",
    "ExactGradients",
    "ExactLikelihood",
    "GradientFactors",
    "LatentEvaluator",
    "LikelihoodEvaluator",
    "Objective",
    "Problem",
    "PseudoLikelihood",
    "RegressionHessian",
    "SparseEvaluator",
    "SparseGradientFactors",
]

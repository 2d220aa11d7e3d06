"""This package contains the objectives. A new one is a file here and a line in `OBJECTIVES`."""

from sparsefield.compute import Engine
from sparsefield.data import CovariateDataset, Dataset, SparseDataset
from sparsefield.inference import InferenceMethod
from sparsefield.objectives.bethe_evaluator import BetheEvaluator, BetheLikelihood
from sparsefield.objectives.contrastive_divergence import ContrastiveDivergence
from sparsefield.objectives.covariate_evaluator import CovariateEvaluator, CovariateGradientFactors
from sparsefield.objectives.curvature import RegressionHessian
from sparsefield.objectives.dense_evaluator import DenseEvaluator, GradientFactors
from sparsefield.objectives.em_options import EM
from sparsefield.objectives.latent_evaluator import LatentEvaluator
from sparsefield.objectives.likelihood_evaluator import (
    ExactGradients,
    ExactLikelihood,
    LikelihoodEvaluator,
    LikelihoodObjective,
)
from sparsefield.objectives.objective import Evaluator, Objective
from sparsefield.objectives.pseudo_likelihood import PseudoLikelihood
from sparsefield.objectives.sparse_evaluator import SparseEvaluator, SparseGradientFactors

AnyGradientFactors = GradientFactors | SparseGradientFactors
AnyObjective = Objective | LikelihoodObjective

OBJECTIVES: dict[str, type[Objective]] = {kind.name: kind for kind in (PseudoLikelihood, ContrastiveDivergence)}
"""Objectives that are sums over cells, by name."""

LIKELIHOODS: dict[str, type[LikelihoodObjective]] = {kind.name: kind for kind in (ExactLikelihood, BetheLikelihood)}
"""Likelihoods of whole rows, by name."""


def make_evaluator(
    sample: Dataset, objective: AnyObjective, engine: Engine, missing: EM | InferenceMethod | None = None
) -> Evaluator:
    """Return the evaluator of an objective; `pl` has others for sparse tables and covariates, and for latent variables.

    ``missing`` is for missing cells: see `DenseEvaluator`. The exact likelihood sums them out.
    """
    if isinstance(objective, LikelihoodObjective):
        local = sample.local()
        if local.kind != "dense":
            raise ValueError("the likelihood is for dense tables")
        return (BetheEvaluator if isinstance(objective, BetheLikelihood) else LikelihoodEvaluator)(local, engine)
    if sample.kind == "dense":
        if sample.is_local and sample.layout.has_latent and isinstance(objective, PseudoLikelihood):
            return LatentEvaluator(sample.local(), engine, missing)
        return DenseEvaluator(sample, objective, engine, missing)
    if not isinstance(objective, PseudoLikelihood):
        raise ValueError(f"a sparse table is for the objective 'pl', not {objective.name!r}")
    if isinstance(sample, CovariateDataset):
        return CovariateEvaluator(sample, engine)
    assert isinstance(sample, SparseDataset)
    return SparseEvaluator(sample, engine)


__all__ = [
    "EM",
    "LIKELIHOODS",
    "OBJECTIVES",
    "AnyGradientFactors",
    "AnyObjective",
    "BetheEvaluator",
    "BetheLikelihood",
    "CovariateEvaluator",
    "CovariateGradientFactors",
    "DenseEvaluator",
    "Evaluator",
    "ExactGradients",
    "ExactLikelihood",
    "GradientFactors",
    "LatentEvaluator",
    "LikelihoodEvaluator",
    "LikelihoodObjective",
    "Objective",
    "PseudoLikelihood",
    "RegressionHessian",
    "SparseEvaluator",
    "SparseGradientFactors",
    "make_evaluator",
]

"""Objectives by name. A new one is a file here and a line in the registry."""

from sparsefield.compute import Engine
from sparsefield.data import MegaSample, PlacedSample, SparseSample, Trainable
from sparsefield.objectives.contrastive_divergence import ContrastiveDivergence
from sparsefield.objectives.dense_evaluator import Contrast, Evaluator
from sparsefield.objectives.latent_evaluator import HiddenEvaluator
from sparsefield.objectives.objective import AnyEvaluator, Objective, Workspace
from sparsefield.objectives.pseudo_likelihood import PseudoLikelihood
from sparsefield.objectives.sparse_evaluator import SparseContrast, SparseEvaluator

AnyContrast = Contrast | SparseContrast

OBJECTIVES: dict[str, type[Objective]] = {kind.name: kind for kind in (PseudoLikelihood, ContrastiveDivergence)}


def make_evaluator(sample: Trainable, objective: Objective, engine: Engine) -> AnyEvaluator:
    """The evaluator for a mega-sample: one of its own where it is a sparse table, for which `pl` is the objective, and
    where `pl` has hidden variables to sum out."""
    if not (isinstance(sample, SparseSample) or (isinstance(sample, PlacedSample) and sample.sparse)):
        if isinstance(sample, MegaSample) and sample.layout.has_hidden and isinstance(objective, PseudoLikelihood):
            return HiddenEvaluator(sample, engine)
        return Evaluator(sample, objective, engine)
    if not isinstance(objective, PseudoLikelihood):
        raise ValueError(f"a sparse table is for the objective 'pl', not {objective.name!r}")
    return SparseEvaluator(sample, engine)


__all__ = [
    "OBJECTIVES",
    "AnyContrast",
    "AnyEvaluator",
    "Contrast",
    "Evaluator",
    "HiddenEvaluator",
    "Objective",
    "PseudoLikelihood",
    "SparseContrast",
    "SparseEvaluator",
    "Workspace",
    "make_evaluator",
]

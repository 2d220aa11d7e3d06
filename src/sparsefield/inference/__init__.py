"""Filling hidden cells. A new method is a file here and a line in the registry."""

from sparsefield.inference.belief_propagation import BeliefPropagation
from sparsefield.inference.exact_marginals import ExactInference
from sparsefield.inference.gibbs import Gibbs, draw, draw_often
from sparsefield.inference.mean_field import MeanField
from sparsefield.inference.method import InferenceMethod
from sparsefield.inference.posterior import Answers, ask, state_probabilities

INFERENCE: dict[str, type[InferenceMethod]] = {
    kind.name: kind for kind in (MeanField, BeliefPropagation, ExactInference, Gibbs)
}

__all__ = [
    "INFERENCE",
    "Answers",
    "BeliefPropagation",
    "ExactInference",
    "Gibbs",
    "InferenceMethod",
    "MeanField",
    "ask",
    "draw",
    "draw_often",
    "state_probabilities",
]

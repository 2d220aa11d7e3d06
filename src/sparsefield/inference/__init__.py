"""This package infers missing cells. A new method is one file here and one entry in `INFERENCE`."""

from sparsefield.inference.automatic import AutomaticInference
from sparsefield.inference.belief_propagation import BeliefPropagation
from sparsefield.inference.cell_probabilities import (
    CellProbabilities,
    Marginals,
    infer,
    infer_marginals,
    predict_observed,
    score_rows,
    state_probabilities,
)
from sparsefield.inference.exact_marginals import ExactInference
from sparsefield.inference.gibbs import Gibbs, draw, draw_often
from sparsefield.inference.log_partition import AIS, LogEstimate
from sparsefield.inference.mean_field import MeanField
from sparsefield.inference.method import InferenceMethod

INFERENCE: dict[str, type[InferenceMethod]] = {
    kind.name: kind for kind in (AutomaticInference, MeanField, BeliefPropagation, ExactInference, Gibbs)
}

__all__ = [
    "AIS",
    "INFERENCE",
    "AutomaticInference",
    "BeliefPropagation",
    "CellProbabilities",
    "ExactInference",
    "Gibbs",
    "InferenceMethod",
    "LogEstimate",
    "Marginals",
    "MeanField",
    "draw",
    "draw_often",
    "infer",
    "infer_marginals",
    "predict_observed",
    "score_rows",
    "state_probabilities",
]

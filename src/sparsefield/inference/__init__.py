"""Inference of missing cells. A new method is one file here and one entry in `INFERENCE`."""

from sparsefield.inference.automatic import AutomaticInference
from sparsefield.inference.belief_propagation import BeliefPropagation
from sparsefield.inference.cell_probabilities import (
    CellProbabilities,
    infer,
    infer_marginals,
    predict_observed,
    score_rows,
    state_probabilities,
)
from sparsefield.inference.elimination import ExactInference
from sparsefield.inference.gibbs import AIS, Gibbs, ShortGibbs, draw
from sparsefield.inference.method import InferenceMethod, Marginals, MeanField, settle_paths
from sparsefield.inference.missing_sums import LogEstimate

INFERENCE: dict[str, type[InferenceMethod]] = {
    kind.name: kind for kind in (AutomaticInference, MeanField, BeliefPropagation, ExactInference, Gibbs)
}

__all__ = [
    "AIS", "INFERENCE", "AutomaticInference", "BeliefPropagation", "CellProbabilities", "ExactInference", "Gibbs",
    "InferenceMethod", "LogEstimate", "Marginals", "MeanField", "ShortGibbs", "draw", "infer",
    "infer_marginals", "predict_observed", "score_rows", "settle_paths", "state_probabilities",
]  # fmt: skip

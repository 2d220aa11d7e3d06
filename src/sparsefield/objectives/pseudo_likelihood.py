"""Pseudo-likelihood: every observed cell is predicted from all other cells of its row."""

from __future__ import annotations

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Block, Dataset
from sparsefield.inference.method import InferenceMethod
from sparsefield.kernels.mean_field_sweep import sweep
from sparsefield.model import Adjacency
from sparsefield.objectives.covariate_evaluator import CovariateEvaluator
from sparsefield.objectives.dense_evaluator import CellObjective, DenseEvaluator
from sparsefield.objectives.em_options import EM
from sparsefield.objectives.latent_evaluator import LatentEvaluator
from sparsefield.objectives.objective import Problem
from sparsefield.objectives.sparse_evaluator import SparseEvaluator


class PseudoLikelihood(CellObjective):
    """Minimize the negative pseudo-log-likelihood: minus the sum over rows and observed cells of ln q1(cell).

    It is convex, its gradient is exact, and the expectations are q0. It is the sum of the losses of one regression per
    variable: see `sparsefield.objectives.regressions`.
    """

    name = "pl"
    by_regressions = True

    def sweep(self, block: Block, graph: Adjacency, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        errors = np.empty((block.n_target_columns, block.n_rows))
        loss = sweep(block, graph, theta, False, block.beliefs, errors, np.empty((0, 0)))
        return loss, errors, block.beliefs

    def make_problem(self, dataset: Dataset, engine: Engine, missing: EM | InferenceMethod | None = None) -> Problem:
        """Return the problem of a table that is dense, with or without latent variables, sparse, or of covariates."""
        if dataset.layout.schemas[0].has_sparse_covariates:
            return CovariateEvaluator(dataset, engine)
        if any(table.cells is not None for table in dataset.tables):
            return SparseEvaluator(dataset, engine)
        if dataset.is_dense and dataset.layout.has_latent:
            return LatentEvaluator(dataset, self, engine, missing)
        return DenseEvaluator(dataset, self, engine, missing)

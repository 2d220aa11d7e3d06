"""Evidence for edges: decorrelated score tests of the pseudo-likelihood, and false discovery rates.

A test asks whether the rows need the features of an edge beside those of all other edges (Ning and Liu, 2017).
Variances are those of the sandwich estimator (Godambe), q-values those of Benjamini and Hochberg over all candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import chdtrc
from scipy.stats import false_discovery_control

from sparsefield.data import Layout
from sparsefield.data.coding import ColumnClass
from sparsefield.induction import all_pairs
from sparsefield.inference.completions import FieldWeights
from sparsefield.kernels.regression_hessians import Designs, make_designs, set_sources
from sparsefield.model import pad_features
from sparsefield.model.fit_record import EdgeEvidence
from sparsefield.objectives.block_evaluation import EvaluatedBlock
from sparsefield.objectives.curvature import count_rows, groups_by_size, split_hessians, sum_curvature, wald_test
from sparsefield.solver.missing import ClampedBeliefs
from sparsefield.solver.state import State

MAX_OPERATIONS, MAX_ADDED, MAX_AT_FIXED_L1 = 2e10, 4e9, 5e8
"""Operations of the Hessians, above which edges are not tested, and features outside the field are left out of the
regressions; and where l1 was given and nothing is refitted, both: such a fit may take far less time than its tests
(`python -m benchmarks small`)."""

MIN_ROWS = 4.0
"""Rows for each parameter of a regression, below which they are left out, too."""

MIN_RIDGE, BIAS_RIDGE = 1.0, 1e-8
"""Least curvature that is added to each weight, which holds what the rows do not determine; and to each bias, as a
share of the largest curvature of its regression."""

LEVELS = (ColumnClass.LEVEL, ColumnClass.OBSERVED_LEVEL)


def edge_evidence(state: State, *, thorough: bool) -> EdgeEvidence | None:
    """Return the evidence for the edges of a fit by pseudo-likelihood to one dense table; None elsewhere.

    Wide tables have none, unless ``thorough``.

    The weights may be shrunk by L1, which one Newton step removes. The linear features of an edge are tested: those of
    levels are too many for their rows. Where the work allows it, all linear features of the table are in the
    regressions, so that no test depends on what was selected; otherwise edges outside the field count as tests with the
    p-value 1.
    """
    problem: Any = state.problem
    layout, working_set = state.layout, state.working_set
    single = len(layout.schemas) == 1 and not (layout.neighbor_views or layout.has_latent)
    if not (single and problem.has_wald_statistics) or isinstance(state.missing, ClampedBeliefs):
        return None
    state.missing.draw_few()  # variances count differences between completions: fewer of them are as good
    active = working_set.active
    features, n_biases = working_set.features[active], working_set.n_biases
    weights, n_rows = working_set.theta[n_biases:][active], int(count_rows(problem.source.rows, 1)[0])
    operations = n_rows * float(np.square(_count_parameters(layout, features)).sum())
    if operations > (MAX_OPERATIONS if thorough else MAX_AT_FIXED_L1):
        return None
    candidates = all_pairs(layout)
    linear = pad_features(candidates[_are_linear(layout, candidates)], features.shape[1])
    every = np.concatenate([features, linear[~np.isin(layout.keys(linear), layout.keys(features))]])
    parameters = _count_parameters(layout, every)
    complete = n_rows * float(np.square(parameters).sum()) <= (MAX_ADDED if thorough else MAX_AT_FIXED_L1)
    complete &= MIN_ROWS * parameters.max(initial=0.0) <= problem.total_weights[0]
    if complete:
        features, weights = every, np.pad(weights, (0, len(every) - len(features)))
    n_tested = len(np.unique(layout.edge_keys(candidates)))
    if not len(features):
        return EdgeEvidence((), (), (), n_tested)
    arcs, theta = layout.arcs(features), np.concatenate([working_set.theta[:n_biases], weights])
    graphs = problem.compile(arcs)
    problem.evaluate(graphs, theta)
    is_pair = (features[:, 2:] < 0).all(axis=1)
    edges, shares = np.full(len(features), -1), state.missing.observed_shares(arcs, len(features))
    keys = layout.edge_keys(features[is_pair, :2])
    _, first, edges[is_pair] = np.unique(keys, return_index=True, return_inverse=True)
    tested = np.flatnonzero(is_pair & _are_linear(layout, features[:, :2]))
    scores = edge_scores(problem.weights_of_field(graphs, theta), problem.evaluated, edges, tested, state.options.l2)
    ends, p_values = features[is_pair, :2][first], np.ones(len(first))
    # Residuals of a regression have less variance, the more parameters it has (HC1 of MacKinnon and White, 1985).
    correction = max(1.0 - _count_parameters(layout, features[tested]).max() / float(problem.total_weights[0]), 0.0)
    degrees = np.zeros(len(first)) if complete else np.square(layout.edge_factors(ends))
    for numbers, own, score, covariance in scores:
        statistic, rank = wald_test(score, covariance)
        statistic *= shares[own].mean(axis=1) * correction  # rows in which only one end is observed say nothing
        p_values[numbers] = chdtrc(np.maximum(rank, degrees[numbers]), statistic)
    q_values = false_discovery_control(np.pad(p_values, (0, n_tested - len(first)), constant_values=1.0))
    selected = np.bincount(edges[is_pair], weights[is_pair] != 0.0, len(first)) > 0
    variables = np.sort(layout.schemas[0].variable_of_column[ends[selected]], axis=1)
    return EdgeEvidence(
        tuple(map(tuple, variables.tolist())),
        tuple(p_values[selected].tolist()),
        tuple(q_values[: len(first)][selected].tolist()),
        n_tested,
    )


def _are_linear(layout: Layout, pairs: np.ndarray) -> np.ndarray:
    """Return which pairs have no indicator of a level or bin of an ordinal or numeric column."""
    return np.logical_not(np.isin(layout.column_classes[pairs], LEVELS).any(axis=1))


def _count_parameters(layout: Layout, features: np.ndarray) -> np.ndarray:
    """Return the number of parameters of the regression of each target, (targets,), as floats."""
    target = layout.arcs(features).target
    owner = layout.schemas[0].variable_of_column[: layout.n_target_columns]
    return np.bincount(np.concatenate([owner, owner[target]]), minlength=layout.n_targets).astype(float)


def edge_scores(
    field: FieldWeights, rows: Any, edges: np.ndarray, tested: np.ndarray, l2: float
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Return the tested features of edges, their scores decorrelated from other edges, and the covariances of these.

    An item is (edges; edges x features; scores; covariances), of edges with the same number of tested features.

    The loss is taken as quadratic around the weights. Without an edge, and with the other weights of the regressions of
    its ends where they would be then, minus the gradient of its features is their score. It is a sum over rows, so the
    products of the parts of rows estimate its covariance. Combinations of features that the rows do not determine, such
    as those of all states of a variable, have neither a score nor a variance.

    Parameters
    ----------
    field : over one table
    rows : blocks evaluated at the weights of the field
    edges : (features,) the number of the edge of each feature, -1 for none
    tested : numbers of the features that are tested
    l2 : added to the curvature of the weights, not to their gradients; at least `MIN_RIDGE` is
    """
    layout, n_biases = field.layout, field.layout.n_target_columns
    design, weights = make_designs(field.graphs[0], int(layout.widths[0])), field.theta[n_biases:]
    (hessians,) = rows.sum(sum_curvature, field, [design])
    place, scores, projections = np.full(len(weights), -1), np.zeros(len(tested)), []
    place[tested] = np.arange(len(tested))
    for parameter, hessian in split_hessians(design, hessians):
        feature = parameter - n_biases
        is_weight, projection = feature >= 0, np.zeros(hessian.shape)
        largest = hessian.diagonal().max(initial=1.0)
        ridge = max(l2, MIN_RIDGE, 1e-12 * largest)  # of weights of rows near 1e30, so that there is an inverse
        ridges = np.where(is_weight, ridge, BIAS_RIDGE * largest)
        inverse = np.linalg.inv(hessian + np.diag(ridges))
        edge, places = (np.where(is_weight, numbers[np.maximum(feature, 0)], -1) for numbers in (edges, place))
        for _, own in groups_by_size(edge):
            information = np.linalg.inv(inverse[own[:, :, None], own[:, None]])  # of these features, given all others
            projection[own] = information @ inverse[own]
            some = weights[feature[own]]
            own_scores, own = (information @ some[..., None])[..., 0] - ridge * some, places[own]
            scores[own[own >= 0]] += own_scores[own >= 0]
        shown = np.flatnonzero(places >= 0)
        projections.append((places[shown], projection[shown]))
    groups = list(groups_by_size(edges[tested]))
    sums, *products = rows.sum(_score_parts, len(tested), design, projections, [own for _, own in groups])
    scores -= sums
    return [(numbers, tested[own], scores[own], some) for (numbers, own), some in zip(groups, products, strict=True)]


def _score_parts(
    part: EvaluatedBlock,
    n_tested: int,
    design: Designs,
    projections: Sequence[tuple[np.ndarray, np.ndarray]],
    groups: Sequence[np.ndarray],
) -> tuple[np.ndarray, ...]:
    """Return the sums over rows of their decorrelated gradients, (tested,), and of the products of these by edge.

    A group is (edges, features).
    """
    weight, rows = part.block.weight, np.arange(part.block.n_rows)
    parts = np.zeros((n_tested, len(rows)))
    column = np.repeat(np.arange(len(design.offsets) - 1), np.diff(design.offsets))
    for v, (places, projection) in enumerate(projections):
        own = design.of_variable(v)
        slopes = np.empty((own.stop - own.start, len(rows)))
        set_sources(design.source[own], design.products, part.expectations, rows, slopes)
        slopes *= part.errors[column[own]]
        parts[places] += projection @ slopes
    sums = parts.sum(axis=1)
    parts /= np.sqrt(np.where(weight > 0, weight, 1.0))
    return sums, *(parts[own] @ parts[own].swapaxes(1, 2) for own in groups)

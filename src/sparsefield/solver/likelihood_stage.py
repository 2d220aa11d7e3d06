"""This module estimates the weights of a learned field by the exact likelihood, where its components are narrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from sparsefield.compute import Engine, Threads
from sparsefield.data import Dataset, Layout
from sparsefield.induction import FullL1, InductionRule
from sparsefield.induction.rules import FixedCandidatesRule
from sparsefield.model import Field, pad_features
from sparsefield.objectives import EM, ExactLikelihood, LikelihoodEvaluator
from sparsefield.objectives.likelihood_evaluator import targets_of_columns
from sparsefield.solver.path import Path
from sparsefield.solver.state import FitCallbacks, FitResult, TrainingOptions, WarmStart


class GivenFeatures(FixedCandidatesRule):
    """A rule without pairs of its own: the features are those of the warm start."""

    name = "given"


@dataclass(frozen=True)
class WideComponent:
    """Target variables that depend on each other too widely for the exact likelihood."""

    variables: tuple[int, ...]
    """Numbers of the targets, over all tables."""
    table_size: int
    """Entries of the first table of variable elimination that is beyond the limit."""


@dataclass(frozen=True)
class LikelihoodStage:
    """A field whose weights were estimated by the exact likelihood, except for wide components."""

    field: Field
    fit: FitResult | None
    """The fit of the narrow components; None if there are none."""
    max_cells: int
    wide: tuple[WideComponent, ...]


def is_tractable(dataset: Dataset, rule: InductionRule) -> bool:
    """Return whether the likelihood is tractable with any features that a rule may add."""
    with Threads(1) as engine:
        evaluator = LikelihoodEvaluator(dataset, engine)
        if rule.fixed_candidates and not isinstance(rule, FullL1):
            return not evaluator.too_wide(rule.start(dataset.layout))
        return joint_bits(dataset) <= np.log2(evaluator.max_cells) + 1e-9


def joint_bits(dataset: Dataset) -> float:
    """Return the logarithm (base 2) of the number of joint states of the targets of linked rows, at most."""
    bits = [np.log2(np.diff(schema.coding.state_offsets)).sum() for schema in dataset.layout.schemas]
    if dataset.is_single:
        return float(bits[0])
    rows = np.concatenate([np.full(table.n_rows, own) for table, own in zip(dataset.tables, bits, strict=True)])
    return float(np.bincount(dataset.components, rows).max(initial=0.0))


def fit_by_likelihood(
    dataset: Dataset,
    field: Field,
    options: TrainingOptions,
    engine: Engine,
    callbacks: FitCallbacks | None = None,
) -> LikelihoodStage:
    """Estimate the weights of a field by the exact likelihood; those of wide components stay as they are."""
    evaluator = LikelihoodEvaluator(dataset, engine)
    features = pad_features(field.features, options.max_order)
    wide = _wide_components(dataset.layout, features, evaluator)
    narrow = np.ones(dataset.layout.n_targets, dtype=bool)
    for component in wide:
        narrow[list(component.variables)] = False
    if not narrow.any():
        return LikelihoodStage(field, None, evaluator.max_cells, wide)
    kept = _are_narrow(dataset.layout, features, narrow)
    start = WarmStart(field.biases, features[kept], field.theta[len(field.biases) :][kept])
    path = Path(
        dataset,
        rule=GivenFeatures(),
        objective=ExactLikelihood(),
        missing=EM(),
        options=options,
        engine=engine,
        callbacks=callbacks,
        start=start,
    )
    fit = path.run()
    return LikelihoodStage(_merge(field, fit.field, narrow), fit, evaluator.max_cells, wide)


def _wide_components(layout: Layout, features: np.ndarray, evaluator: LikelihoodEvaluator) -> tuple[WideComponent, ...]:
    """Return connected components of targets, over features, with rows that are too wide."""
    found: dict[int, WideComponent] = {}
    component = _components_of_targets(layout, features)
    for variables, table_size in evaluator.too_wide(features):
        own = int(component[variables[0]])
        members = tuple(np.flatnonzero(component == own).tolist())
        found.setdefault(own, WideComponent(members, table_size))
    return tuple(found.values())


def _components_of_targets(layout: Layout, features: np.ndarray) -> np.ndarray:
    """Return the connected component of each target, (targets of all tables,)."""
    targets = np.append(targets_of_columns(layout), -1)[features]
    first, ends = np.repeat(targets[:, :1], targets.shape[1], axis=1).ravel(), targets.ravel()
    first, ends = first[ends >= 0], ends[ends >= 0]
    graph = sp.coo_matrix((np.ones(len(ends), dtype=np.int8), (first, ends)), shape=(layout.n_targets,) * 2)
    return connected_components(graph, directed=False)[1]


def _are_narrow(layout: Layout, features: np.ndarray, narrow: np.ndarray) -> np.ndarray:
    """Return which features belong to narrow targets, (features,); their first column is always one of a target."""
    return narrow[targets_of_columns(layout)[features[:, 0]]]


def _merge(field: Field, exact: Field, narrow: np.ndarray) -> Field:
    """Return a field with the weights of narrow targets replaced by those of another one."""
    layout, width = field.layout, max(field.features.shape[1], exact.features.shape[1])
    features, others = pad_features(field.features, width), pad_features(exact.features, width)
    weights, n = field.theta[len(field.biases) :].copy(), len(field.biases)
    keys, found = layout.keys(features), layout.keys(others)
    order = np.argsort(found)
    place = np.minimum(np.searchsorted(found[order], keys), max(len(found) - 1, 0))
    own = _are_narrow(layout, features, narrow)
    if len(found):
        known = found[order][place] == keys
        weights[own] = np.where(known, exact.theta[n:][order][place], 0.0)[own]
    else:
        weights[own] = 0.0
    own_biases = narrow[targets_of_columns(layout)[layout.column_of_target]]
    biases = np.where(own_biases, exact.biases, field.biases)
    split, kept = len(field.pairs), weights != 0.0
    return replace(
        field,
        biases=biases,
        pairs=field.pairs[kept[:split]],
        weights=weights[:split][kept[:split]],
        conjunctions=field.conjunctions[kept[split:]],
        conjunction_weights=weights[split:][kept[split:]],
    )


def names_of_targets(layout: Layout, numbers: Sequence[int]) -> list[str]:
    """Return the names of targets, numbered over all tables; with their table if there are several."""
    names = [
        variable.name if len(layout.tables) == 1 else f"{table}.{variable.name}"
        for table, schema in zip(layout.tables, layout.schemas, strict=True)
        for variable in schema.targets
    ]
    return [names[number] for number in numbers]

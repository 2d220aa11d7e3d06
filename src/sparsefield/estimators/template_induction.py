"""Induction of templates: those over which left-out features promise most, confirmed by predictions of hidden cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from sparsefield.compute import Engine
from sparsefield.data import Dataset, Layout, Relational, Template, update_neighbor_sums, weigh_rows
from sparsefield.data.links import ForeignKey
from sparsefield.data.paths import PathView
from sparsefield.estimators.field_estimator import FieldEstimator, as_seed
from sparsefield.estimators.training import make_path, training_options
from sparsefield.induction import Grafting
from sparsefield.inference import MeanField
from sparsefield.model import Field
from sparsefield.objectives import EM, PseudoLikelihood
from sparsefield.objectives.objective import PairQuery
from sparsefield.solver import FitCallbacks, HeldOut, SelectionOptions, WarmStart
from sparsefield.solver.folds import Scores, make_folds
from sparsefield.solver.path import Path
from sparsefield.solver.working_set import CenteredParametrization

SHARE_OF_LARGEST = 0.02
"""The l1 of trials, as a share of the largest gradient of a field of biases, where the estimator selects its own."""

MAX_ENTITIES = 500
"""Entities of a template over paths, up to which it is tried: others take long."""

MOST_LINKS = 3
"""Links of a template "mean" at most."""

MOST_FEATURES = 200
"""The features of a template whose gains are added up: more of them express the same dependence again."""

LEAST_GAIN = 0.01
"""Templates whose features promise less than this share of the largest gain are not tried."""

TRIED_ROWS = 3_000
"""Rows of a table, among others that influence them, from which templates over paths are learned in trials."""

ROUNDS, MOST_STEPS = 2, 20
"""How often a trial scores its candidates, and steps of the optimizer after each time."""

TRIAL_TOLERANCE = 0.1
"""Violation of optimality, as a share of l1, at which a trial ends."""

STANDARD_ERRORS = 1.0
"""A template is admitted if hidden cells are predicted better by so many standard errors of the difference."""


class Trial(NamedTuple):
    """A field over some templates, and what it says of cells that it was not learned from."""

    field: Field
    beliefs: Sequence[np.ndarray]
    """Those of the targets of each block of rows."""
    scores: np.ndarray
    """(batches,): mean log-probabilities of hidden cells."""


def candidate_templates(data: Relational, base: Sequence[Template]) -> list[Template]:
    """Return the templates that may be added to the default ones: swapped, shared, joined, mean, triangle and cycle."""
    known, templates = {template.label for template in base}, []
    keys = {name: link for name, link in data.links.items() if isinstance(link, ForeignKey)}
    for name, link in keys.items():
        if data.variables(link.table) and np.bincount(data.linked_rows(name)[1]).max(initial=0) > 1:
            templates.append(Template("shared", (name,)))
    for first, second in combinations(keys, 2):
        table, to = keys[first].table, keys[first].to
        if keys[second].table != table:
            continue
        if data.variables(to) and data.variables(keys[second].to):
            templates.append(Template("joined", (first, second)))
        if keys[second].to == to and data.variables(table):
            templates.append(Template("swapped", (first, second)))
            if data.sources[to].n_rows <= MAX_ENTITIES:
                templates += [Template("triangle", (first, second)), Template("cycle", (first, second))]
    walks: list[tuple[tuple[str, ...], tuple[str, ...]]]
    walks = [((link.to, link.table), (name,)) for name, link in keys.items() if data.variables(link.to)]
    for tables, names in walks:  # which grows, and visits each table once
        joins = len(names) == 2 and keys[names[0]].table == keys[names[1]].table
        if len(names) > 1 and data.variables(tables[-1]) and not joins:
            templates.append(Template("mean", names))
        for name, link in keys.items():
            to = link.to if tables[-1] == link.table else link.table
            if tables[-1] in (link.table, link.to) and to not in tables and len(names) < MOST_LINKS:
                walks.append(((*tables, to), (*names, name)))
    return [template for template in templates if template.label not in known]


def induce_templates(
    estimator: FieldEstimator,
    base: Sequence[Template],
    candidates: Iterable[Template],
    compile: Callable[[Sequence[Template]], Dataset],
    engine: Engine,
    share: float = 1.0,
) -> tuple[tuple[Template, ...], WarmStart | None, list[str]]:
    """Return the templates that predict hidden cells better, a start for them, and a report in words.

    Base templates over links are left out where they make predictions worse, as weights that few entities share do; of
    data of which a share is searched all of them stay. Then, in each round, the gains of all candidates are estimated
    at the field over the templates so far, and the best one is tried. ``compile`` returns the dataset of some
    templates, perhaps of a ``share`` of the rows.
    """
    within = tuple(template for template in base if template.kind == "within") if share == 1.0 else ()
    chosen, waiting, words = within or tuple(base), list(candidates), list[str]()
    if not waiting:
        return tuple(base), None, words
    options = training_options(estimator)
    if estimator.resolve("objective").is_pseudo_likelihood and isinstance(estimator.resolve("missing"), EM):
        # Draws take longer, and say the same of templates.
        copy: Any = clone(estimator)
        estimator = copy.set_params(missing="mean-field")
    if isinstance(estimator.l1, str):
        alone = replace(options, l1=np.finfo(float).max, certify=False)
        path = make_path(estimator, compile(base), alone, engine, callbacks=FitCallbacks())
        path.run()
        options = replace(options, l1=SHARE_OF_LARGEST * path.l1_max())
    else:
        options = replace(options, l1=share * options.l1)
    seed, sizes = as_seed(estimator.random_state) or 0, [table.n_rows for table in compile(base).tables]
    ways = SelectionOptions(criterion=HeldOut(folds=1), seed=seed)
    part = min(1.0, TRIED_ROWS / max(sizes)) if any(template.over_paths for template in waiting) else 1.0
    weights = (np.random.default_rng(seed).random(sum(sizes)) < part).astype(float)
    most_steps = min(MOST_STEPS, options.max_iter)
    options = replace(options, certify=True, rough=True, max_iter=most_steps, kkt_tol=TRIAL_TOLERANCE)
    if share * part < 1.0:
        words.append(f"templates are tried on {share * part:.1%} of the rows")

    def hide(templates: Sequence[Template], last: Trial | None) -> tuple[Dataset, Callable[[Path], Scores]]:
        train, score = make_folds(compile(templates), engine, ways).folds[0]()
        for (_, block), beliefs in zip(train.blocks(), last.beliefs if last else (), strict=False):
            block.beliefs[: len(beliefs)] = beliefs
        if last is not None:
            update_neighbor_sums(train, [table.blocks for table in train.tables])
        return weigh_rows(train, weights) if part < 1.0 else train, score

    def attempt(templates: Sequence[Template], last: Trial | None) -> Trial:
        train, score = hide(templates, last)
        start = None if last is None else renumbered(last.field, train.layout)
        path = make_path(estimator, train, options, engine, callbacks=FitCallbacks())
        path.state.begin(start)
        for _ in range(ROUNDS):
            path.step_to(options.l1, ahead=False)
            if len(path.state.records) < most_steps:
                break
        source: Any = getattr(path.state.problem, "source", None)
        beliefs = [block.beliefs[: block.n_target_columns].copy() for block in getattr(source, "blocks", ())]
        return Trial(path.state.working_set.field, beliefs, score(path)[0])

    def admit(template: Template, least: float) -> bool:
        """Add a template if hidden cells are predicted better by more than ``least`` standard errors."""
        nonlocal chosen, current
        tried = attempt((*chosen, template), current)
        difference = tried.scores - current.scores  # a single one where EBIC decides
        better, n = float(difference.mean()), len(difference)
        error = float(difference.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
        if admitted := better > least * error:
            chosen, current = tuple(sorted((*chosen, template), key=lambda t: t.over_paths)), tried
        verdict = "added" if admitted else "left out"
        words.append(f"{template.label} {verdict}: hidden cells {better:+.4f} +- {error:.4f} log-probability per cell")
        return admitted

    current, gains, most = attempt(chosen, None), [], 0.0
    for template in base[len(within) :] if within else ():
        admit(template, 0.0)
    while waiting:
        if not gains:
            gains = estimated_gains(hide((*chosen, *waiting), current)[0], current.field, waiting, options.l1, engine)
        best = int(np.argmax(gains))
        template, gain = waiting.pop(best), gains.pop(best)
        most = max(most, gain)
        if gain <= LEAST_GAIN * most:
            others = ", ".join(t.label for t in (template, *waiting))
            words.append(f"features over {others} promise {gain / max(most, 1.0):.1%} of the largest gain or less")
            break
        if admit(template, STANDARD_ERRORS):
            gains = []
    return chosen, WarmStart.from_field(current.field), words


def estimated_gains(
    dataset: Dataset, field: Field, templates: Sequence[Template], l1: float, engine: Engine
) -> list[float]:
    """Return by how much the best features over each template would lower the loss, minus the price of their choice.

    A feature with gradient g and curvature h gains up to (|g| - l1)^2 / 2h; its choice among the n candidates of the
    template costs ln n. Nothing is promised by more features than there are known cells.
    """
    layout, start = dataset.layout, renumbered(field, dataset.layout)
    problem: Any = PseudoLikelihood().make_problem(dataset, engine, MeanField(tolerance=1e-3))
    theta = np.concatenate([start.biases, start.weights])
    graphs = problem.compile(layout.arcs(start.features))
    problem.evaluate(graphs, theta)
    known = np.sort(layout.keys(start.features[:, :2]))
    proposals = problem.gradient_factors().propose(Grafting(), PairQuery(l1, known, None))
    arcs, n, (means, variances) = layout.arcs(proposals.features), layout.n_target_columns, problem.moments()
    centered = CenteredParametrization(means, variances, np.ones(n, dtype=bool))
    curvature = centered.curvature(arcs, problem.bias_hessian(), len(proposals.features))[n:]
    excess = np.abs(proposals.gradient) - l1 * layout.feature_factors(proposals.features)
    best = np.square(np.maximum(excess, 0.0)) / (2.0 * np.maximum(curvature, 1e-9))
    views, n_cells, gains = columns_of_views(layout), sum(int((t.codes() >= 0).sum()) for t in dataset.tables), []
    for template in templates:
        number = layout.templates.index(template)
        n_features = sum(block.n_candidates for block in layout.candidate_blocks if block.template == number)
        n_features += sum(view.n_features for view in layout.path_views if view.template == number)
        columns = [k for (label, _), own in views.items() if label == template.label for k in own]
        own = best[np.isin(proposals.features[:, 1], columns)] - np.log(max(n_features, 1))
        gains.append(float(np.sort(np.maximum(own, 0.0))[-MOST_FEATURES:].sum()) if n_features <= n_cells else 0.0)
    return gains


def columns_of_views(layout: Layout) -> dict[tuple[str, int], np.ndarray]:
    """Return {(template, side): the numbers of the columns of a view of neighbors or paths}."""
    places = {}
    for view in (*layout.neighbor_views, *layout.path_views):
        table, side = (view.table, view.side) if isinstance(view, PathView) else (view.target_table, view.forward)
        columns = layout.column_starts[table] + np.arange(view.start, view.stop)
        places[layout.templates[view.template].label, int(side)] = columns
    return places


def renumbered(field: Field, layout: Layout) -> WarmStart:
    """Return the weights of a field with the column numbers of a layout that has all of its templates."""
    old, number = field.layout, np.empty(field.layout.n_columns, dtype=np.int64)
    for t, schema in enumerate(old.schemas):
        own = np.arange(schema.n_columns)
        number[old.column_starts[t] + own] = layout.column_starts[t] + own
    places = columns_of_views(layout)
    for view, columns in columns_of_views(old).items():
        number[columns] = places[view]
    features = np.where(field.features >= 0, number[field.features], -1)
    return WarmStart(field.biases, features, field.theta[len(field.biases) :])

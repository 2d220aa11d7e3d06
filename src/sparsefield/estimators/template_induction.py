"""Induction of templates: those over which left-out features promise most, confirmed by predictions of hidden cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from sparsefield.compute import Engine
from sparsefield.data import Dataset, Layout, Relational, Template
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
from sparsefield.solver.folds import make_folds
from sparsefield.solver.working_set import CenteredParametrization

SHARE_OF_LARGEST = 0.02
"""The l1 of trials, as a share of the largest gradient of a field of biases, where the estimator selects its own."""

MAX_ENTITIES = 500
"""Entities of a template over paths, up to which it is tried: others take long."""

MOST_LINKS = 3
"""Links of a template "mean" at most."""

MOST_FEATURES = 200
"""The features of a template whose gains are added up: more of them express the same dependence again."""

MOST_STEPS = 100
"""Optimizer steps of a trial."""

STANDARD_ERRORS = 1.0
"""A template is admitted if hidden cells are predicted better by so many standard errors of the difference."""

UNIT = "log-probability per cell"


class Trial(NamedTuple):
    """A field over some templates, and what it says of cells that it was not learned from."""

    dataset: Dataset
    """The rows that it was learned from."""
    field: Field
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
    ways = SelectionOptions(criterion=HeldOut(folds=1), seed=as_seed(estimator.random_state) or 0)

    def attempt(templates: Sequence[Template], last: Trial | None) -> Trial:
        train, score = make_folds(compile(templates), engine, ways).folds[0]()
        start = None if last is None else renumbered(last.field, train.layout)
        settings = replace(options, certify=True, rough=True, max_iter=min(options.max_iter, MOST_STEPS))
        path = make_path(estimator, train, settings, engine, start=start, callbacks=FitCallbacks())
        field = path.run().field
        return Trial(train, field, score(path)[0])

    current, gains = attempt(chosen, None), []
    for template in base[len(within) :] if within else ():
        tried = attempt((*chosen, template), current)
        better, error = mean_difference(tried, current)
        if better >= 0.0:
            chosen, current = (*chosen, template), tried
        else:
            words.append(f"{template.label} left out: hidden cells {better:+.4f} +- {error:.4f} {UNIT}")
    while waiting:
        for template in waiting if not gains else ():
            train = make_folds(compile((*chosen, template)), engine, ways).folds[0]()[0]
            gains.append(estimated_gain(train, current.field, template, options.l1, engine))
        best = int(np.argmax(gains))
        template, gain = waiting.pop(best), gains.pop(best)
        if gain <= 0.0:
            words.append(f"no feature over {', '.join(t.label for t in (template, *waiting))} promises to help")
            break
        tried = attempt((*chosen, template), current)
        better, error = mean_difference(tried, current)
        verdict = "added" if better > STANDARD_ERRORS * error else "left out"
        words.append(f"{template.label} {verdict}: hidden cells {better:+.4f} +- {error:.4f} {UNIT}")
        if verdict == "added":
            chosen, current = tuple(sorted((*chosen, template), key=lambda t: t.over_paths)), tried
            gains = []
    return chosen, WarmStart.from_field(current.field), words


def mean_difference(tried: Trial, current: Trial) -> tuple[float, float]:
    """Return by how much hidden cells are predicted better, and its standard error; where EBIC decides, 0."""
    difference = tried.scores - current.scores
    n = len(difference)
    return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0


def estimated_gain(dataset: Dataset, field: Field, template: Template, l1: float, engine: Engine) -> float:
    """Return by how much the best features over a template would lower the loss, minus the price of their choice.

    A feature with gradient g and curvature h gains up to (|g| - l1)^2 / 2h; its choice among the n candidates of the
    template costs ln n. Nothing is promised by more features than there are known cells.
    """
    layout, start = dataset.layout, renumbered(field, dataset.layout)
    n_features = layout.n_candidate_pairs - field.layout.n_candidate_pairs
    if n_features > sum(np.count_nonzero(table.codes() >= 0) for table in dataset.tables):
        return 0.0
    problem: Any = PseudoLikelihood().make_problem(dataset, engine, MeanField(tolerance=1e-3))
    theta = np.concatenate([start.biases, start.weights])
    graphs = problem.compile(layout.arcs(start.features))
    if dataset.has_missing:
        problem.source.impute(problem.weights_of_field(graphs, theta))
    problem.evaluate(graphs, theta)
    known = np.sort(layout.keys(start.features[:, :2]))
    proposals = problem.gradient_factors().propose(Grafting(), PairQuery(l1, known, None))
    views = columns_of_views(layout).items()
    of_template = [k for (label, _), columns in views if label == template.label for k in columns]
    own = np.flatnonzero(np.isin(proposals.features[:, 1], of_template))
    if not len(own):
        return 0.0
    arcs, n, (means, variances) = layout.arcs(proposals.features[own]), layout.n_target_columns, problem.moments()
    centered = CenteredParametrization(means, variances, np.ones(n, dtype=bool))
    curvature = centered.curvature(arcs, problem.bias_hessian(), len(own))[n:]
    excess = np.abs(proposals.gradient[own]) - l1 * layout.feature_factors(proposals.features[own])
    gains = np.square(np.maximum(excess, 0.0)) / (2.0 * np.maximum(curvature, 1e-9)) - np.log(n_features)
    return float(np.sort(np.maximum(gains, 0.0))[-MOST_FEATURES:].sum())


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

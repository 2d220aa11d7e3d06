"""Induction of templates: those over which left-out features promise most, confirmed by predictions of hidden cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from sparsefield.compute import Engine
from sparsefield.data import Dataset, Layout, Relational, Template, weigh_rows
from sparsefield.data.links import ForeignKey
from sparsefield.data.paths import PathView
from sparsefield.data.relational import sample_rows
from sparsefield.errors import DataError
from sparsefield.estimators.field_estimator import FieldEstimator, as_seed
from sparsefield.estimators.training import make_path, training_options
from sparsefield.induction import FullL1, Grafting
from sparsefield.inference import MeanField
from sparsefield.model import Field
from sparsefield.objectives import EM, PseudoLikelihood
from sparsefield.objectives.objective import PairQuery
from sparsefield.solver import FitCallbacks, HeldOut, SelectionOptions, WarmStart
from sparsefield.solver.folds import BATCHES, FoldRows, cell_folds
from sparsefield.solver.selection import EMPTY_FIELD_L1
from sparsefield.solver.working_set import CenteredParametrization

SEARCHED_ROWS = 100_000
"""Rows of all tables among which templates are sought; of larger ones there is a sample."""

LEAST_CELLS = 10 * BATCHES
"""Known cells of a search, of which it hides a fifth."""

SHARE_OF_LARGEST = 0.02
"""The l1 of trials, as a share of the largest gradient of a field of biases, where the estimator selects its own."""

MAX_ENTITIES = 500
"""Entities of a template over paths, up to which it is tried: others take long."""

MOST_LINKS = 3
"""Links of a template "mean" at most."""

TRIED_ROWS = 3_000
"""Rows of a table, among others that influence them, from which templates over paths are learned in trials: with all
rows, a fit to 18,225 pairs of entities and 49 relations takes 1.4 times as long."""

MOST_SWAPPED = 20
"""Rows r(m, n) for each row r(n, m) at most, on average, of a template "swapped" that is tried."""

MOST_FEATURES = 200
"""The features of a template whose gains are added up: more of them express the same dependence again."""

LEAST_GAIN = 0.01
"""Templates whose features promise less than this share of the largest gain are not tried."""

ROUNDS, MOST_STEPS = 2, 20
"""How often a trial scores its candidates, and steps of the optimizer after each time."""

TRIAL_TOLERANCE = 0.1
"""Violation of optimality, as a share of l1, at which a trial ends."""

STANDARD_ERRORS = 1.0
"""A template is admitted if hidden cells are predicted better by so many standard errors of the difference, and one of
the base is left out if they are predicted worse by as many."""


class Trial(NamedTuple):
    """A field over some templates, and how it predicts cells that it was not learned from."""

    field: Field
    beliefs: Sequence[np.ndarray]
    """Those of the targets of each block of rows."""
    scores: np.ndarray
    """(batches,): mean log-probabilities of hidden cells."""


def candidate_templates(data: Relational, base: Sequence[Template], paths: bool) -> list[Template]:
    """Return the templates that may be added to the base: swapped, shared, joined, mean, triangle and cycle."""
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
            counts = data.link_matrix(first, False) @ data.link_matrix(second, True)
            if (counts * counts.T).sum() <= MOST_SWAPPED * data.sources[table].n_rows:
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
    return [t for t in templates if t.label not in known and (paths or not (t.over_paths or t.along_links))]


def induce_templates(
    estimator: FieldEstimator,
    data: Relational,
    dataset: Dataset,
    compile: Callable[[Sequence[Template], Relational], Dataset],
    engine: Engine,
    *,
    paths: bool,
) -> tuple[tuple[Template, ...], WarmStart | None, list[str]]:
    """Return the templates that predict hidden cells better, a start for them, and a report in words.

    Templates of the base, those of the dataset, are left out where they make predictions clearly worse, as weights few
    entities share do; where only a sample of the rows is searched all of them stay. Then, in each round, the gains of
    all candidates are estimated at the field over the templates so far, and the best one is tried. ``compile`` returns
    the dataset of some templates and rows; without ``paths``, there are no triangles, cycles and means. Where no search
    is possible, a `DataError` says why.
    """
    base = dataset.layout.templates
    waiting, words = candidate_templates(data, base, paths), list[str]()
    sample, share = sample_rows(data, SEARCHED_ROWS, as_seed(estimator.random_state) or 0)
    within = tuple(template for template in base if template.kind == "within") if share == 1.0 else base
    if not waiting and within == base:
        return base, None, words
    sizes = [source.n_rows for source in sample.sources.values()]
    refuse_search(estimator, dataset, sum(sizes))
    # Trials are the same whatever is learned later: draws, products of columns and other rules take longer.
    missing = "mean-field" if isinstance(estimator.resolve("missing"), EM) else estimator.missing
    trying: Any = clone(estimator)
    trying.set_params(objective="pl", induction="cfi", features__max_order=2, penalty="l1", missing=missing)
    chosen, options = within, training_options(trying)
    hidden, ways = HeldOut(folds=1), SelectionOptions(seed=as_seed(estimator.random_state) or 0)
    part = min(1.0, TRIED_ROWS / max(sizes)) if any(template.over_paths for template in waiting) else 1.0

    def hide(templates: Sequence[Template], last: Trial | None) -> FoldRows:
        plan = cell_folds(compile(templates, sample), hidden, engine, ways, np.random.default_rng(ways.seed))
        if plan is None:
            raise DataError("too few cells can be hidden without the last example of a state")
        train, score = plan.folds[0](last.beliefs if last else ())
        tried = np.random.default_rng(ways.seed).random(train.n_rows) < part
        return train if part == 1.0 else weigh_rows(train, tried.astype(float)), score

    if isinstance(trying.l1, str):
        alone = replace(options, l1=EMPTY_FIELD_L1, certify=False)
        path = make_path(trying, hide(base, None)[0], alone, engine, callbacks=FitCallbacks())
        path.run()
        options = replace(options, l1=SHARE_OF_LARGEST * path.l1_max() / part)
    else:
        options = replace(options, l1=share * options.l1)
    most_steps = min(MOST_STEPS, options.max_iter)
    options = replace(options, certify=True, rough=True, max_iter=most_steps, kkt_tol=TRIAL_TOLERANCE)
    if share * part < 1.0:
        words.append(f"templates are tried on {share * part:.1%} of the rows")

    def attempt(templates: Sequence[Template], last: Trial | None) -> Trial:
        train, score = hide(templates, last)
        start = None if last is None else renumbered(last.field, train.layout)
        path = make_path(trying, train, options, engine, callbacks=FitCallbacks())
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
        try:
            tried = attempt((*chosen, template), current)
        except DataError as error:
            words.append(f"{template.label} left out: {error}")
            return False
        difference = tried.scores - current.scores
        better, error = float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(len(difference)))
        if admitted := better > least * error:
            chosen, current = tuple(sorted((*chosen, template), key=lambda t: t.over_paths)), tried
        verdict = "added" if admitted else "left out"
        words.append(f"{template.label} {verdict}: hidden cells {better:+.4f} +- {error:.4f} log-probability per cell")
        return admitted

    def estimate(templates: Sequence[Template]) -> list[float]:
        """Estimate gains; where not all templates fit into memory, those of each, and drop which alone do not."""
        try:
            train, _ = hide((*chosen, *templates), current)
            return estimated_gains(train, current.field, templates, options.l1, engine)
        except DataError as error:
            if len(templates) > 1:
                return [gain for template in templates for gain in estimate([template])]
            waiting.remove(templates[0])
            words.append(f"{templates[0].label} left out: {error}")
            return []

    current, gains, most = attempt(chosen, None), list[float](), 0.0
    for template in base[len(within) :]:
        admit(template, -STANDARD_ERRORS)
    while waiting and (gains := gains or estimate(tuple(waiting))):
        best = int(np.argmax(gains))
        template, gain = waiting.pop(best), gains.pop(best)
        most = max(most, gain)
        if gain <= LEAST_GAIN * most:
            others = ", ".join(t.label for t in (template, *waiting))
            share_of_most = f"at most {gain / most:.1%} of the largest" if gain else "none"
            words.append(f"{others} not tried: estimated gain {share_of_most}")
            break
        if admit(template, STANDARD_ERRORS):
            gains = []
    return chosen, WarmStart.from_field(current.field) if share == 1.0 else None, words


def refuse_search(estimator: FieldEstimator, dataset: Dataset, n_rows: int) -> None:
    """Say why no search is possible among so many rows, where that is so, by a `DataError`."""
    rule, by_likelihood = estimator.resolve("induction"), estimator.resolve("objective").is_likelihood
    reasons = {
        "a fixed graph names them": rule.fixed_candidates and not isinstance(rule, FullL1),
        "a fit by likelihood needs the base templates": by_likelihood or estimator.refit == "ml",
        "there are too few cells to hold some out": sum((t.codes() >= 0).sum() for t in dataset.tables) < LEAST_CELLS,
        f"{n_rows:,} rows, of which there is no sample, are too many": n_rows > 2 * SEARCHED_ROWS,
    }
    for reason in (words for words, holds in reasons.items() if holds):
        raise DataError(reason)


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

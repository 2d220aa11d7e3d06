"""The page about a field, in two modes: one HTML file that works offline, and the page that `server` serves.

Python prepares values; ``templates/`` has the HTML, and ``static/`` the scripts and the style sheet.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from sklearn.utils.validation import check_is_fitted

from sparsefield.analysis import calibration
from sparsefield.analysis.centrality import Centrality, find_centrality
from sparsefield.analysis.confidence_intervals import ConfidenceIntervals
from sparsefield.analysis.feature_sentences import list_features
from sparsefield.analysis.network import Network
from sparsefield.analysis.predictability import Predictability, find_predictability
from sparsefield.analysis.scored_rows import ScoredRows, score_rows
from sparsefield.app.pages.data_shares import DataShares
from sparsefield.app.pages.findings import describe_gains, tell_findings
from sparsefield.app.pages.fit_summary import (
    count,
    describe_convergence,
    describe_kinds,
    describe_size,
    describe_weights,
)
from sparsefield.app.pages.groups import Groups, find_groups
from sparsefield.app.pages.network_document import describe_network, distribution
from sparsefield.app.pages.repeat_fit import (
    FitDescription,
    as_command,
    as_python,
    changed_options,
    describe_fit,
    list_versions,
)
from sparsefield.app.pages.stability_text import COLUMN_TITLE, describe_stability, stability_column
from sparsefield.app.tables.read_options import source_of
from sparsefield.data.schema import Variable
from sparsefield.model import Field
from sparsefield.model.atomic_write import write_atomically

ExtraColumns = Mapping[str, Mapping[str, Any]]
"""{title: {name of a feature: value}}, such as how often each feature was selected."""

WeightIntervals = Mapping[str, tuple[float, float]]
"""{name of a feature: (lower end, upper end)}"""

MAX_FEATURES, MAX_COLUMNS = 200, 400
"""Features and columns of the tables."""

MAX_COMMUNITIES, MAX_MEMBERS, IN_CARD = 12, 14, 8
MOST_WITH_PATHS = 500
"""Largest number of columns for which a page has closeness and betweenness; more take seconds."""

UNKNOWN = "\u2013"
_FIGURE = re.compile(r"(\d[\d.,]*%|-?\d[\d.,]*(?= on average| overall)|(?<=rank correlation )\S+(?=\)))")
"""Shares, means and correlations of a sentence."""


def write_report(
    field: Any,
    X: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    data_name: str | None = None,
    extra: ExtraColumns | None = None,
    intervals: ConfidenceIntervals | WeightIntervals | None = None,
) -> None:
    """Write one HTML file about the field, which works offline.

    Parameters
    ----------
    field : fitted estimator
    X : table, or `Relational` for a field over linked tables
        Rows to compare with the field, for findings with figures, quality by column, calibration and missing values.
        The table of a `CRFClassifier` has its labels as columns. None writes a page without these.
    path : where to write it
    title : str
        By default the name of the data.
    data_name : str
        Name of the training file in the lines that repeat the fit.
    extra : {title: {name of a feature: value}}
        Further columns of the table of features. A feature has a name such as ``"rain=1 & wet=1"``;
        `sparsefield.analysis.feature_sentences.list_features` lists all names.
    intervals : `ConfidenceIntervals`, or {name of a feature: (lower end, upper end)}
        Intervals of weights, which are drawn as whiskers.
    """
    page = make_page(field, X, title=title, data_name=data_name, extra=extra, intervals=intervals)
    write_atomically(Path(path), page.encode())


def make_page(
    estimator: Any,
    X: Any = None,
    *,
    title: str | None = None,
    data_name: str | None = None,
    extra: ExtraColumns | None = None,
    intervals: ConfidenceIntervals | WeightIntervals | None = None,
    server: Mapping[str, Any] | None = None,
) -> str:
    """Return the page about a fitted estimator; ``server`` is what the page may ask of one, if it is served."""
    check_is_fitted(estimator)
    scored = None if X is None else score_rows(estimator, X)
    fit = describe_fit(estimator, data_name, () if scored is None else scored.unknown_columns)
    by_feature = intervals.by_feature if isinstance(intervals, ConfidenceIntervals) else intervals
    network = Network(fit.field)
    groups = find_groups(network)
    predicted = None if scored is None else find_predictability(fit.field, scored)
    title = title or _data_name(fit, data_name)
    values = {
        "title": title,
        "subtitle": _subtitle(fit),
        "served": server is not None,
        "tiles": [_size_tile(fit), _edges_tile(network), _missing_tile(scored), _gain_tile(fit, scored)],
        "findings": _findings(fit, scored),
        "summary": _summary(fit, groups),
        "communities": _communities(groups),
        "columns": None if scored is None else _columns(fit.field, scored),
        "quality": None if scored is None else _quality(fit, scored),
        "features": _features(fit.field, by_feature, extra or {}),
        "centrality": _centrality(network, predicted),
        "stability": describe_stability(fit.field, list_features(fit.field)) if fit.field.record.stability else [],
        "method": _method(fit),
    }
    rings = {} if predicted is None else predicted.by_column
    document = describe_network(network, groups, rings, _shares(scored))
    document |= {"title": title, "server": server, "findings": ["".join(line) for line in values["findings"]["lines"]]}
    return render_page("page.html", ("network.js", "panel.js", "tables.js"), document, **values)


def _shares(scored: ScoredRows | None) -> dict[str, DataShares]:
    if scored is None:
        return {}
    return {
        name: DataShares(table) for name, table in zip(scored.sample.layout.tables, scored.sample.tables, strict=True)
    }


# -- the template engine ---------------------------------------------------------------------------------------------


@cache
def _environment() -> Environment:
    loader = PackageLoader("sparsefield.app.pages", "templates")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["signed"] = lambda value: f"{value:+.2f}".replace("-", "\u2212")
    environment.filters["fixed"] = lambda value, digits=3: f"{value:.{digits}f}".replace("-", "\u2212")
    environment.filters["percent"] = lambda value: f"{value:.1%}"
    environment.globals["count"] = count
    return environment


def render_page(template: str, scripts: Sequence[str], document: Mapping[str, Any] | None = None, **values: Any) -> str:
    """Return a whole page, whose policy allows only the style and the scripts of this package.

    ``document`` is the data of the scripts, which is written as JSON that cannot end its element.
    """
    style, codes = _asset("page.css"), [_asset(name) for name in ("theme.js", *scripts)]
    connect = "connect-src 'self'; " if document and document.get("server") else ""
    policy = (
        f"default-src 'none'; base-uri 'none'; form-action 'none'; img-src blob: data:; {connect}"
        f"style-src {_digest(style)}; script-src {' '.join(map(_digest, codes))}"
    )
    data = None if document is None else json.dumps(document, allow_nan=False, separators=(",", ":"))
    return (
        _environment()
        .get_template(template)
        .render(
            policy=policy,
            style=Markup(style),
            scripts=[Markup(code) for code in codes],
            document=None if data is None else Markup(data.replace("<", "\\u003c")),
            **values,
        )
    )


def _asset(name: str) -> str:
    return (files("sparsefield.app.pages") / "static" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# -- the head of the page --------------------------------------------------------------------------------------------


def _data_name(fit: FitDescription, data_name: str | None) -> str:
    source = source_of(fit.field.record.source)
    name = Path(data_name or (source.file if source is not None else "")).stem
    return name or f"A {fit.kind}"


def _n_columns(field: Field) -> int:
    latent = sum(len(schema.latent) for schema in field.layout.schemas) if field.layout.has_latent else 0
    return field.layout.n_targets - latent + sum(len(schema.observed) for schema in field.layout.schemas)


def _subtitle(fit: FitDescription) -> str:
    columns = count(_n_columns(fit.field), "column")
    if not fit.field.record.is_learned:
        return f"A field over {columns} with given weights"
    over = f" of {count(len(fit.field.layout.tables), 'linked table')}" if fit.linked else ""
    return f"What goes together, learned from {count(fit.field.record.n_rows, 'row')} and {columns}{over}"


def _tile(name: str, value: str, about: str) -> dict[str, str]:
    return {"name": name, "value": value, "about": about}


def _size_tile(fit: FitDescription) -> dict[str, str]:
    columns, kinds = _n_columns(fit.field), describe_kinds(fit.field, 0)
    if not fit.field.record.is_learned:
        return _tile("columns", f"{columns:,}", kinds)
    return _tile("rows \u00d7 columns", f"{fit.field.record.n_rows:,} \u00d7 {columns:,}", kinds)


def _edges_tile(network: Network) -> dict[str, str]:
    pairs = len(np.unique(np.sort(network.ends, axis=1), axis=0))
    if network.linked:
        return _tile("edges", f"{pairs:,}", "pairs of columns, within rows or across links")
    schema = network.field.schema
    targets, observed = len(schema.targets), len(schema.observed)
    possible = targets * (targets - 1) // 2 + targets * observed
    share = f" ({pairs / possible:.0%})" if possible else ""
    return _tile("edges", f"{pairs:,}", f"of {count(possible, 'pair')} of columns{share}")


def _missing_tile(scored: ScoredRows | None) -> dict[str, str]:
    if scored is None:
        return _tile("missing", UNKNOWN, "needs rows (--data)")
    known = [values for table in scored.has_value.values() for values in table.values()]
    cells, missing = sum(map(len, known)), sum(int(np.count_nonzero(~values)) for values in known)
    if not cells:
        return _tile("missing", "0%", "a sparse matrix has no missing values")
    return _tile("missing", f"{missing / cells:.1%}", f"{missing:,} of {count(cells, 'value')}")


def _are_training_rows(fit: FitDescription, scored: ScoredRows) -> bool:
    return fit.field.record.is_learned and scored.n_rows == fit.field.record.n_rows


def _gain_tile(fit: FitDescription, scored: ScoredRows | None) -> dict[str, str]:
    if scored is None or not scored.scores:
        return _tile("gain over frequencies", UNKNOWN, "needs rows (--data)")
    gain, better = calibration.pool_gains(scored.scores), calibration.count_clear_gains(scored.scores)[0]
    where = "training rows" if _are_training_rows(fit, scored) else "these rows"
    about = f"log-likelihood per value in {where} (\u00b1 {gain.error:.3f})"
    columns = f"{better:,} of {count(len(scored.scores), 'column')} better"
    return _tile("gain over frequencies", f"{gain.value:+.3f}".replace("-", "\u2212"), f"{about}; {columns}")


def _findings(fit: FitDescription, scored: ScoredRows | None) -> dict[str, Any]:
    """Return sentences about the data in parts, of which every second is a figure; first of all, whether anything
    could be learned from them."""
    warning, has_features = "", bool(fit.field.weights.any() or fit.field.conjunction_weights.any())
    if scored is not None and has_features and scored.scores and not calibration.shows_dependence(scored.scores):
        gain = calibration.pool_gains(scored.scores)
        warning = (
            f"The values of these {count(scored.n_rows, 'row')} are predicted from each other no better than by column "
            f"frequencies (gain in log-likelihood {gain.value:+.4f} per value, standard error {gain.error:.4f}), so "
            "the features of the field may be chance."
        )
    lines = tell_findings(fit.field, None if scored is None or warning else scored.sample)
    return {"warning": warning, "lines": [_FIGURE.split(line) for line in lines]}


def _summary(fit: FitDescription, groups: Groups) -> list[str]:
    field, strong = fit.field, list_features(fit.field, 3)
    lines = [f"Kinds of columns: {describe_kinds(field)}.", f"The field has {describe_size(field)}."]
    if strong:
        strongest = "; ".join(f"{feature.sentence} ({feature.weight:+.2f})" for feature in strong)
        lines.append(f"Strongest: {strongest}.")
    large = sum(len(members) > 2 for members in groups.members) if groups.found else 0
    if large > 1 and groups.modularity >= 0.1:
        lines.append(f"{large:,} communities of three or more columns (modularity {groups.modularity:.2f}).")
    return [*lines, *([describe_convergence(field, fit.params)] if field.record.is_learned else [])]


def _communities(groups: Groups) -> dict[str, Any]:
    listed = [
        {"title": title, "names": [groups.network.labels[node] for node in members[:MAX_MEMBERS]], "size": len(members)}
        for title, members in zip(groups.titles[:MAX_COMMUNITIES], groups.members, strict=False)
    ]
    return {"groups": listed, "more": max(0, len(groups.names) - MAX_COMMUNITIES), "found": groups.found}


# -- tables ----------------------------------------------------------------------------------------------------------


def _variables(field: Field) -> dict[str, Variable]:
    """Return the predicted variables by their names as scores have them; none of a very wide table of binary ones."""
    network = Network(field)
    if network.n_variables > 5 * MAX_COLUMNS:
        return {}
    variables = ((label, network.variable(node)) for node, label in enumerate(network.labels))
    return {label: variable for label, variable in variables if variable is not None}


def _columns(field: Field, scored: ScoredRows) -> dict[str, Any]:
    """Return how well each column is predicted, beside its distribution, those with the largest gain first."""
    ranked = sorted(scored.scores, key=lambda score: (-score.gain.value, score.name))
    variables = _variables(field)
    present = {
        f"{table}.{name}" if table else name: values
        for table, columns in scored.has_value.items()
        for name, values in columns.items()
    }
    rows = []
    for score in ranked[:MAX_COLUMNS]:
        variable, known = variables.get(score.name), present.get(score.name)
        rows.append(
            {
                "name": score.name,
                "kind": "" if variable is None else variable.kind,
                "bars": [] if variable is None else distribution(variable),
                # McFadden's share of the log-likelihood of frequencies
                "explained": max(0.0, 1.0 - score.cll / score.marginal_cll) if score.marginal_cll < 0 else 0.0,
                "gain": score.gain.value,
                "errors": None if variable is not None and variable.numeric else score.error_rate,
                "base_errors": score.marginal_error_rate,
                "missing": None if known is None or not len(known) else float(np.mean(~known)),
                "cells": score.cells,
            }
        )
    return {"rows": rows, "more": len(ranked) - len(rows)}


def _quality(fit: FitDescription, scored: ScoredRows) -> dict[str, Any] | None:
    """Return scores over all columns, where they come from, and the calibration curve."""
    if not scored.scores:
        return None
    curve = calibration.calibrate(scored.sample, scored.answers)
    whole = calibration.overall(scored.scores)
    used = scored.sample.n_rows
    rows = count(scored.n_rows, "row") + (
        f", of which {used:,} evenly spaced ones were used" if used < scored.n_rows else ""
    )
    if not fit.field.record.is_learned:
        source = f"The data have {rows}. The weights of the field were given, so no row was used in training."
    elif _are_training_rows(fit, scored):
        source = (
            f"The data have {rows}, as many as the field was learned from, so they are probably the training rows: the "
            "scores show how well the field fits them, not how well it predicts new ones. For that, give held-out "
            "rows, or run \u201csparsefield evaluate\u201d."
        )
    else:
        source = (
            f"The data have {rows}; the field was learned from {fit.field.record.n_rows:,}. The scores are those of "
            "new rows only if none of these was used in training."
        )
    if fit.source.weight is not None:
        source += (
            f" The field was learned with the row weights of \u201c{fit.source.weight}\u201d; here rows count once."
        )
    points = [
        {"belief": float(b), "share": float(s), "error": math.sqrt(s * (1 - s) / n)}
        for b, s, n in zip(curve.belief, curve.share, curve.count, strict=True)
        if n
    ]
    return {
        "source": source,
        "gains": describe_gains(scored.scores, "Values"),
        "cll": whole.cll,
        "base_cll": whole.marginal_cll,
        "points": points,
        "error": 100 * curve.error,
        "statements": int(curve.count.sum()),
    }


def _features(field: Field, intervals: WeightIntervals | None, extra: ExtraColumns) -> dict[str, Any]:
    """Return the strongest features with their weights, intervals and further columns."""
    features, known = list_features(field, MAX_FEATURES), intervals or {}
    ends = [abs(end) for feature in features for end in known.get(feature.name, ())]
    stability = stability_column(field, features)
    columns = {**({COLUMN_TITLE: stability} if stability else {}), **extra}
    rows = [
        {
            "sentence": feature.sentence,
            "weight": feature.weight,
            "interval": known.get(feature.name),
            "extra": [_text(column.get(feature.name)) for column in columns.values()],
        }
        for feature in features
    ]
    return {
        "rows": rows,
        "total": int(np.count_nonzero(field.weights) + np.count_nonzero(field.conjunction_weights)),
        "largest": max([abs(feature.weight) for feature in features] + ends, default=1.0),
        "extra": list(columns),
        "intervals": bool(known),
        "scale": describe_weights(field),
    }


def _text(value: Any) -> str:
    if value is None:
        return ""
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    return f"{value:.4g}" if is_number else str(value)


def _centrality(network: Network, predicted: Predictability | None) -> dict[str, Any]:
    """Return the measures of the strongest columns."""
    measured: Centrality = find_centrality(network, "auto", paths=network.n_variables <= MOST_WITH_PATHS)
    shares = {} if predicted is None else predicted.by_column
    measures = {
        "neighbors": (0, measured.degree),
        "strength": (2, measured.strength),
        "expected influence": (2, measured.expected_influence),
        "closeness": (3, measured.closeness),
        "betweenness": (1, measured.betweenness),
        "bridge strength": (2, measured.bridge_strength),
    }
    known = {name: part for name, part in measures.items() if part[1] is not None}
    order = np.lexsort((np.arange(len(measured.names)), -measured.strength))[:MAX_COLUMNS].tolist()
    rows = [
        {
            "name": measured.names[k],
            "values": [
                (float(values[k]) if np.isfinite(values[k]) else None, digits) for digits, values in known.values()
            ],
            "predictability": shares.get(measured.names[k]),
        }
        for k in order
        if measured.degree[k] > 0
    ]
    return {
        "heads": list(known),
        "rows": rows,
        "predicted": bool(shares),
        "most": float(measured.strength.max(initial=0)),
    }


def _method(fit: FitDescription) -> dict[str, Any]:
    """Return how the field was learned, and how to repeat that."""
    learned, history = fit.field.record.is_learned, fit.field.record.iterations
    options = ", ".join(f"{name}={value!r}" for name, value in changed_options(fit).items()) if learned else ""
    return {
        "learned": learned,
        "convergence": describe_convergence(fit.field, fit.params),
        "candidates": fit.field.layout.n_candidate_pairs,
        "iterations": [
            {"number": step.iteration, "objective": step.objective, "active": step.active}
            for step in (history[round(k)] for k in np.linspace(0, len(history) - 1, min(8, len(history))))
        ],
        "n_iterations": len(history),
        "options": options or "none",
        "command": as_command(fit) if learned else None,
        "python": as_python(fit) if learned else "",
        "versions": list_versions(fit.field),
    }


# -- other pages -----------------------------------------------------------------------------------------------------


def make_article(
    title: str,
    lead: Sequence[str],
    head: Sequence[str],
    rows: Sequence[Sequence[tuple[str, bool]]],
    note: str,
    figures: Sequence[tuple[str, str]],
) -> str:
    """Return a page with sentences, one table and pictures: pairs of SVG and caption.

    Cells of the table are pairs of a text and whether it is the best of its column. Pictures are images of their own,
    since the policy of the page allows no styles within their markup.
    """
    drawn = [(base64.b64encode(svg.encode()).decode(), caption) for svg, caption in figures]
    return render_page("article.html", (), title=title, lead=lead, head=head, rows=rows, note=note, figures=drawn)

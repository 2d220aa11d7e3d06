"""The page about a field, in two modes: one HTML file that works offline, and the page that `server` serves.

Python prepares values; ``templates/`` has the HTML, and ``static/`` the scripts and the style sheet.
"""

from __future__ import annotations

import base64
import hashlib
import json
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

import sparsefield
from sparsefield.analysis import metrics
from sparsefield.analysis.centrality import measure_columns
from sparsefield.analysis.confidence_intervals import ConfidenceIntervals
from sparsefield.analysis.network import Network
from sparsefield.analysis.predictability import ScoredRows, find_predictability, score_rows
from sparsefield.app.pages import findings, fit_summary
from sparsefield.app.pages.cells import DataShares
from sparsefield.app.pages.layout import find_groups
from sparsefield.app.pages.network_document import describe_network, distribution
from sparsefield.app.tables.codebook import Codebook
from sparsefield.app.tables.file_format import HeldOut, Source, source_of
from sparsefield.atomic_write import write_atomically
from sparsefield.data.links import Template
from sparsefield.errors import count
from sparsefield.estimators import FieldEstimator
from sparsefield.model import Field
from sparsefield.model.feature_tables import Feature, list_features

MAX_FEATURES, MAX_COLUMNS = 200, 400
"""Features and columns of the tables."""

MOST_WITH_PATHS = 500
"""Largest number of columns for which a page has closeness and betweenness; more take seconds."""

TABLE_SIZE = 230, 86
"""Width and height of a table and the space around it, in a diagram of linked tables."""

FIGURE = re.compile(r"((?<! of )-?\b\d[\d.,]*(?:%|(?=(?: of \d+)? (?:on average|overall)))|(?<=correlation )[^)]+)")
"""Shares, means and correlations of a sentence."""


def write_report(
    field: FieldEstimator,
    X: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    intervals: ConfidenceIntervals | None = None,
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
    intervals : intervals of weights, which are drawn as whiskers
    """
    page = make_page(field, X, title=title, intervals=intervals)
    write_atomically(Path(path), page.encode())


def make_page(
    estimator: FieldEstimator,
    X: Any = None,
    *,
    title: str | None = None,
    intervals: ConfidenceIntervals | None = None,
    server: Mapping[str, Any] | None = None,
) -> str:
    """Return the page about a fitted estimator; ``server`` is what the page may ask of one, if it is served."""
    check_is_fitted(estimator)
    field = estimator.field_
    scored = None if X is None else score_rows(estimator, X)
    network = Network(field)
    groups = find_groups(network)
    predicted = {} if scored is None else find_predictability(scored)
    rings = dict(zip(predicted["column"], predicted["predictability"].tolist(), strict=True)) if predicted else {}
    source = source_of(field.record.source) or Source("")
    title = title or Path(source.file).stem or f"A {type(estimator).__name__}"
    lines, warning = _findings(field, scored)
    shares = {} if scored is None else dict(zip(scored.sample.layout.tables, scored.sample.tables, strict=True))
    document = describe_network(network, groups, rings, {name: DataShares(table) for name, table in shares.items()})
    return render_page(
        "page.html",
        ("network.js", "panel.js", "tables.js"),
        document | {"title": title, "server": server},
        title=title,
        served=server is not None,
        field=field,
        source=source,
        scored=scored,
        training=scored is not None and _are_training_rows(field, scored),
        size=_size(network, scored, source.held_out),
        findings=[lines[:1], *(FIGURE.split(line) for line in lines[1:])],
        warning=warning,
        columns=None if scored is None else _columns(network, scored),
        quality=None if scored is None or not scored.scores else _quality(scored),
        features=_features(network, {} if intervals is None else intervals.by_feature),
        groups=groups,
        linked=_linked_tables(network, X) if network.linked else None,
        centrality=_centrality(network, rings),
        stability=fit_summary.describe_stability(field, list_features(field)) if field.record.stability else [],
        version=sparsefield.__version__,
        convergence=fit_summary.describe_convergence(field, estimator.get_params()) if field.record.is_learned else "",
        python=fit_summary.estimator_expression(estimator),
    )


# -- the template engine ---------------------------------------------------------------------------------------------


@cache
def _environment() -> Environment:
    loader = PackageLoader("sparsefield.app.pages", "templates")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["signed"] = lambda value, digits=2: f"{value:+.{digits if abs(value) >= 0.01 else 4}f}".replace(
        "-", "\u2212"
    )
    environment.filters["fixed"] = lambda value, digits=3: f"{value:.{digits}f}".replace("-", "\u2212")
    environment.filters["percent"] = lambda value, digits=1: f"{value:.{digits}%}"
    environment.filters["thousands"] = lambda value: f"{value:,}"
    environment.filters["level_bar"] = lambda own: (own.label, own.rows, f"{own.label}: {count(own.rows, 'row')}")
    environment.globals["count"] = count
    return environment


def render_page(template: str, scripts: Sequence[str], document: Mapping[str, Any] | None = None, **values: Any) -> str:
    """Return a whole page, whose policy allows only the style and the scripts of this package.

    ``document`` is the data of the scripts, which is written as JSON that cannot end its element.
    """
    folder = files("sparsefield.app.pages") / "static"
    style, *codes = ((folder / name).read_text("utf-8") for name in ("page.css", "theme.js", *scripts))

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    connect = "connect-src 'self'; " if document and document.get("server") else ""
    policy = (
        f"default-src 'none'; base-uri 'none'; form-action 'none'; img-src blob: data:; {connect}"
        f"style-src {digest(style)}; script-src {' '.join(map(digest, codes))}"
    )
    data = None if document is None else json.dumps(document, allow_nan=False, separators=(",", ":"))
    values["document"] = None if data is None else Markup(data.replace("<", "\\u003c"))
    codes = [Markup(code) for code in codes]
    return _environment().get_template(template).render(policy=policy, style=Markup(style), scripts=codes, **values)


# -- values of the sections ------------------------------------------------------------------------------------------


def _size(network: Network, scored: ScoredRows | None, held_out: HeldOut | None) -> dict[str, Any]:
    """Return what the lead and the tiles say; None for what needs rows."""
    field, layout = network.field, network.field.layout
    size: dict[str, Any] = {
        "columns": sum(len(schema.input_names) for schema in layout.schemas),
        "kinds": fit_summary.describe_kinds(field, 0),
        "edges": len(np.unique(np.sort(network.ends, axis=1), axis=0)),
        "pairs": None if network.linked else findings.count_pairs(field),
        "missing": None,
        "gain": None,
    }
    if scored is not None:
        known = scored.has_value.values()
        size |= {"missing": sum(int(np.count_nonzero(~values)) for values in known), "cells": sum(map(len, known))}
    if held_out is not None and (scored is None or _are_training_rows(field, scored)):
        size |= {"gain": held_out, "where": "held-out value"}
    elif scored is not None and scored.scores:
        gain, better = metrics.pool_gains(scored.scores), metrics.count_clear_gains(scored.scores)[0]
        size["gain"] = HeldOut(0, gain.value, gain.error, better, len(scored.scores))
        size["where"] = "value in training rows" if _are_training_rows(field, scored) else "value in these rows"
    return size


def _are_training_rows(field: Field, scored: ScoredRows) -> bool:
    return field.record.is_learned and scored.n_rows == field.record.n_rows


def _findings(field: Field, scored: ScoredRows | None) -> tuple[list[str], str]:
    """Return sentences about the data, and a warning where nothing could be learned from them."""
    warning, has_features = "", bool(field.weights.any() or field.conjunction_weights.any())
    if scored is not None and has_features and scored.scores and not metrics.shows_dependence(scored.scores):
        tables = len(field.layout.tables)
        warning = findings.describe_no_gain(metrics.pool_gains(scored.scores), scored.n_rows, tables, what="values")
    return findings.tell_findings(field, None if scored is None or warning else scored.sample), warning


def _columns(network: Network, scored: ScoredRows) -> dict[str, Any]:
    """Return how well each column is predicted, beside its distribution, those with the largest gain first."""
    ranked = sorted(scored.scores, key=lambda score: (-score.gain.value, score.name))
    nodes = {label: node for node, label in enumerate(network.labels)} if len(ranked) <= 5 * MAX_COLUMNS else {}
    rows = []
    for score in ranked[:MAX_COLUMNS]:
        variable = network.variable(nodes[score.name]) if score.name in nodes else None
        values = scored.has_value.get(score.name)
        rows.append(
            {
                "score": score,
                "kind": "" if variable is None else variable.kind,
                "bars": [] if variable is None else distribution(variable),
                # McFadden's share of the log-likelihood of frequencies
                "explained": max(0.0, 1.0 - score.loss / score.baseline_loss) if score.baseline_loss > 0 else 0.0,
                "missing": None if values is None or not len(values) else float(np.mean(~values)),
            }
        )
    return {"rows": rows, "more": len(ranked) - len(rows)}


def _quality(scored: ScoredRows) -> dict[str, Any]:
    """Return scores over all columns, and the calibration curve."""
    whole = metrics.ColumnEvaluation.join(scored.scores)
    curve = np.zeros((3, 0)) if whole.calibration is None else whole.calibration
    return {
        "gains": findings.describe_gains(scored.scores, "Values"),
        "whole": whole,
        "points": [(n, belief / n, true / n) for n, belief, true in curve.T.tolist() if n],
        "error": 100 * metrics.calibration_error(curve),
    }


def _features(network: Network, intervals: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    """Return the features of the strongest edges with their weights, intervals and stability."""
    field = network.field
    groups = findings.features_by_edge(network, MAX_FEATURES)
    rows = [(f, findings.is_linear(own[0]) and f is not own[0]) for own in groups for f in own][:MAX_FEATURES]
    features = [feature for feature, _ in rows]
    ends = [abs(end) for feature in features for end in intervals.get(feature.name, ())]
    return {
        "rows": rows,
        "total": int(np.count_nonzero(field.weights) + np.count_nonzero(field.conjunction_weights)),
        "largest": max([abs(feature.weight) for feature in features] + ends, default=1.0),
        "stability": fit_summary.stability_column(field, features),
        "intervals": intervals,
        "scale": fit_summary.describe_weights(field),
    }


def _linked_tables(network: Network, data: Any) -> dict[str, Any]:
    """Return a diagram of the tables and their links, and the strongest features of each template in sentences.

    Arrows lead to the right, from a table to those that its rows are linked to. Without data, only links are known that
    have a template "across".
    """
    layout = network.field.layout
    links = {t.names[0]: ends for t, ends in zip(layout.templates, layout.ends, strict=True) if t.kind == "across"}
    if data is not None:
        known = {name: number for number, name in enumerate(layout.tables)}
        links = {name: (known[link.table], known[link.to]) for name, link in data.links.items()}
    level = dict.fromkeys(range(len(layout.tables)), 0)
    for _ in layout.tables:  # which ends although links may lead around
        level |= {
            to: min(level[table] + 1, len(level))
            for table, to in links.values()
            if level[to] <= level[table] and table != to
        }
    columns = [[k for k in level if level[k] == step] for step in sorted(set(level.values()))]
    height = TABLE_SIZE[1] * max(map(len, columns))
    place = {
        table: (TABLE_SIZE[0] * x, (y + 0.5) * height / len(column))
        for x, column in enumerate(columns)
        for y, table in enumerate(column)
    }
    arrows: dict[tuple[int, int], list[str]] = {}
    for name, ends in links.items():
        arrows.setdefault(ends, []).append(name)
    tables = []
    for number, (name, schema) in enumerate(zip(layout.tables, layout.schemas, strict=True)):
        rows = "" if data is None else f"{count(data.sources[name].n_rows, 'row')}, "
        about = rows + count(len(schema.order), "column")
        tables.append((name, about, ", ".join(arrows.pop((number, number), [])), *place[number]))
    by_template: dict[str, list[Feature]] = {}
    for feature in list_features(network.field):
        by_template.setdefault(feature.template, []).append(feature)
    return {
        "size": (TABLE_SIZE[0] * len(columns), height),
        "tables": tables,
        "arrows": [(*place[a], *place[b], ", ".join(names)) for (a, b), names in arrows.items()],
        "templates": [
            (_describe_template(template, [layout.tables[end] for end in ends if end >= 0]), own)
            for template, ends in zip(layout.templates, layout.ends, strict=True)
            if (own := by_template.get(template.label))
        ],
    }


def _describe_template(template: Template, tables: Sequence[str]) -> str:
    """Return which rows a template connects, in words."""
    by = " and ".join(template.names)
    return {
        "within": f"Columns of the same row of {tables[0]}",
        "across": f"A row of {tables[0]}, and the row of {tables[-1]} that it is linked to by {by}",
        "shared": f"Two rows of {' and '.join(dict.fromkeys(tables))} that are linked to the same row by {by}",
        "swapped": f"Two rows of {tables[0]}, r(n, m) and r(m, n), whose links {by} are swapped",
        "mean": f"A row of {tables[0]}, and the mean over those of {tables[-1]} along {', '.join(template.names)}",
        "sum": f"A row of {tables[0]}, and the sum over those of {tables[-1]} along {', '.join(template.names)}",
        "triangle": f"Three rows r(i, z), s(z, j) and t(i, j) of {tables[0]}, by {by}",
        "cycle": f"Three rows r(j, z), s(z, i) and t(i, j) of {tables[0]}, by {by}",
        "joined": f"Two rows of {' and '.join(dict.fromkeys(tables))} to which one row is linked by {by}",
    }.get(template.kind, template.label)


def _centrality(network: Network, rings: Mapping[str, float]) -> dict[str, Any]:
    """Return the measures of the strongest columns."""
    measured = measure_columns(network, "auto", paths=network.n_variables <= MOST_WITH_PATHS)
    names = "degree", "strength", "expected_influence", "closeness", "betweenness", "bridge_strength"
    digits: dict[str, int] = dict(zip(names, (0, 2, 2, 3, 1, 2), strict=True))
    known = {name: measured[name] for name in digits if name in measured}
    rows = [
        (measured["column"][k], [(v[k] if np.isfinite(v[k]) else None, digits[name]) for name, v in known.items()])
        for k in np.argsort(-measured["strength"], kind="stable")[:MAX_COLUMNS].tolist()
        if measured["degree"][k] > 0
    ]
    heads = ["neighbors" if name == "degree" else name.replace("_", " ") for name in known]
    return {"heads": heads, "rows": rows, "rings": rings, "most": measured["strength"].max(initial=0.0) or 1.0}


# -- other pages -----------------------------------------------------------------------------------------------------


def write_codebook(book: Codebook, path: str | os.PathLike[str], *, title: str = "Codebook") -> None:
    """Write an HTML page about a table, which works offline, with a small distribution of every column."""
    page = render_page("codebook.html", ("tables.js",), title=title, book=book)
    write_atomically(Path(path), page.encode())

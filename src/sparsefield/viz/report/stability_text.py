"""This module describes how often features were selected from halves of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from sparsefield.model import Field
from sparsefield.viz.feature_sentences import Feature, list_features
from sparsefield.viz.fit_summary import count

__all__ = [
    "STABLE",
    "TITLE",
    "describe_stability",
    "expected_false",
    "often_left_out",
    "selection_frequencies",
    "stability_column",
]

TITLE = "stability"

STABLE = 0.9
"""Selection frequency from which a feature is called stable."""

SHOWN = 5


def selection_frequencies(field: Field) -> np.ndarray | None:
    """Return (features,) the share of resamples that selected each feature; None where the field has no such record."""
    told = field.about.get("stability")
    if told is None or len(told) != len(field.features):
        return None
    return np.asarray(told, dtype=float)


def stability_column(field: Field, features: Sequence[Feature]) -> dict[str, float]:
    """Return {name of a feature: share of resamples that selected it}; empty where the field has no such record."""
    shares = selection_frequencies(field)
    return {} if shares is None else {feature.name: float(shares[feature.number]) for feature in features}


def describe_stability(field: Field, features: Sequence[Feature]) -> list[str]:
    """Return sentences: how many features are stable, how many of these may be chance, and which the field lacks."""
    share, how = stability_column(field, features), field.about.get("resampling")
    if how is None or "stability" not in field.about:
        return []
    edges: dict[tuple, float] = {}
    for feature in features:
        for one, two in combinations(feature.terms, 2):
            key = feature.template, *sorted([one.column, two.column])
            edges[key] = max(edges.get(key, 0.0), share.get(feature.name, 0.0))
    lasting, stable = (sum(value >= STABLE for value in shares.values()) for shares in (edges, share))
    rare = sum(value < 0.5 for value in share.values())
    lines = [
        f"Stability: of {count(len(edges), 'edge')}, {lasting:,} {_have(lasting)} a feature that is selected in at "
        f"least {STABLE:.0%} of {_resamples(how)}; of {count(len(share), 'feature')}, {stable:,} {_are(stable)}, and "
        f"{rare:,} {_are(rare)} selected in less than half.",
        _bound_in_words(field),
    ]
    absent = often_left_out(field)[:SHOWN]
    if absent:
        told = "; ".join(f"{feature.sentence} ({often:.0%})" for feature, often in absent)
        lines.append(f"Often selected, although not in the field: {told}.")
    return lines


def often_left_out(field: Field) -> list[tuple[Feature, float]]:
    """Features that the field lacks and resamples often select, with their mean weight there; most frequent first."""
    found = []
    for told in field.about.get("resampling", {}).get("left_out", ()):
        columns, weight = np.array([told["columns"]]), np.array([told["weight"]])
        alone = replace(field, pairs=np.empty((0, 2), dtype=np.int64), weights=np.empty(0))
        alone = replace(alone, conjunctions=np.empty((0, 3), dtype=np.int64), conjunction_weights=np.empty(0))
        if columns.shape[1] == 2:
            alone = replace(alone, pairs=columns, weights=weight)
        else:
            alone = replace(alone, conjunctions=columns, conjunction_weights=weight)
        found += [(feature, float(told["frequency"])) for feature in list_features(alone)]
    return found


def expected_false(mean_selected: float, n_candidates: int, share: float = STABLE) -> float:
    """q^2 / ((2 share - 1) p): at most so many pairs that are no better than the average candidate are expected among
    those that at least a ``share`` of the resamples select, when each selects q of p on average.

    It is Theorem 1 of Shah and Samworth (2013) for pairs that a half selects with probability q / p at most, and the
    bound of Meinshausen and Bühlmann (2010).

    Examples
    --------
    >>> round(expected_false(40, 5000), 2)
    0.4
    """
    return mean_selected**2 / ((2.0 * share - 1.0) * max(n_candidates, 1))


def _bound_in_words(field: Field) -> str:
    how = field.about["resampling"]
    if how["halved"] == "linked rows":
        return (
            "How many of these are chance cannot be bounded: nearly all rows are linked with each other, so the halves "
            "are not independent."
        )
    if how["given_graph"]:
        return "How many of these are chance is not told: which pairs there may be was given as a graph."
    chosen, candidates = how["mean_pairs"], field.about["n_candidates"]
    bound = expected_false(chosen, candidates)
    told = f"{bound:,.0f}" if bound >= 10 else f"{bound:.2g}"
    stable = sum(value >= STABLE for value in field.about["stability"][: len(field.weights)])
    bounded = (
        f"Of pairs that are no better than the average candidate, at most {told} are expected among the stable ones "
        f"(a half selects {chosen:,.1f} of {candidates:,} on average; Shah and Samworth's bound, for independent "
        f"{'rows' if how['halved'] == 'rows' else 'sets of linked rows'})."
    )
    if not stable:
        return "So there is nothing to say of how many of them are chance."
    if bound >= stable:
        return f"{bounded} That is no less than there are, so it tells nothing: a larger l1 would."
    return (
        f"{bounded} As a bound on false ones it also assumes that those are selected about equally often, and true "
        "ones no less often (Meinshausen and Bühlmann)."
    )


def _have(number: int) -> str:
    return "has" if number == 1 else "have"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _resamples(how: dict) -> str:
    halves = {
        "rows": "of the rows",
        "components": "of the sets of linked rows",
        "linked rows": "of the rows, beside their neighbors",
    }
    return f"{how['resamples']:,} halves {halves[how['halved']]}"

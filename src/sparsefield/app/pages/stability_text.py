"""Sentences on stability selection: how often features were selected from halves of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from sparsefield.analysis.feature_sentences import Feature, list_features
from sparsefield.analysis.network import selection_frequencies
from sparsefield.model import Field, StabilityRecord
from sparsefield.text import count

COLUMN_TITLE = "stability"

STABLE = 0.9
"""Selection frequency from which a feature is called stable."""

MAX_LISTED = 5


def stability_column(field: Field, features: Sequence[Feature]) -> dict[str, float]:
    """Return {name of a feature: share of resamples that selected it}; empty where the field has no such record."""
    shares = selection_frequencies(field)
    return {} if shares is None else {feature.name: float(shares[feature.number]) for feature in features}


def describe_stability(field: Field, features: Sequence[Feature]) -> list[str]:
    """Return sentences: how many features are stable, how many of these may be chance, and which the field lacks."""
    shares, stability = stability_column(field, features), field.record.stability
    if stability is None:
        return []
    edges: dict[tuple, float] = {}
    for feature in features:
        for one, two in combinations(feature.terms, 2):
            key = feature.template, *sorted([one.column, two.column])
            edges[key] = max(edges.get(key, 0.0), shares.get(feature.name, 0.0))
    stable_edges, stable = (sum(value >= STABLE for value in found.values()) for found in (edges, shares))
    rare = sum(value < 0.5 for value in shares.values())
    lines = [
        f"Stability: of {count(len(edges), 'edge')}, {stable_edges:,} {'has' if stable_edges == 1 else 'have'} a "
        f"feature that is selected in at least {STABLE:.0%} of {_describe_resamples(stability)}; of "
        f"{count(len(shares), 'feature')}, {stable:,} {_are(stable)}, and {rare:,} {_are(rare)} selected in less than "
        "half.",
        _describe_bound(field, stability),
    ]
    absent = often_left_out(field)[:MAX_LISTED]
    if absent:
        listed = "; ".join(f"{feature.sentence} ({share:.0%})" for feature, share in absent)
        lines.append(f"Often selected, although not in the field: {listed}.")
    return lines


def often_left_out(field: Field) -> list[tuple[Feature, float]]:
    """Return features that the field lacks and resamples often select, with their frequency, most frequent first."""
    found = []
    stability = field.record.stability
    for absent in () if stability is None else stability.left_out:
        only = {
            "pairs": np.empty((0, 2), dtype=np.int64), "weights": np.empty(0),
            "conjunctions": np.empty((0, 3), dtype=np.int64), "conjunction_weights": np.empty(0),
        }  # fmt: skip
        names = ("pairs", "weights") if len(absent.columns) == 2 else ("conjunctions", "conjunction_weights")
        only |= dict(zip(names, (np.array([absent.columns]), np.array([absent.weight])), strict=True))
        found += [(feature, absent.frequency) for feature in list_features(replace(field, **only))]
    return found


def expected_false(mean_selected: float, n_candidates: int, share: float = STABLE) -> float:
    """Return q^2 / ((2 share - 1) p), a bound on the expected number of falsely stable pairs.

    It bounds pairs that are no better than the average candidate, among those that at least a ``share`` of the
    resamples select, when each selects q of p pairs on average: Theorem 1 of Shah and Samworth (2013) for pairs that a
    half selects with probability at most q / p, and the bound of Meinshausen and Bühlmann (2010).

    Examples
    --------
    >>> round(expected_false(40, 5000), 2)
    0.4
    """
    return mean_selected**2 / ((2.0 * share - 1.0) * max(n_candidates, 1))


def _describe_bound(field: Field, stability: StabilityRecord) -> str:
    if stability.halved == "linked rows":
        return (
            "The number of false selections cannot be bounded: nearly all rows are linked with each other, so the "
            "halves are not independent."
        )
    if stability.given_graph:
        return "The number of false selections is not bounded, since the candidate pairs were given as a graph."
    selected, candidates = stability.mean_pairs, field.layout.n_candidate_pairs
    bound = expected_false(selected, candidates)
    shown = f"{bound:,.0f}" if bound >= 10 else f"{bound:.2g}"
    stable = sum(value >= STABLE for value in stability.frequencies[: len(field.weights)])
    if not stable:
        return "No pair is stable, so no bound on false selections is needed."
    statement = (
        f"Of pairs that are no better than the average candidate, at most {shown} are expected among the stable ones "
        f"(a half selects {selected:,.1f} of {candidates:,} on average; the bound of Shah and Samworth for independent "
        f"{'rows' if stability.halved == 'rows' else 'sets of linked rows'})."
    )
    if bound >= stable:
        return f"{statement} This is not less than the number of stable pairs, so it says nothing; try a larger l1."
    return (
        f"{statement} As a bound on false pairs it also assumes that these are selected about equally often, and true "
        "ones at least as often (Meinshausen and Bühlmann)."
    )


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _describe_resamples(stability: StabilityRecord) -> str:
    halves = {
        "rows": "of the rows",
        "components": "of the sets of linked rows",
        "linked rows": "of the rows, with their neighbors",
    }
    return f"{stability.resamples:,} halves {halves[stability.halved]}"

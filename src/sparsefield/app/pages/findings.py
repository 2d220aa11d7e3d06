"""This module says in sentences about the data what a field has learned from them, or that nothing could be learned.

The weights of the field decide which pairs of columns are told. The figures are shares, means and rank correlations of
the rows, each over the rows where both columns have a value, so that anybody can count them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsefield.analysis.calibration import ColumnGains, Gain, count_clear_gains, pool_gains, shows_dependence
from sparsefield.analysis.feature_sentences import Feature, name_features
from sparsefield.analysis.network import Network
from sparsefield.app.pages.edge_summary import count_edges, describe_no_features, nothing_found
from sparsefield.app.pages.fit_summary import count
from sparsefield.app.pages.observed_states import FeatureEnd, read_ends
from sparsefield.data.column_types import family_of
from sparsefield.data.dataset import LocalDataset
from sparsefield.data.schema import Variable
from sparsefield.estimators.compiled_rows import compile_rows
from sparsefield.model import Field

MAX_EXAMPLES = 5
MAX_EDGES = 300
"""Number of the strongest edges among which examples are sought."""
LEAST_STRENGTH = 0.1
"""Smallest strength of an edge that is told, relative to the strongest one."""
MAX_TIMES = 2
"""Number of examples that one column may be in."""
MAX_FEATURES = 4
"""Number of the strongest features of an edge that are tried."""
LEAST_CORRELATION = 0.01
"""Smallest rank correlation that is told."""


def findings(field: Any, X: Any = None, y: Any = None, *, most: int = MAX_EXAMPLES) -> list[str]:
    """Return sentences about the data: how many pairs of columns go together, and the strongest of them with figures.

    Parameters
    ----------
    field : fitted estimator
    X : table, or `Relational` for a field over linked tables
        The rows of training, or others, from which shares, means and rank correlations are taken. Without rows, only
        the first sentence.
    y : labels, for a `CRFClassifier`
    most : largest number of pairs of columns that are told

    Examples
    --------
    >>> import numpy as np
    >>> from sparsefield import MarkovField
    >>> rain = np.arange(100) % 2
    >>> wet = np.where(np.arange(100) % 10 < 8, rain, 1 - rain)
    >>> X = np.column_stack([rain, wet])
    >>> for sentence in findings(MarkovField(l1=1.0).fit(X), X):
    ...     print(sentence)
    1 of 1 pair of columns goes together given all other columns (1 feature).
    Where x0=1, 80% of rows have x1=1, against 50% overall.
    """
    check_is_fitted(field)
    return tell_findings(field.field_, None if X is None else compile_rows(field, X, y), most)


def tell_findings(field: Field, dataset: LocalDataset | None = None, most: int = MAX_EXAMPLES) -> list[str]:
    """Return the sentences of `findings` about rows that are compiled already."""
    network = Network(field)
    if not len(network.strengths):
        return [describe_no_features(field)]
    examples = [] if dataset is None else _tell_edges(network, dataset, most)
    return [count_edges(network), *examples]


def describe_no_gain(gain: Gain, n_rows: int, n_tables: int = 1) -> str:
    """Return a sentence on a fit that predicts held-out cells no better than column frequencies do."""
    return (
        f"{nothing_found(n_rows, n_tables)}: held-out cells are predicted no better than by column frequencies "
        f"(gain in log-likelihood {gain.value:+.4f} per cell, standard error {gain.error:.4f}). Its features may be "
        "chance; weak dependences need more rows to be seen."
    )


def describe_gains(
    columns: Sequence[ColumnGains], what: str = "Held-out cells", than: str = "column frequencies"
) -> str:
    """Return in how many columns cells are predicted better than by frequencies, beyond a standard error."""
    better, worse = count_clear_gains(columns)
    also = f", worse in {worse:,}" if worse else ""
    same = len(columns) - better - worse
    also += f", and about as well in {same:,}" if same else ""
    told = f"{what} are predicted better than by {than} in {better:,} of {count(len(columns), 'column')}{also}."
    if pool_gains(columns).is_clear or not shows_dependence(columns):
        return told
    worst = min(columns, key=lambda column: column.cells * column.gain.value)
    return f"{told} Over all cells the log-likelihood is no better, mostly because of {worst.name}."


def _tell_edges(network: Network, sample: LocalDataset, most: int) -> list[str]:
    """Return sentences on the strongest edges, each with a column that no earlier one has."""
    told: list[str] = []
    times = Counter[int]()
    strong = np.flatnonzero(network.strengths >= LEAST_STRENGTH * network.strengths[0])[:MAX_EDGES]
    for edge, ends in zip(strong.tolist(), network.ends[strong].tolist(), strict=True):
        if len(told) == most:
            break
        if min(times[end] for end in ends) > 0 or max(times[end] for end in ends) >= MAX_TIMES:
            continue
        sentence = next(_tell_features(network, sample, edge), None)
        if sentence is not None:
            told.append(sentence)
            times.update(set(ends))
    return told


def _tell_features(network: Network, sample: LocalDataset, edge: int) -> Iterator[str]:
    """Yield a sentence for each of the strongest features of an edge that the rows show in the same direction."""
    numbers = network.feature_numbers(edge)[:MAX_FEATURES]
    for feature in name_features(network.field, numbers):
        ends = read_ends(sample, feature) if len(feature.columns) == 2 else None
        sentence = None if ends is None else _tell(feature, *ends)
        if sentence is not None:
            yield sentence[0].upper() + sentence[1:] if feature.over_link else sentence


def _tell(feature: Feature, one: FeatureEnd, two: FeatureEnd) -> str | None:
    """Return a feature as a sentence with figures; None where the rows do not show it in the same direction."""
    both = one.known & two.known
    if not both.any():
        return None
    if one.is_score and two.is_score:
        return _tell_scores(feature, one, two, both)
    if one.is_score or two.is_score:
        return _tell_mean(feature, *((two, one) if one.is_score else (one, two)), both)
    return _tell_share(feature, one, two, both)


def _tell_share(feature: Feature, one: FeatureEnd, two: FeatureEnd, both: np.ndarray) -> str | None:
    """Return the share of a state where the other column has its state: the rarer one, or that of a covariate."""
    first, second = (int(np.count_nonzero(end.has_state & both)) for end in (one, two))
    covariates = [end.variable.role == "observed" for end in (one, two)]
    if covariates[1] > covariates[0] or (covariates[0] == covariates[1] and second < first):
        one, two, first, second = two, one, second, first
    if not first:
        return None
    share, overall = np.count_nonzero(one.has_state & two.has_state & both) / first, second / np.count_nonzero(both)
    shown = [_percent(value) for value in (share, overall)]
    if (share - overall) * feature.weight <= 0 or shown[0] == shown[1]:
        return None
    rows = "linked rows" if feature.over_link else "rows"
    only = "" if share > overall else "only "
    who = f"{only}{shown[0]} of {rows} have" if share else f"none of the {rows} has"
    return f"{_where(feature, one)}, {who} {two.term.text}, against {shown[1]} overall."


def _tell_mean(feature: Feature, state: FeatureEnd, score: FeatureEnd, both: np.ndarray) -> str | None:
    """Return whether a number is higher or lower where the other column has its state, with its means."""
    rows = both & state.has_state
    if not rows.any():
        return None
    mean, overall = float(score.values[rows].mean()), float(score.values[both].mean())
    if (mean - overall) * feature.weight <= 0:
        return None
    compared = f"{_where(feature, state)}, {score.term.text} is {_comparative(score.variable, up=mean > overall)}"
    shown = _mean_text(score.variable, mean), _mean_text(score.variable, overall)
    if family_of(score.variable.dtype):
        return f"{compared}."
    if shown[0] == shown[1]:
        return None
    return f"{compared}: {shown[0]} on average, against {shown[1]} overall."


def _tell_scores(feature: Feature, one: FeatureEnd, two: FeatureEnd, both: np.ndarray) -> str | None:
    found = rank_correlation(one.values[both], two.values[both])
    if found is None or found * feature.weight <= 0 or abs(found) < LEAST_CORRELATION:
        return None
    if two.variable.role == "observed":
        one, two = two, one
    words = _comparative(one.variable, up=True), _comparative(two.variable, up=found > 0)
    over = f"{feature.template}, " if feature.over_link else ""
    first = words[0] if over else words[0].capitalize()
    linked = " of the linked row" if one.term.text == two.term.text else ""
    return f"{over}{first} {one.term.text} goes with {words[1]} {two.term.text}{linked} (rank correlation {found:.2f})."


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float | None:
    """Return Spearman's rank correlation of two columns; None where one does not vary.

    Examples
    --------
    >>> round(rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([2.0, 9.0, 5.0])), 3)
    0.5
    """
    from scipy.stats import rankdata

    ranks = [rankdata(values) for values in (first, second)]
    if any(len(rank) == 0 or np.ptp(rank) == 0 for rank in ranks):
        return None
    return float(np.corrcoef(*ranks)[0, 1])


def _where(feature: Feature, condition: FeatureEnd) -> str:
    over = f"{feature.template}, " if feature.over_link else ""
    return f"{over}{'where' if over else 'Where'} {condition.term.text}"


def _comparative(variable: Variable, *, up: bool) -> str:
    if family_of(variable.dtype) in ("dates", "times of day"):
        return "later" if up else "earlier"
    return "higher" if up else "lower"


def _mean_text(variable: Variable, mean: float) -> str:
    if not all(isinstance(state, (int, float)) for state in variable.states):
        return f"level {mean:.1f} of {len(variable.states)}"
    return f"{mean:,.0f}" if abs(mean) >= 1000 else f"{mean:.3g}"


def _percent(share: float) -> str:
    """Return a share as a percentage with two digits, such as 49%, 4.3% or 0.31%.

    Examples
    --------
    >>> _percent(0.494), _percent(0.043), _percent(0.00312), _percent(1.0)
    ('49%', '4.3%', '0.31%', '100%')
    """
    return f"{share:.0%}" if share >= 0.0995 or share == 0 else f"{100 * share:.2g}%"

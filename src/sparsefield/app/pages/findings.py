"""Findings: sentences about the data that say what a field has learned from them, or that nothing could be learned.

The weights of the field decide which pairs of columns are told. The figures are shares, means and rank correlations of
the rows, each over the rows where both columns have a value, so that anybody can count them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsefield.analysis.network import Network, counted_edges, edges_that_hold
from sparsefield.data import Variable
from sparsefield.data.column_types import family_of
from sparsefield.data.layout import COUNT_COLUMN, PATH_VIEW
from sparsefield.data.link_products import LinkProduct
from sparsefield.errors import count
from sparsefield.model import Field
from sparsefield.model.feature_tables import Feature, Term, list_features, name_features
from sparsefield.model.fit_record import FALSE_DISCOVERY_RATE

if TYPE_CHECKING:  # 'sparsefield info' needs only sentences about edges, and would wait for these
    from sparsefield.analysis.metrics import ColumnEvaluation, Gain
    from sparsefield.data.dataset import Dataset
    from sparsefield.estimators import FieldEstimator

MAX_EXAMPLES, MAX_TIMES = 5, 2
"""Pairs of columns that are told, and examples that one column may be in."""

MAX_EDGES, LEAST_STRENGTH, MAX_FEATURES = 300, 0.1, 4
"""Strongest edges among which examples are sought, the least strength of one relative to the strongest, and features of
an edge that are tried."""

LEAST_WEIGHT = 0.005
"""Least size of the weights that are listed beside the first one of an edge: two decimals are shown."""

LEAST_ERRORS, LEAST_ROWS = 2.0, 10
"""Least difference in the rows that is told, in standard errors, and rows that a share or mean is taken of."""


def findings(field: FieldEstimator, X: Any = None, y: Any = None, *, most: int = MAX_EXAMPLES) -> list[str]:
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
    1 edge holds at a false discovery rate of 5%; 0 more of 1 pair of columns have weights (1 feature).
    Where x0=1, 80% of rows have x1=1, against 50% overall.
    """
    from sklearn.utils.validation import check_is_fitted

    from sparsefield.estimators.compiled_rows import compile_rows

    check_is_fitted(field)
    return tell_findings(field.field_, None if X is None else compile_rows(field, X, y), most)


def tell_findings(field: Field, dataset: Dataset | None = None, most: int = MAX_EXAMPLES) -> list[str]:
    """Return the sentences of `findings` about rows that are compiled already."""
    network = Network(field)
    examples = [] if dataset is None else _tell_edges(network, dataset, most)
    return [describe_edges(field), *examples]


def describe_edges(field: Field) -> str:
    """Return how many pairs of columns hold and have weights as a sentence; without any, that there are none."""
    network, record = Network(field), field.record
    pairs = len(np.unique(np.sort(network.ends, axis=1), axis=0))
    if not pairs and not record.is_learned:
        return "No two columns share a feature: each column is independent of the others."
    if not pairs:
        lower = "" if record.criterion is not None else ", and a lower l1 would keep them"
        return (
            f"{_nothing_found(record.n_rows, len(field.layout.tables))}: each column is predicted by its frequencies "
            f"alone. Weak dependences need more rows to be seen{lower}."
        )
    features = count(int(np.count_nonzero(field.weights) + np.count_nonzero(field.conjunction_weights)), "feature")
    verb = "goes" if pairs == 1 else "go"
    if network.linked:
        where = f"{verb} together, within rows or across links, given all other columns"
        return f"{count(pairs, 'pair')} of columns {where} ({features})."
    latent = ", latent variables included," if field.layout.has_latent else ""
    of_all = f"of {count(count_pairs(field), 'pair')} of columns{latent}"
    if record.evidence is None:
        return f"{pairs:,} {of_all} {verb} together given all other columns ({features})."
    hold = record.evidence.n_holding
    return (
        f"{count(hold, 'edge')} {'holds' if hold == 1 else 'hold'} at a false discovery rate of "
        f"{FALSE_DISCOVERY_RATE:.0%}; {pairs - hold:,} more {of_all} {'has' if pairs - hold == 1 else 'have'} weights "
        f"({features})."
    )


def count_pairs(field: Field) -> int:
    """Return the number of pairs of columns of one table, at least one of them predicted."""
    targets, observed = len(field.schema.targets), len(field.schema.observed)
    return targets * (targets - 1) // 2 + targets * observed


def _nothing_found(n_rows: int, n_tables: int) -> str:
    where = f"these {count(n_rows, 'row')}" + (f" of {n_tables} linked tables" if n_tables > 1 else "")
    pairs = "columns, within rows or across links," if n_tables > 1 else "columns"
    return f"No dependence between {pairs} could be found in {where}"


def describe_no_gain(gain: Gain, n_rows: int, n_tables: int = 1, what: str = "held-out cells") -> str:
    """Return a sentence on a fit that predicts cells no better than column frequencies do."""
    return (
        f"{_nothing_found(n_rows, n_tables)}: {what} are predicted no better than by column frequencies "
        f"(gain in log-likelihood {gain.value:+.4f} per cell, standard error {gain.error:.4f}). Its features may be "
        "chance; weak dependences need more rows to be seen."
    )


def describe_gains(
    columns: Sequence[ColumnEvaluation], what: str = "Held-out cells", than: str = "column frequencies"
) -> str:
    """Return in how many columns cells are predicted better than by frequencies, beyond a standard error."""
    from sparsefield.analysis.metrics import count_clear_gains, pool_gains, shows_dependence

    better, worse = count_clear_gains(columns)
    also = f", worse in {worse:,}" if worse else ""
    same = len(columns) - better - worse
    also += f", and about as well in {same:,}" if same else ""
    sentence = f"{what} are predicted better than by {than} in {better:,} of {count(len(columns), 'column')}{also}."
    if pool_gains(columns).is_clear or not shows_dependence(columns):
        return sentence
    worst = min(columns, key=lambda column: column.cells * column.gain.value)
    return f"{sentence} Over all cells the log-likelihood is no better, mostly because of {worst.name}."


def features_by_edge(network: Network, most: int | None = None) -> list[list[Feature]]:
    """Return the features of each of the ``most`` strongest edges, of those that hold first; see `list_edge`.

    A feature of three columns and more belongs to the first of its edges.
    """
    holding = counted_edges(network)
    order = np.concatenate([holding, np.setdiff1d(np.arange(len(network.strengths)), holding)])
    edges, seen = [], set[int]()
    for edge in order.tolist():
        if len(edges) == most:
            break
        numbers = [k for k in network.feature_numbers(edge) if k not in seen]
        seen.update(numbers)
        if numbers:
            edges.append(list_edge(network.field, numbers))
    return edges


def list_edge(field: Field, numbers: list[int]) -> list[Feature]:
    """Return the features of an edge, the linear one first, without those whose weights are rounded to 0."""
    named = sorted(name_features(field, numbers), key=lambda feature: not is_linear(feature))
    return named[:1] + [feature for feature in named[1:] if abs(feature.weight) >= LEAST_WEIGHT]


def is_linear(feature: Feature) -> bool:
    """Return whether a feature is one of scores alone, beside which those of states say what is beyond it."""
    return all(term.state is None for term in feature.terms)


def _tell_edges(network: Network, sample: Dataset, most: int) -> list[str]:
    """Return sentences on the strongest edges that hold, each with a column that no earlier one has.

    An edge is told by the first of its strongest features that the rows show clearly and in the same direction; of
    ordinal and numeric columns, by the linear one before others.
    """
    sentences: list[str] = []
    times = Counter[int]()
    strong = np.flatnonzero(network.strengths >= LEAST_STRENGTH * network.strengths.max(initial=0.0))
    holding = edges_that_hold(network)
    strong = (strong if holding is None or not len(holding) else np.intersect1d(strong, holding))[:MAX_EDGES]
    for edge, ends in zip(strong.tolist(), network.ends[strong].tolist(), strict=True):
        if len(sentences) == most:
            break
        if min(times[end] for end in ends) > 0 or max(times[end] for end in ends) >= MAX_TIMES:
            continue
        features = name_features(network.field, network.feature_numbers(edge))
        features = sorted(features, key=lambda feature: not is_linear(feature))
        sentence = next(filter(None, (_tell(sample, feature) for feature in features[:MAX_FEATURES])), None)
        if sentence is not None:
            sentences.append(sentence[0].upper() + sentence[1:])
            times.update(set(ends))
    return sentences


def _tell(sample: Dataset, feature: Feature) -> str | None:
    """Return a pair feature as a sentence with figures; None where the rows do not show it in the same direction."""
    ends = _read_ends(sample, feature) if len(feature.columns) == 2 else None
    if ends is None:
        return None
    both = ends[0].known & ends[1].known
    if not both.any():
        return None
    states = [end.term.state is not None for end in ends]
    tell = (_tell_scores, _tell_mean, _tell_share)[sum(states)]
    first, second = ends[::-1] if states == [False, True] else ends
    return tell(feature, first, second, both)


def _tell_share(feature: Feature, one: _End, two: _End, both: np.ndarray) -> str | None:
    """Return the share of a state where the other column has its state: the rarer one, or that of a covariate."""
    first, second = (int(np.count_nonzero(end.has_state & both)) for end in (one, two))
    covariates = [end.variable.role == "observed" for end in (one, two)]
    if covariates[1] > covariates[0] or (covariates[0] == covariates[1] and second < first):
        one, two, first, second = two, one, second, first
    if first < LEAST_ROWS:
        return None
    share, overall = np.count_nonzero(one.has_state & two.has_state & both) / first, second / np.count_nonzero(both)
    error = np.sqrt(overall * (1.0 - overall) / first)
    if (share - overall) * feature.weight <= 0 or abs(share - overall) < LEAST_ERRORS * error:
        return None
    rows = "linked rows" if feature.over_link else "rows"
    only = "" if share > overall else "only "
    who = f"{only}{_percent(share)} of {rows} have" if share else f"none of the {rows} has"
    return f"{_over(feature)}where {one.term.text}, {who} {two.term.text}, against {_percent(overall)} overall."


def _tell_mean(feature: Feature, state: _End, score: _End, both: np.ndarray) -> str | None:
    """Return whether a number is higher or lower where the other column has its state, with its means."""
    values, rows = score.values[both], state.has_state[both]
    n_rows = int(np.count_nonzero(rows))
    if n_rows < LEAST_ROWS:
        return None
    mean, overall = float(values[rows].mean()), float(values.mean())
    if (mean - overall) * feature.weight <= 0 or abs(mean - overall) < LEAST_ERRORS * values.std() / np.sqrt(n_rows):
        return None
    higher = _comparative(score.variable, up=mean > overall)
    compared = f"{_over(feature)}where {state.term.text}, {score.term.text} is {higher}"
    if family_of(score.variable.dtype) or score.variable.role == "observed":
        return f"{compared}."
    means = [_mean_text(score.variable, value) for value in (mean, overall)]
    return f"{compared}: {means[0]} on average, against {means[1]} overall."


def _tell_scores(feature: Feature, one: _End, two: _End, both: np.ndarray) -> str | None:
    from scipy.stats import rankdata

    ranks = [rankdata(end.values[both]) for end in (one, two)]
    if any(np.ptp(rank) == 0 for rank in ranks):
        return None
    correlation = float(np.corrcoef(*ranks)[0, 1])
    if correlation * feature.weight <= 0 or abs(correlation) < LEAST_ERRORS / np.sqrt(len(ranks[0])):
        return None
    if two.variable.role == "observed":
        one, two = two, one
    words = _comparative(one.variable, up=True), _comparative(two.variable, up=correlation > 0)
    linked = " of the linked row" if one.term.text == two.term.text else ""
    return (
        f"{_over(feature)}{words[0]} {one.term.text} goes with {words[1]} {two.term.text}{linked} "
        f"(rank correlation {correlation:.2f})."
    )


def _over(feature: Feature) -> str:
    return f"{feature.template}, " if feature.over_link else ""


def _comparative(variable: Variable, *, up: bool) -> str:
    if family_of(variable.dtype) in ("dates", "times of day"):
        return "later" if up else "earlier"
    return "higher" if up else "lower"


def _mean_text(variable: Variable, mean: float) -> str:
    if not all(isinstance(state, (int, float)) for state in variable.states):
        return f"level {mean:.1f} of {len(variable.states)}"
    return f"{mean:,.0f}" if abs(mean) >= 1000 else f"{mean:.3g}"


def _percent(share: float) -> str:
    """Return a share as a percentage with two digits, such as 49%, 4.3% or 0.31%."""
    return f"{share:.0%}" if share >= 0.0995 or share == 0 else f"{100 * share:.2g}%"


def linked_evidence(field: Field, sample: Dataset, table: str, row: int, most: int = MAX_EXAMPLES) -> list[str]:
    """Return which states of linked rows speak most for and against the states of a row, in sentences.

    The number at the end is what they add to the log-odds of a state: a weight times the linked rows with the state.
    """
    reasons: list[tuple[float, str]] = []
    for feature in list_features(field):
        if not feature.over_link or len(feature.terms) != 2 or table not in [term.table for term in feature.terms]:
            continue
        ends = _read_ends(sample, feature)
        if ends is None or any(term.state is None for term in feature.terms):
            continue
        for own, other in (ends, ends[::-1]):
            here = own.rows == row
            number = int(np.count_nonzero(other.has_state & here))
            if own.term.table == table and number:
                rows = f"{number:,} of {count(int(np.count_nonzero(here)), 'linked row')}"
                more, added = "more" if feature.weight > 0 else "less", number * feature.weight
                what = f"{own.term.text} is {more} likely, since {rows} {'has' if number == 1 else 'have'}"
                reasons.append((added, f"{what} {other.term.text}, {feature.template} ({added:+.2f})"))
    return [text for _, text in sorted(dict.fromkeys(reasons), key=lambda reason: -abs(reason[0]))[:most]]


@dataclass(frozen=True)
class _End:
    """One of the two columns of a pair feature, with its cells in all pairs of rows that the feature is about."""

    term: Term
    variable: Variable
    known: np.ndarray
    """(pairs of rows,) bool: where the column has a value."""
    has_state: np.ndarray
    """(pairs of rows,) bool: where it has the state of the term; False for a score."""
    values: np.ndarray
    """(pairs of rows,): the numbers of a numeric column, or positions 1, 2, ... of ordered states."""
    rows: np.ndarray | None
    """(pairs of rows,): the rows that have the cells; None for all rows of the table."""


def _read_ends(sample: Dataset, feature: Feature) -> tuple[_End, _End] | None:
    """Return the two ends of a pair feature in the order of its terms.

    Pairs of rows are the linked ones of its template; within a table, each row with itself. None where an end has no
    cells in the data: the number of linked rows, paths, and latent variables.
    """
    layout, (a, b) = sample.layout, feature.columns
    table = int(layout.table_of_column[a])
    start = int(layout.column_starts[table])
    number = int(layout.column_views(table)[0][b - start])
    if number == PATH_VIEW:
        return None
    places, pairs = [(table, a - start), (table, b - start)], [None, None]
    if number >= 0:
        view = layout.neighbor_views[number]
        places[1] = view.source_table, int(view.columns[b - layout.column_starts[view.target_table] - view.start])
        neighbors = sample.neighbors[number]
        if isinstance(neighbors, LinkProduct):  # whose pairs of rows are not listed
            return None
        offsets, rows = neighbors
        pairs = [np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), rows]
        if not view.forward:
            places, pairs = places[::-1], pairs[::-1]
    if any(column == COUNT_COLUMN for _, column in places):
        return None
    parts = zip(places, feature.terms, pairs, strict=True)
    ends = [_read(sample, *place, term, rows) for place, term, rows in parts]
    return None if "latent" in [end.variable.role for end in ends] else (ends[0], ends[1])


def _read(sample: Dataset, table: int, column: int, term: Term, rows: np.ndarray | None) -> _End:
    """Return a column of a table, numbered among its own, in all rows or in ``rows``."""
    schema = sample.layout.schemas[table]
    number = int(schema.variable_of_column[column])
    variable, place = schema.variable(number), column - int(schema.offsets[number])
    if (cells := sample.tables[table].cells) is not None:
        known, values, has_state = np.ones(cells.n_rows, dtype=bool), np.empty(0), np.zeros(cells.n_rows, dtype=bool)
        places = np.flatnonzero(cells.columns == column)
        has_state[np.searchsorted(cells.offsets, places, side="right") - 1] = True
    elif variable.role == "latent":
        known = has_state = values = np.empty(0)
    elif schema.has_sparse_covariates and variable.role == "observed":
        values = sample.covariates.column(column - schema.n_target_columns)
        known, has_state = np.ones(len(values), dtype=bool), np.zeros(len(values), dtype=bool)
    elif variable.role == "observed":  # missing values were replaced by the mean of the column
        values = np.concatenate([block.beliefs[column] for block in sample.tables[table].blocks])
        is_score = place < variable.n_scores
        known = np.ones(len(values), dtype=bool) if is_score else np.isin(values, (0.0, 1.0))
        has_state = ~known if is_score else values == 1.0
    else:
        codes = np.asarray(sample.tables[table].codes()[number])
        known, is_score = codes >= 0, place < variable.n_scores
        has_state = known & (False if is_score else variable.indicators[codes] == place)
        # The numbers themselves, or 1, 2, ... where ordered states are not numbers.
        numbers = all(isinstance(state, (int, float)) for state in variable.states)
        of_state = np.array(variable.states if numbers else range(1, len(variable.states) + 1), dtype=float)
        values = of_state[codes] if is_score else np.zeros(len(codes))
    if rows is not None:
        known, has_state, values = known[rows], has_state[rows], values[rows]
    return _End(term, variable, known, has_state, values, rows)

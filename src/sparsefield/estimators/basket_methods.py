"""This module recommends items for baskets, and returns rules of pairs of items.

Both are for fields whose columns are items: 1 where a basket has the item, 0 where it does not.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from sparsefield.app.tables.baskets import Baskets, list_items, support_count
from sparsefield.data import (
    BinarySchema,
    DenseDataset,
    Label,
    Schema,
    Source,
    as_source,
    compile_table,
    make_frame,
)
from sparsefield.data.frame_building import make_label_columns
from sparsefield.errors import DataError, UnknownItemError, UnknownStateWarning
from sparsefield.estimators.answer_tables import probabilities
from sparsefield.estimators.pair_rules import count_pairs, divide, item_names, item_pairs
from sparsefield.frame_protocol import Frame
from sparsefield.model import Field

CELLS_OF_CHUNK = 2_000_000
"""Largest number of cells, baskets times items, of a dense piece of the baskets."""

ROWS_OF_CHUNK = 1000
"""Number of baskets whose sums of weights are computed at once, as a sparse matrix."""


class BasketMethods:
    """Methods of an estimator of one table whose columns are the items of baskets."""

    field_: Field
    kind_: str

    def recommend(
        self,
        basket: Any,
        n: int = 10,
        *,
        exclude: Sequence[str] = (),
        unknown: Literal["raise", "ignore"] = "raise",
    ) -> Frame:
        """Return the items that are most probable beside those of a basket.

        The probability of an item is that it is in the basket given that the items of the basket are in it, and that
        all other items are not: the conditional distribution that pseudo-likelihood learns. It takes a sum of weights
        for each item. If the rest of the basket is unknown instead, as when shopping has just begun,
        ``field.probability({"milk": 1}, given={"tea": 1})`` is the answer, which sums over what else may be bought.

        Parameters
        ----------
        basket : list of items; or several baskets
            Several baskets are {name: list of items}, a list of lists, `Baskets`, or a sparse 0/1 matrix with the
            columns of the field.
        n : number of items for each basket
        exclude : items that are not recommended, beside those of the basket itself
        unknown : {"raise", "ignore"}
            What to do about items that the field does not have: an error that names them, or nothing.

        Returns
        -------
        frame
            rank, item, probability, and lift: the probability over the item's share of the training rows. For several
            baskets, first the name of the basket, or its number.

        Examples
        --------
        >>> from sparsefield import MarkovField
        >>> rng = np.random.default_rng(0)
        >>> tea, jam = rng.random((2, 400)) < 0.3
        >>> milk = np.where(rng.random(400) < 0.9, tea, ~tea)
        >>> X = sp.csr_matrix(np.column_stack([tea, milk, jam]).astype(int))
        >>> field = MarkovField(l1=2.0).fit(X, columns=["tea", "milk", "jam"])
        >>> field.recommend(["tea"], n=1)["item"].to_list()
        ['milk']
        """
        check_is_fitted(self)
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}.")
        if unknown not in ("raise", "ignore"):
            raise ValueError(f"unknown must be 'raise' or 'ignore', got {unknown!r}.")
        items = item_names(self.field_.schema)
        given = _read_given(basket, items)
        others = {str(name) for name in exclude}
        _refuse_unknown([*given.unknown, *sorted(others.difference(items))], unknown)
        left_out = np.fromiter((name in others for name in items), dtype=bool, count=len(items))
        ranked = list(_rank_items(self, given.matrix, n, left_out))
        return _recommendation_frame(self.field_.schema, given, ranked, self.kind_)

    def association_rules(self, X: Any, n: int | None = None, *, min_support: float = 1) -> Frame:
        """Return support, confidence and lift of the pairs of items that have a weight, strongest weight first.

        Support, confidence and lift describe two items regardless of all others; the weight describes what remains
        when all others are given. Conjunctions of three items and more are left out.

        Parameters
        ----------
        X : `Baskets`, sparse 0/1 matrix, array or frame with the columns of the field
            Baskets to count.
        n : number of pairs; None returns all
        min_support : int or float
            Smallest number of baskets with both items, or, if it is a fraction below 1, their share.

        Returns
        -------
        frame
            item_a, item_b, weight; support, the share of baskets with both; confidence_ab, the share of those with a
            that also have b; confidence_ba, that of those with b that also have a; and lift, the support over the
            product of the shares of a and b.
        """
        check_is_fitted(self)
        matrix = _matrix_of(self, X)
        pairs, weights = item_pairs(self.field_)
        rules = count_pairs(matrix, pairs)
        order = np.argsort(-np.abs(weights), kind="stable")
        order = order[rules.counts[order] >= support_count(min_support, matrix.shape[0])][:n]
        names, found = item_names(self.field_.schema), rules.take(order)
        ends = {f"item_{letter}": [names[k] for k in pairs[order, side]] for side, letter in enumerate("ab")}
        columns = {
            "weight": weights[order],
            "support": found.support,
            "confidence_ab": found.confidence_ab,
            "confidence_ba": found.confidence_ba,
            "lift": found.lift,
        }
        return make_frame({**make_label_columns(ends, self.kind_), **columns}, self.kind_)


class _Given(NamedTuple):
    """Baskets over the items of a field."""

    matrix: Any
    """(baskets, items)"""
    names: tuple[Label, ...] | None
    """None for one basket without a name."""
    unknown: list[str]
    """Items that the field does not have."""


def _read_given(basket: Any, items: Sequence[str]) -> _Given:
    if sp.issparse(basket):
        if basket.shape[1] != len(items):
            raise DataError(f"The baskets have {basket.shape[1]:,} columns, but the field has {len(items):,} items.")
        matrix = as_source(basket, what="basket").native
        return _Given(matrix, tuple(range(matrix.shape[0])), [])
    if isinstance(basket, Baskets):
        return _given_rows([_row_items(basket, k) for k in range(len(basket))], basket.names, items)
    if isinstance(basket, Mapping):
        return _given_rows([_item_list(one) for one in basket.values()], tuple(basket), items)
    basket = list(basket) if _is_list(basket) else basket  # which may be a generator
    if isinstance(basket, list) and any(_is_list(one) for one in basket):
        rows = [_item_list(one) for one in basket]
        return _given_rows(rows, tuple(range(len(rows))), items)
    return _given_rows([_item_list(basket)], None, items)


def _is_list(value: Any) -> bool:
    return not isinstance(value, str) and np.iterable(value)


def _item_list(basket: Any) -> list[str]:
    return [str(item) for item in ([basket] if isinstance(basket, str) or not np.iterable(basket) else basket)]


def _row_items(baskets: Baskets, row: int) -> list[str]:
    start, stop = baskets.matrix.indptr[row : row + 2]
    return [baskets.items[k] for k in baskets.matrix.indices[start:stop].tolist()]


def _given_rows(rows: list[list[str]], names: tuple[Label, ...] | None, items: Sequence[str]) -> _Given:
    position = {name: k for k, name in enumerate(items)}
    unknown = dict.fromkeys(name for row in rows for name in row if name not in position)
    known = [sorted({position[name] for name in row if name in position}) for row in rows]
    offsets, columns = np.cumsum([0, *map(len, known)]), [k for row in known for k in row]
    shape = (len(rows), len(items))
    return _Given(
        sp.csr_matrix((np.ones(len(columns), dtype=np.int8), columns, offsets), shape=shape), names, list(unknown)
    )


def _refuse_unknown(names: Sequence[str], unknown: str) -> None:
    if names and unknown == "raise":
        raise UnknownItemError(names)


class _Ranked(NamedTuple):
    """Items that are recommended for one basket, most probable first."""

    items: np.ndarray
    probability: np.ndarray


def _rank_items(estimator: Any, matrix: Any, n: int, left_out: np.ndarray) -> Iterator[_Ranked]:
    """Yield the recommendations for each row of a matrix."""
    field, schema = estimator.field_, estimator.field_.schema
    if isinstance(schema, BinarySchema) and not len(field.conjunctions):
        yield from _rank_by_weights(field, matrix, n, left_out)
        return
    step = max(1, CELLS_OF_CHUNK // matrix.shape[1])
    for start in range(0, matrix.shape[0], step):
        rows = matrix[start : start + step].toarray()
        probability = _dense_probabilities(estimator, rows)
        for own, values in zip(rows, probability, strict=True):
            allowed = np.flatnonzero((own == 0) & ~left_out & ~np.isnan(values))
            yield _best(allowed, values[allowed], n)


def _rank_by_weights(field: Field, matrix: Any, n: int, left_out: np.ndarray) -> Iterator[_Ranked]:
    """Yield recommendations, at a cost that grows with the weights of the items in each basket, not with all items.

    An item without a feature of an item in the basket has the probability of its bias alone, so that the best of these
    are the same in every basket.
    """
    logits = _logits_of_biases(field)
    allowed = ~left_out & ~np.isnan(logits)
    by_bias = np.argsort(-logits, kind="stable")
    by_bias = by_bias[allowed[by_bias]]
    weights, effects = _weight_matrix(field, matrix.shape[1]), np.zeros(matrix.shape[1])
    for start in range(0, matrix.shape[0], ROWS_OF_CHUNK):
        rows = matrix[start : start + ROWS_OF_CHUNK]
        sums = sp.csr_matrix(rows.astype(float) @ weights)
        for row in range(rows.shape[0]):
            own = rows.indices[rows.indptr[row] : rows.indptr[row + 1]]
            cells = slice(sums.indptr[row], sums.indptr[row + 1])
            touched, added = sums.indices[cells], sums.data[cells]
            first = by_bias[: n + len(own) + len(touched)]
            candidates = np.setdiff1d(np.union1d(first, touched[allowed[touched]]), own)
            effects[touched] = added
            yield _best(candidates, expit(logits[candidates] + effects[candidates]), n)
            effects[touched] = 0.0


def _best(items: np.ndarray, probability: np.ndarray, n: int) -> _Ranked:
    order = np.lexsort((items, -probability))[:n]
    return _Ranked(items[order], probability[order])


def _weight_matrix(field: Field, n_items: int) -> Any:
    """Return the weights of pairs of items as a symmetric matrix, (items, items)."""
    pairs, weights = item_pairs(field)
    rows, columns = np.concatenate([pairs[:, 0], pairs[:, 1]]), np.concatenate([pairs[:, 1], pairs[:, 0]])
    return sp.csr_matrix((np.concatenate([weights, weights]), (rows, columns)), shape=(n_items, n_items))


def _logits_of_biases(field: Field) -> np.ndarray:
    """Return the log odds of each item in an empty basket, (items,): infinite if constant, NaN if never predicted."""
    schema: Any = field.schema
    logits, column = np.where(_base_rates(schema) == 1.0, np.inf, -np.inf), schema.column_of_input
    own = (column >= 0) & (column < schema.n_target_columns)
    logits[own] = field.biases[column[own]]
    observed = set(schema.variable_groups[1].names)
    logits[np.fromiter((name in observed for name in schema.order), dtype=bool, count=len(logits))] = np.nan
    return logits


def _base_rates(schema: Schema) -> np.ndarray:
    """Return the share of the training rows in which each item is 1, (items,)."""
    if isinstance(schema, BinarySchema):
        shares = np.concatenate([part.shares for part in schema.variable_groups])
        return shares[[schema.index_of_name[name] for name in schema.order]]
    variables = [schema.variables[schema.index_of_name[name]] for name in schema.input_names]
    return np.array([v.frequencies[v.states.index(1)] if 1 in v.states else 0.0 for v in variables])


def _dense_probabilities(estimator: Any, rows: np.ndarray) -> np.ndarray:
    """Return the probability of each item given all other cells of its row, (rows, items); NaN if never predicted."""
    schema = estimator.field_.schema
    names = item_names(schema)
    with warnings.catch_warnings():
        # A column that was constant in training has only one known value.
        warnings.simplefilter("ignore", UnknownStateWarning)
        table = compile_table(Source(names, len(rows), "array", rows), schema)
    (conditionals,) = estimator._infer(DenseDataset.single(table)).conditionals
    found = probabilities(schema, conditionals)
    probability = np.full(rows.shape, np.nan)
    for k, name in enumerate(names):
        states = estimator.states_.get(name)
        if states is not None:
            probability[:, k] = found[name][:, states.index(1)] if 1 in states else 0.0
    return probability


def _matrix_of(estimator: Any, X: Any) -> Any:
    """Return data with the columns of a field as a 0/1 matrix over its items."""
    names = item_names(estimator.field_.schema)
    if isinstance(X, Baskets):
        return X.select(names).matrix
    source = estimator._read(X)
    if source.kind == "sparse":
        return source.native
    columns = [source.column(name) for name in names]
    incomplete = [column.name for column in columns if not column.present.all()]
    if incomplete:
        raise DataError(f"Baskets have no missing cells; these columns have some: {list_items(incomplete)}.")
    return sp.csr_matrix(np.column_stack([column.values == 1 for column in columns]).astype(np.int8))


def _recommendation_frame(schema: Schema, given: _Given, ranked: list[_Ranked], kind: str) -> Frame:
    names, rates = item_names(schema), _base_rates(schema)
    items = np.concatenate([np.empty(0, dtype=np.int64), *(one.items for one in ranked)])
    probability = np.concatenate([np.empty(0), *(one.probability for one in ranked)])
    baskets: dict[str, list[Any]] = {}
    if given.names is not None:
        pairs = zip(given.names, ranked, strict=True)
        baskets["basket"] = [name for name, one in pairs for _ in range(len(one.items))]
    columns = {
        **make_label_columns(baskets, kind),
        "rank": np.concatenate([np.empty(0, dtype=np.int64), *(np.arange(1, len(one.items) + 1) for one in ranked)]),
        **make_label_columns({"item": [names[k] for k in items.tolist()]}, kind),
        "probability": probability,
        "lift": divide(probability, rates[items]),
    }
    return make_frame(columns, kind)

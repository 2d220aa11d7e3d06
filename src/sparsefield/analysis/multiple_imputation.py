"""Multiple imputation of the missing cells of one table by a fitted field."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Literal, get_args

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsefield.analysis.imputation_chains import ImputationOptions, draw_imputations
from sparsefield.analysis.imputations import Imputations, ImputedCells
from sparsefield.compute import Threads
from sparsefield.data import Schema, Table, compile_table
from sparsefield.data.coding import PENALTY_FACTORS, ColumnClass
from sparsefield.data.table import cut_into_blocks
from sparsefield.errors import DataError
from sparsefield.estimators import MarkovField
from sparsefield.estimators.answers import labels_of_codes
from sparsefield.estimators.compiled_rows import check_weights, learned_source, read_by_name
from sparsefield.estimators.training import refit_l2
from sparsefield.induction import FixedGraph
from sparsefield.model import Field
from sparsefield.objectives import EM

IMPUTATIONS, ITERATIONS = 20, 10
"""Default numbers of imputations, and of iterations of each."""

LINEAR = (ColumnClass.PLAIN, ColumnClass.SCORE, ColumnClass.OBSERVED_SCORE)
"""Classes of the columns of a linear model: indicators of states without an order, and scores."""

ROWS_PER_COLUMN = 20
"""Rows that a table needs for each column of a linear model, so that all pairs of them can have weights."""

MAX_FEATURES = 2000
"""Features of such a field, at most."""

Edges = Literal["auto", "selected", "all"]


def impute(
    field: MarkovField,
    X: Any,
    m: int = IMPUTATIONS,
    *,
    seed: int = 0,
    iterations: int = ITERATIONS,
    edges: Edges = "auto",
    proper: bool = True,
    learn_from: Any = None,
    sample_weight: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> Imputations:
    """Impute the missing cells of a table ``m`` times, for analyses that have to know how uncertain they are.

    The cells of a row are drawn jointly given its observed cells. For each imputation the weights of the field are
    drawn, too: they are estimated again from rows whose weights are drawn at random (the Bayesian bootstrap), so
    that imputations differ by as much as the data leave open (proper imputation). Observed cells never change.

    Parameters
    ----------
    field : fitted `MarkovField`
    X : table with missing cells, usually that of `fit`
        A frame may have further columns, which stay as they are, and another order of columns.
    m : number of imputations, at least 2
    seed : seed of all draws; the result does not depend on the number of threads
    iterations : how often weights and cells are drawn in turn, for each imputation
        More are necessary only where most of the information about some columns is missing.
    edges : "selected", "all" or "auto"
        Which pairs of columns have weights in the imputations. "selected" are the edges of the field: an analysis
        then finds little of a dependence that the field does not have. "all" adds the other pairs, which a linear
        model of each column has. "auto" is "all" where the table has at least 20 rows for each of its columns, and
        the graph was not given (`FixedGraph`).
    proper : whether weights are drawn
        False uses the fitted weights, as if these were known: intervals are then too narrow.
    learn_from : the table of `fit`, if ``X`` has other rows
        The uncertainty of the weights is that of these rows; None takes the rows of ``X``.
    sample_weight : (rows,) weights of ``learn_from`` or ``X``, if the fit had some
    progress : function that is called with the number of iterations done and their total number

    Returns
    -------
    Imputations
        A sequence of ``m`` completed tables of the kind of ``X``, with `Imputations.to_frame`, `Imputations.pool`,
        `Imputations.mean` and `Imputations.proportion`.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsefield import MarkovField, impute
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> X[:, 1] += X[:, 0]
    >>> X[::3, 1] = np.nan
    >>> imputations = impute(MarkovField(l1=5.0).fit(X), X, m=5)
    >>> len(imputations), bool(np.isnan(imputations[0]).any())
    (5, False)
    """
    check_is_fitted(field)
    _check_number("m", m, 2)
    _check_number("iterations", iterations, 1)
    _check_number("seed", seed, 0)
    if edges not in get_args(Edges):
        raise ValueError(f"edges must be one of {', '.join(get_args(Edges))}, got {edges!r}.")
    _check_field(field.field_, proper)
    table = compile_table(read_by_name(field, X), field.field_.schema)
    cells = _missing_cells(table)
    if not cells:
        raise DataError("The table has no missing cells of target columns: there is nothing to impute.")
    rows = _rows_to_learn_from(field, table, learn_from, sample_weight) if proper else table
    missing = field.resolve("missing")
    shifts = missing.bias_shifts(field.field_.layout) if isinstance(missing, EM) else None
    options = ImputationOptions(int(m), int(iterations), int(seed), refit_l2(field), proper=proper, shifts=shifts)
    with Threads(field.n_jobs) as engine:
        drawn_from = field_to_draw_from(field, rows, edges, proper)
        codes = draw_imputations(drawn_from, rows, options, engine, progress)[:, :, -table.n_rows :]
    return Imputations(X, learned_source(field, X), _label_cells(table.schema, cells, codes, options), int(m))


def _check_field(field: Field, proper: bool) -> None:
    """Refuse fields whose weights cannot be drawn."""
    if field.layout.has_latent:
        raise DataError("The field has latent variables, with which cells cannot be imputed: fit without latent=.")
    if proper and not field.record.is_learned:
        raise DataError(
            "The field was given, not learned: its weights have no uncertainty to draw them from. Pass "
            "proper=False to draw cells alone."
        )


def field_to_draw_from(field: MarkovField, rows: Table, edges: Edges, proper: bool) -> Field:
    """Return the field, with all edges if these are wanted and can be estimated."""
    columns = np.flatnonzero(np.isin(field.field_.layout.column_classes, LINEAR))
    n_columns, fixed = len(columns), isinstance(field.resolve("induction"), FixedGraph)
    enough = n_columns * ROWS_PER_COLUMN <= rows.n_rows and n_columns * (n_columns - 1) // 2 <= MAX_FEATURES
    wanted = edges == "all" or (edges == "auto" and enough and not fixed)
    return _add_linear_features(field.field_, columns) if wanted and proper else field.field_


def _add_linear_features(field: Field, columns: np.ndarray) -> Field:
    """Return a field over one table with a feature for each pair of scores and states of different columns.

    Features that the field does not have get the weight 0.
    """
    layout = field.layout
    a, b = (columns[k] for k in np.triu_indices(len(columns), 1))
    variable, classes = layout.variable_of_own_column, layout.column_classes
    allowed = (variable[a] != variable[b]) & (layout.target_of_column[a] >= 0)
    allowed &= np.isfinite(PENALTY_FACTORS[classes[a], classes[b]])
    pairs = np.column_stack([a, b])[allowed]
    pairs = pairs[~np.isin(layout.keys(pairs), layout.keys(field.pairs))]
    return replace(
        field,
        pairs=np.concatenate([field.pairs, pairs]),
        weights=np.concatenate([field.weights, np.zeros(len(pairs))]),
    )


def _rows_to_learn_from(field: MarkovField, table: Table, learn_from: Any, sample_weight: Any) -> Table:
    """Return the rows that determine the uncertainty of the weights, followed by those to impute.

    The latter have weight 0, unless both are the same.
    """
    learned = field.field_.record.n_rows
    if learn_from is None and table.n_rows < learned:
        raise DataError(
            f"The table has {table.n_rows:,} rows, and the field was learned from {learned:,}, which determine how "
            "uncertain its weights are: pass the table of the fit as learn_from= (--learn-from), or proper=False "
            "to take the weights as known."
        )
    if learn_from is None:
        weight = check_weights(sample_weight, table.n_rows)
        return table if weight is None else _join(table.schema, [(table, weight)])
    others = compile_table(read_by_name(field, learn_from), table.schema)
    weight = check_weights(sample_weight, others.n_rows)
    weight = np.ones(others.n_rows) if weight is None else weight
    return _join(table.schema, [(others, weight), (table, np.zeros(table.n_rows))])


def _join(schema: Schema, parts: Sequence[tuple[Table, np.ndarray]]) -> Table:
    """Return the rows of tables below each other, with given weights."""
    codes = np.concatenate([table.codes() for table, _ in parts], axis=1)
    covariates = np.concatenate([table.covariates() for table, _ in parts], axis=1)
    weight = np.concatenate([weight for _, weight in parts])
    return Table(schema, tuple(cut_into_blocks(schema, codes, covariates, weight, schema.n_columns)), codes.shape[1])


def _missing_cells(table: Table) -> dict[int, np.ndarray]:
    """Return {target: rows} of the missing cells, without values that training never saw."""
    codes, found = table.codes(), {}
    for k, variable in enumerate(table.schema.targets):
        rows = np.setdiff1d(np.flatnonzero(codes[k] < 0), table.unknown_rows.get(variable.name, []))
        if len(rows):
            found[k] = rows
    return found


def _label_cells(
    schema: Schema, cells: dict[int, np.ndarray], codes: np.ndarray, options: ImputationOptions
) -> dict[str, ImputedCells]:
    """Return what was drawn for the missing cells of each column; numbers are drawn from their levels."""
    found = {}
    for k, rows in cells.items():
        variable, drawn = schema.targets[k], []
        for number in range(options.m):
            rng = np.random.default_rng([options.seed, number, k])
            drawn.append(labels_of_codes(variable, codes[number, k, rows], rng))
        found[variable.name] = ImputedCells(rows, tuple(drawn))
    return found


def _check_number(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")

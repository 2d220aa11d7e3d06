"""This module warns of weights that L2 determines, of other tables, missing cells, and refits that stopped early."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsefield.analysis.feature_sentences import name_features
from sparsefield.analysis.godambe import Estimate, solve
from sparsefield.analysis.refit_problem import RefitProblem
from sparsefield.data import Source, Table
from sparsefield.data.table import encode_column
from sparsefield.errors import OtherTableWarning, PenaltyWarning
from sparsefield.model import Field

MAX_PENALTY_SHARE = 0.2
"""Largest share of the L2 penalty in the curvature of the loss along a weight, above which its interval is doubtful."""

MAX_STEP = 1.96
"""Standard errors by which a Newton step without L2 may change a weight."""

SAME_FREQUENCY = 1e-6
"""Frequencies that differ by less are equal but for rounding."""

NAMED = 5
"""Features or columns that a warning names."""


def penalized_features(problem: RefitProblem, estimate: Estimate, covariance: np.ndarray) -> np.ndarray:
    """Return the numbers of the features whose weights the L2 penalty determines more than the rows do.

    It is a large share of their curvature, or a Newton step without it leads out of a 95% interval. Where columns
    determine each other, the curvature grows with the weight, and only the step shows that the optimum is far away.
    """
    mine = slice(problem.n_biases, None)
    curvature, l2 = estimate.hessian.diagonal()[mine], problem.l2[mine]
    step = solve(estimate.hessian + np.diag(problem.l2), problem.l2 * estimate.theta)[mine]
    reach = MAX_STEP * np.sqrt(np.maximum(covariance.diagonal()[mine], 0.0))
    return np.flatnonzero((l2 > MAX_PENALTY_SHARE * (curvature + l2)) | (np.abs(step) > reach))


def warn_of_penalty(field: Field, problem: RefitProblem, estimate: Estimate, covariance: np.ndarray) -> None:
    """Warn of weights that L2 determines, as of two columns that are equal: their intervals can be too narrow."""
    found = penalized_features(problem, estimate, covariance)
    if len(found):
        names = ", ".join(feature.name for feature in name_features(field, found[:NAMED].tolist()))
        more = f" and {len(found) - NAMED:,} more" if len(found) > NAMED else ""
        warnings.warn(
            f"The penalty l2 = {problem.l2.max():g} determines the weights of {names}{more} more than the rows do, "
            "as where one column determines another: their intervals can be too narrow.",
            PenaltyWarning,
            stacklevel=4,
        )


def warn_of_other_table(field: Field, table: Table) -> None:
    """Warn of a table in which the values of a column are not as frequent as in the table of the fit."""
    weight = np.concatenate([np.zeros(0), *(block.weight for block in table.blocks)])
    different = []
    for variable, codes in zip(table.schema.targets, table.codes(), strict=True):
        counts = np.bincount(codes[codes >= 0], weight[codes >= 0], len(variable.states))
        if np.abs(counts / max(counts.sum(), 1e-300) - variable.code_frequencies).max(initial=0.0) > SAME_FREQUENCY:
            different.append(variable.name)
    if not different:
        return
    known, rows = field.record.n_rows, table.n_rows
    sizes = f" ({rows:,} rows, and {known:,} in training)" if known != rows else ""
    warnings.warn(
        f"This is not the table that the field was learned from{sizes}, or rows have other weights (sample_weight, "
        f"class_weight): the values of {_list_names(different)} are not as frequent. Intervals hold for the rows that "
        "are given.",
        OtherTableWarning,
        stacklevel=4,
    )


def warn_if_not_converged(estimate: Estimate, stacklevel: int) -> None:
    """Warn of estimates that are not at the optimum of the refit; ``stacklevel`` leads to the code of the user."""
    if not estimate.converged:
        warnings.warn(
            "The estimates without L1 did not converge, so their intervals are not reliable: raise l2 or l1.",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )


def describe_missing_refusal(table: Table, *, intervals: bool, imputes: bool) -> str:
    """Return why a table with missing cells is refused, and what to do."""
    dropping = "drop_incomplete=True (--drop-incomplete) uses the complete rows alone"
    ways = {
        (True, True): f"imputations=20 (--imputations 20) imputes them and pools godambe intervals, and {dropping}.",
        (False, True): f"{dropping}, and the tables of impute can be passed one by one to compare their coefficients.",
    }
    return f"{list_missing(table)}: {ways.get((intervals, imputes), f'{dropping}.')}"


def list_missing(table: Table) -> str:
    """Return how many rows have missing cells, and in which columns."""
    codes = table.codes()
    names = [v.name for v, own in zip(table.schema.targets, codes, strict=True) if (own < 0).any()]
    rows = f"{int((codes < 0).any(axis=0).sum()):,} of {table.n_rows:,} rows"
    return f"{rows} have missing cells (columns {_list_names(names)})"


def describe_unknown_values(source: Source, table: Table) -> str:
    """Return which values of a table do not occur in training, so that they cannot be imputed, and what to do."""
    names, found = list(table.unknown_rows), {}
    for variable in table.schema.targets:
        if variable.name in names:
            encode_column(source, variable, found)
    example = f"such as {found[names[0]].example!r} in {names[0]!r}"
    return (
        f"Column(s) {_list_names(names)} have values that do not occur in training ({example}), for which nothing can "
        "be imputed: correct or empty these cells, or fit the field to this table."
    )


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:NAMED])) + (f" and {len(names) - NAMED:,} more" if len(names) > NAMED else "")


@contextmanager
def shown_once() -> Iterator[None]:
    """Show each kind of warning once, although it is given for several tables."""
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        for one in {warning.category: warning for warning in reversed(caught)}.values():
            warnings.warn(str(one.message), one.category, stacklevel=5)

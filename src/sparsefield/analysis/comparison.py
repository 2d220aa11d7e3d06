"""Comparison of groups of rows: a field for each group, and permutation tests of their differences."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from numbers import Integral
from typing import Any, get_args

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import sparsefield
from sparsefield.analysis.bootstrap import Progress, count_from
from sparsefield.analysis.group_comparison import GroupComparison, edge_and_node_columns, network_test_columns
from sparsefield.analysis.group_refits import SubsetProblem, complete_once
from sparsefield.analysis.permutation_tests import (
    Adjustment,
    PermutationResult,
    PermutationTest,
    match_missing,
)
from sparsefield.compute import Engine, Threads
from sparsefield.data import Dataset, Label, Table, as_array, as_source, deduplicate_rows
from sparsefield.data.column_summaries import read_categories
from sparsefield.data.frame_building import make_frame
from sparsefield.data.labels import unify_labels
from sparsefield.data.table import rebuild_table
from sparsefield.errors import DataError, LeftOutWarning, count, interrupts_as_such
from sparsefield.estimators.compiled_rows import compile_densely, copy_with_field
from sparsefield.estimators.markov_field import MarkovField
from sparsefield.estimators.training import make_path, split_groups, training_options
from sparsefield.induction import all_pairs
from sparsefield.model import Field, FitRecord
from sparsefield.options import raise_problems
from sparsefield.solver.checkpoint import CheckpointFile, fingerprint, make_folder

FEWEST_ROWS = 10
"""Rows of a group, at least."""

MOST_GROUPS = 20

OBSERVED_PRECISION = 20.0
"""How much smaller the tolerance of the fits of the groups is than that of permuted groups, whose statistics only have
to be above or below the observed ones."""

MIDNIGHT = " 00:00:00"
"""How the text of a time ends that is a date."""


def compare(
    X: Any,
    group: Any,
    *,
    observed: Sequence[str | int] | str | None = None,
    permutations: int = 1000,
    adjust: Adjustment = "max",
    seed: int = 0,
    drop_missing_groups: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> GroupComparison:
    """Fit the networks of groups of rows, each by itself, and test whether they differ.

    Tests permute the groups of rows, and fit each group again, as the NetworkComparisonTest of R does.

    Parameters
    ----------
    X : frame or 2-D array
        Rows by columns of any kind; missing values are None, NaN or null.
    group : name of a column of ``X``, or (rows,) values
        The group of each row.
    observed : columns, by name or position, that are conditioned on
    permutations : int
        Number of permutations of each test; 0 tests nothing.
    adjust : {"max", "holm", "bh", "none"}
        How p-values of edges and nodes are adjusted for their number, over all pairs of groups: by the largest
        statistic of each permutation (Westfall and Young), or as Holm, or Benjamini and Hochberg do.
    seed : int
        Seed of everything random.
    drop_missing_groups : bool
        Whether rows without a group are left out, with a `LeftOutWarning`, instead of refused.
    checkpoint : folder
        Where the state of the tests is saved; after an interruption the same call continues from it.
    progress : function that is called with the number of permutations that are done and their total number
    **options
        Parameters of `MarkovField`, such as ``l1``, ``l2``, ``selection``, ``kinds`` or ``n_jobs``. ``l1="auto"``
        selects it for the field of all rows.

    Returns
    -------
    GroupComparison

    Examples
    --------
    >>> import numpy as np
    >>> from sparsefield import compare
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.integers(0, 2, (2, 400))
    >>> group = np.repeat(["south", "north"], 200)
    >>> X = np.column_stack([a, np.where((group == "north") & (rng.random(400) < 0.8), a, b)])
    >>> comparison = compare(X, group, l1=5.0, permutations=99)
    >>> comparison.groups, comparison.edges["p"][0]
    (('north', 'south'), 0.01)
    """
    problems = [
        f"{name} must be a whole number from 0; got {value!r}."
        for name, value in (("permutations", permutations), ("seed", seed))
        if not isinstance(value, Integral) or value < 0
    ]
    if adjust not in get_args(Adjustment):
        problems.append(f"adjust must be one of {', '.join(map(repr, get_args(Adjustment)))}; got {adjust!r}.")
    raise_problems(problems)
    if "sample_weight" in options:
        raise DataError("A comparison of groups counts each row once: leave sample_weight out.")
    estimator = MarkovField(**{"random_state": seed, **options})
    refuse_unsupported(estimator.get_params() | {"objective": estimator.resolve("objective").name})
    groups = read_compared_groups(X, group, drop_missing=drop_missing_groups)
    estimator.fit(groups.X, observed=observed)
    if not estimator.l1_ > 0.0:
        raise DataError("A comparison of groups needs an l1 above 0.")
    table, numbers = compile_densely(estimator, groups.X).tables[0], groups.numbers
    with interrupts_as_such(), Threads(estimator.n_jobs) as engine:
        tested, field = _match_missing(estimator, table, numbers, seed, engine)
        layout, rule = estimator.field_.layout, estimator.resolve("induction")
        candidates = rule.start(layout) if rule.fixed_candidates else all_pairs(layout)
        problem = SubsetProblem(complete_once(tested, field, seed), layout, candidates, estimator.l2)
        start = problem.start_from(field.pairs, field.theta)
        # The noise in a gradient grows with the square root of the number of rows.
        chosen = [numbers == number for number in range(len(groups.labels))]
        l1 = [estimator.l1_ * float(np.sqrt(rows.mean())) for rows in chosen]
        parts = zip(chosen, l1, strict=True)
        fits = [problem.fit(rows, penalty, start, None, OBSERVED_PRECISION) for rows, penalty in parts]
        everyone = tuple(range(len(chosen)))
        compared = [*combinations(everyone, 2), *([everyone] if len(everyone) > 2 else [])]
        tests = [PermutationTest(some, k, problem, numbers, seed, l1, fits, start) for k, some in enumerate(compared)]
        pooled = estimator.field_
        facts = np.array([estimator.l1_, estimator.l2, seed, permutations])
        arrays = numbers, facts, problem.pairs, pooled.features, pooled.theta
        results = _run(tests, permutations, engine, checkpoint, progress, Dataset.single(table), arrays)
    unconverged = sum(result.unconverged for result in results)
    if unconverged:
        warnings.warn(
            f"{count(unconverged, 'fit')} of groups stopped before convergence. Raise l1 or l2.",
            ConvergenceWarning,
            stacklevel=2,
        )
    fields = {}
    for label, rows, penalty, fit in zip(groups.labels, chosen, l1, fits, strict=True):
        record = FitRecord(
            version=sparsefield.__version__,
            n_rows=int(rows.sum()),
            l1=penalty,
            objective=problem.objective(rows, penalty, fit.theta),
            kkt_violation=fit.violation,
            converged=fit.converged,
            mc_error=None if tested.has_missing else 0.0,
        )
        fields[label] = copy_with_field(estimator, problem.field_of(fit, record), l1=penalty)
    plain, kind = [fitted.field_ for fitted in fields.values()], estimator.kind_
    edges, nodes = edge_and_node_columns(groups.labels, plain, problem.pairs, results, adjust)
    return GroupComparison(
        groups=groups.labels,
        sizes=groups.sizes,
        fields=fields,
        pooled=estimator,
        l1=estimator.l1_,
        tests=make_frame(network_test_columns(groups.labels, results), kind),
        edges=make_frame(edges, kind),
        nodes=make_frame(nodes, kind),
        permutations=int(permutations),
        adjustment=adjust,
        results=results,
        hidden_cells=int((tested.codes() < 0).sum() - (table.codes() < 0).sum()),
    )


def _run(
    tests: Sequence[PermutationTest],
    permutations: int,
    engine: Engine,
    checkpoint: str | os.PathLike[str] | None,
    progress: Progress | None,
    dataset: Dataset,
    arrays: Sequence[np.ndarray],
) -> tuple[PermutationResult, ...]:
    """Return the results of tests; ``dataset`` and ``arrays`` determine them, and so whether a checkpoint fits."""
    files: list[CheckpointFile | None] = [None] * len(tests)
    if checkpoint is not None:
        mark, folder = fingerprint(dataset, *arrays), make_folder(checkpoint)
        files = [CheckpointFile(folder / f"comparison-{k}.safetensors", mark) for k in range(len(tests))]
    results, total = [], permutations * len(tests)
    for test, file in zip(tests, files, strict=True):
        results.append(test.run(permutations, engine, file, count_from(progress, test.number * permutations, total)))
    for file in files:
        if file is not None:
            file.path.unlink(missing_ok=True)
    return tuple(results)


def _match_missing(
    estimator: MarkovField, table: Table, numbers: np.ndarray, seed: int, engine: Engine
) -> tuple[Table, Field]:
    """Return a table in which the cells of all groups are missing alike, and a field that was fitted to it."""
    codes = table.codes()
    hidden = match_missing((codes < 0).T, numbers, seed).T & (codes >= 0)
    if not hidden.any():
        return table, estimator.field_
    matched = rebuild_table(table, np.where(hidden, -1, codes), np.arange(table.n_rows), table.schema.n_columns)
    options = training_options(estimator, estimator.l1_)
    path = make_path(estimator, deduplicate_rows(Dataset.single(matched)), options, engine)
    return matched, path.run().field


@dataclass(frozen=True)
class ComparedGroups:
    """A table without its group column, and the group of each row."""

    X: Any
    labels: tuple[Label, ...]
    numbers: np.ndarray
    """(rows,): positions in ``labels``."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of rows of each group."""
        return tuple(np.bincount(self.numbers, minlength=len(self.labels)).tolist())


def read_compared_groups(X: Any, group: Any, *, drop_missing: bool = False) -> ComparedGroups:
    """Return a table and its groups; ``group`` is the name of a column, or an array with the group of each row.

    With ``drop_missing``, rows without a group are left out, with a warning.
    """
    if sp.issparse(X):
        raise DataError("Groups are compared in a dense table, not in a sparse matrix: pass X.toarray().")
    if isinstance(group, str):
        names = as_source(X).names
        if group not in names:
            raise DataError(
                f"The group column {group!r} is not there: name one of {', '.join(map(repr, names[:8]))}"
                f"{', ...' if len(names) > 8 else ''}, or pass an array with the group of each row."
            )
    X, values = split_groups(X, group)
    cells = as_array(values, "group")
    n_rows = as_source(X).n_rows
    if cells.shape != (n_rows,):
        raise DataError(f"group.shape == {cells.shape}, expected ({n_rows},): one group per row.")
    source = as_source(cells.reshape(-1, 1), what="group")
    categories = read_categories(source, "x0")
    own_name = group if isinstance(group, str) else getattr(group, "name", None)
    name = f"Column {own_name!r}" if own_name else "group"
    labels = (
        _date_texts(cells, categories.codes)
        if source.column("x0").in_days
        else unify_labels([*categories.labels], categories.are_objects)
    )
    groups = ComparedGroups(X, tuple(labels), categories.codes)
    rows = np.flatnonzero(categories.codes >= 0)
    if drop_missing and len(rows) < n_rows:
        warnings.warn(
            f"{name} has {n_rows - len(rows):,} missing value(s): these rows are left out, and {len(rows):,} remain.",
            LeftOutWarning,
            stacklevel=3,
        )
        whole = as_source(X)
        X = whole.native[rows] if whole.kind == "array" else nw.to_native(whole.native[rows.tolist()])
        groups = ComparedGroups(X, groups.labels, groups.numbers[rows])
    problems = list(_problems(groups, name))
    if problems:
        raise DataError(" ".join(problems))
    return groups


def _date_texts(cells: np.ndarray, codes: np.ndarray) -> list[Label]:
    """Return the dates, times or durations of the labels with the codes 0, 1, ... as text."""
    places = [int(np.argmax(codes == code)) for code in range(int(codes.max(initial=-1)) + 1)]
    if cells.dtype.kind in "mM":
        # Python has no dates or durations of nanoseconds, and NumPy would return integers.
        cells = cells.astype(f"{cells.dtype.kind}8[us]")
    texts = [str(cell) for cell in cells[places].tolist()]
    at_midnight = all(text.endswith(MIDNIGHT) for text in texts)
    return [text.removesuffix(MIDNIGHT) if at_midnight else text for text in texts]


def _problems(groups: ComparedGroups, name: str) -> Iterator[str]:
    """Yield a sentence for each reason why groups cannot be compared."""
    missing = np.flatnonzero(groups.numbers < 0)
    if len(missing):
        yield (
            f"{name} has {len(missing):,} missing value(s), the first in row {missing[0] + 1:,} (counted from 1): give "
            "every row a group, or leave these rows out with drop_missing_groups=True."
        )
        return
    if len(groups.labels) < 2:
        only = f" the only group {groups.labels[0]!r}" if groups.labels else " no group"
        yield f"{name} has{only}: a comparison needs two groups or more."
    if len(groups.labels) > MOST_GROUPS:
        yield (
            f"{name} has {len(groups.labels):,} different values, more than {MOST_GROUPS} groups: name a column of "
            "fewer values, or merge groups."
        )
        return
    parts = zip(groups.labels, groups.sizes, strict=True)
    small = [f"{label!r} has {size}" for label, size in parts if size < FEWEST_ROWS]
    if small:
        yield (
            f"{name}: a group needs at least {FEWEST_ROWS} rows, but {', '.join(small)}: leave such rows out, or merge "
            "groups."
        )
    source = as_source(groups.X)
    for name in source.names:  # columns that have values in some groups only
        known = np.bincount(groups.numbers[source.column(name).present], minlength=len(groups.labels)) > 0
        if known.any() and not known.all():
            empty = [repr(label) for label, is_known in zip(groups.labels, known, strict=True) if not is_known]
            yield f"Column {name!r} has no values in group {', '.join(empty)}: drop it."


def refuse_unsupported(parameters: Mapping[str, Any]) -> None:
    """Refuse parameters of `MarkovField` for which groups cannot be compared."""
    allowed = {
        "objective": ("pl", "the pseudo-likelihood"),
        "penalty": ("l1", "single weights"),
        "refit": (False, "weights with their L1 penalty"),
        "features__penalize_biases": (False, "free biases"),
        "features__max_order": (2, "features of two columns"),
        "latent": (None, "no latent variables"),
        "solver__engine": (None, "this machine"),
    }
    problems = [
        f"{name.rpartition('__')[2]}={parameters[name]!r} is not possible in a comparison of groups, which has {what}: "
        "leave it out."
        for name, (value, what) in allowed.items()
        if parameters[name] != value
    ]
    raise_problems(problems)

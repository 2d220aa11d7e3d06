"""This module scores held-out rows of public binary datasets; penalties are chosen on validation rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
import typer
from threadpoolctl import threadpool_limits

from benchmarks.command_line import Json, print_rows
from benchmarks.measure import climb
from sparsefield.cli.console import print_message
from sparsefield.datasets import load_dataset
from sparsefield.estimators import MarkovField
from sparsefield.induction.higher_order import HigherOrder

__all__ = ["run_heldout", "score_boosting"]

GRIDS: dict[str, tuple[float, ...]] = {
    "nltcs": (0.25, 0.5, 1.0, 2.0, 4.0),
    "dna": (4.0, 6.0, 8.0, 10.0, 12.0),
    "plants": (2.0, 3.0, 5.0, 7.0, 10.0),
}
"""Candidate values of l1: the best one grows with the rows of a dataset and falls with its signal."""

HIGHER_GRIDS: dict[str, tuple[float, ...]] = {
    "nltcs": (2.0, 4.0, 8.0),
    "dna": (6.0, 8.0, 10.0, 12.0),
    "plants": (5.0, 7.0, 10.0),
}
"""Candidate values of l1 for features of three columns and more."""


def run_heldout(
    data: Sequence[str] = ("nltcs", "dna", "plants"),
    report: Callable[[str], None] = print,
    *,
    l2: float = 0.0,
    penalize_biases: bool = False,
    max_order: int = 2,
    order_penalty: float = 2.0,
    boosting: bool = False,
    n_jobs: int | None = None,
) -> list[dict[str, Any]]:
    """Return a row per dataset: the chosen l1, test score per row, features, certificate and time of the chosen fit.

    With ``boosting``, there is a second row for gradient boosting, one model per column, which is no joint
    distribution; both then run on one thread by default, and boosting always does.
    """
    n_jobs = 1 if n_jobs is None and boosting else n_jobs
    rows = []
    for name in data:
        splits: Any = load_dataset(name)
        fits: dict[float, tuple[MarkovField, float]] = {}

        def validation_score(l1: float, splits: Any = splits, fits: Any = fits, name: str = name) -> float:
            started = time.perf_counter()
            field = MarkovField(
                l1=l1,
                l2=l2,
                penalize_biases=penalize_biases,
                max_order=HigherOrder(max_order=max_order, order_penalty=order_penalty),
                n_jobs=n_jobs,
            ).fit(splits.train)
            fits[l1] = (field, time.perf_counter() - started)
            score = field.score(splits.valid)
            report(f"{name}: l1 {l1:g}, validation score per row {score:.4f}, {fits[l1][1]:.1f} s")
            return score

        best, _ = climb((GRIDS if max_order == 2 else HIGHER_GRIDS)[name], validation_score)
        field, seconds = fits[best]
        rows.append(
            {
                "data": name,
                "method": "sparsefield" if max_order == 2 else f"sparsefield, order {max_order}",
                "l1": best,
                "test_score": field.score(splits.test),
                "features": len(field.field_.features),
                "candidates": field.field_.layout.n_candidate_pairs,
                "kkt_violation": field.kkt_violation_,
                "seconds": seconds,
            }
        )
        if boosting:
            report(f"{name}: gradient boosting, one model a column")
            score, seconds = score_boosting(np.asarray(splits.train), np.asarray(splits.test))
            rows.append({"data": name, "method": "boosting", "test_score": score, "seconds": seconds})
    return rows


def score_boosting(train: np.ndarray, test: np.ndarray, **options: Any) -> tuple[float, float]:
    """Return the test score per row, and the seconds, of boosting each 0/1 column on all others.

    This is scikit-learn's histogram boosting. Trees of depth 3 score better here than its defaults, and are faster."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    total, seconds = 0.0, 0.0
    for k in range(train.shape[1]):
        others, column, truth = np.delete(train, k, axis=1), train[:, k], test[:, k]
        if column.min() == column.max():
            # Nothing to learn; a value that training never saw counts as half a row of it.
            total += float(np.where(truth == column[0], 0.0, np.log(0.5 / len(train))).sum())
            continue
        started = time.perf_counter()
        with threadpool_limits(1):
            model = HistGradientBoostingClassifier(**{"max_depth": 3, "random_state": 0, **options}).fit(others, column)
        seconds += time.perf_counter() - started
        beliefs = model.predict_proba(np.delete(test, k, axis=1))
        right = beliefs[np.arange(len(test)), np.searchsorted(model.classes_, truth)]
        total += float(np.log(np.maximum(right, 1e-12)).sum())
    return total / len(test), seconds


def command(
    data: Annotated[list[str] | None, typer.Option("--data", help="nltcs, dna, plants; by default all.")] = None,
    max_order: Annotated[int, typer.Option("--max-order", min=2, help="Largest number of columns of a feature.")] = 2,
    order_penalty: Annotated[float, typer.Option("--order-penalty", min=1.0, help="As in `sparsefield fit`.")] = 2.0,
    boosting: Annotated[bool, typer.Option("--boosting", help="Also measure boosting of each column.")] = False,
    as_json: Json = False,
) -> None:
    """Score held-out rows of public binary data sets, with l1 chosen on their validation rows."""
    found = run_heldout(
        tuple(data or ("nltcs", "dna", "plants")),
        report=print_message,
        max_order=max_order,
        order_penalty=order_penalty,
        boosting=boosting,
    )
    shown = ("data", "method", "l1", "test_score", "features", "candidates", "kkt_violation", "seconds")
    print_rows(found, shown, as_json)

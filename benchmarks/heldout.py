"""This module scores held-out rows of public binary datasets; penalties are chosen on validation rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from threadpoolctl import threadpool_limits

from benchmarks.command_line import Json, print_rows
from benchmarks.measure import climb
from reproduction.public_data import load_dataset
from sparsefield import Features
from sparsefield.app.cli.console import print_message
from sparsefield.estimators import MarkovField

__all__ = ["run_heldout", "score_boosting"]

GRIDS: dict[str, tuple[float, ...]] = {
    "nltcs": (0.25, 0.5, 1.0, 2.0, 4.0),
    "dna": (4.0, 6.0, 8.0, 10.0, 12.0),
    "plants": (2.0, 3.0, 5.0, 7.0, 10.0),
}
"""Candidate values of l1: the best one grows with the rows of a dataset and falls with its signal."""

HIGHER_GRIDS: dict[str, tuple[float, ...]] = {
    "nltcs": (1.0, 2.0, 4.0, 8.0),
    "dna": (6.0, 8.0, 10.0, 12.0),
    "plants": (3.0, 5.0, 7.0),
}
"""Candidate values of l1 for features of three columns and more."""

WARM_UP_ROWS = 300
"""Rows of a first fit that is not measured, so that everything is compiled."""


class Times(NamedTuple):
    """The processor time and the wall time of a call."""

    cpu_seconds: float
    seconds: float


def run_heldout(
    data: Sequence[str] = ("nltcs", "dna", "plants"),
    report: Callable[[str], None] = print,
    *,
    l2: float = 0.0,
    penalize_biases: bool = False,
    max_order: int = 2,
    order_penalties: Sequence[float] = (2.0,),
    boosting: bool = False,
    n_jobs: int | None = None,
) -> list[dict[str, Any]]:
    """Return a row per dataset: the chosen l1, test score per row, features, certificate and time of the chosen fit.

    Of several ``order_penalties`` the validation rows choose one as well. With ``boosting``, there is a second row for
    gradient boosting, one model per column, which is no joint distribution; both then run on one thread by default, and
    boosting always does.
    """
    n_jobs = 1 if n_jobs is None and boosting else n_jobs
    rows = []
    for name in data:
        splits: Any = load_dataset(name)
        fits: dict[tuple[float, float], tuple[float, MarkovField, Times]] = {}

        def fit(train: Any, l1: float, order_penalty: float) -> MarkovField:
            return MarkovField(
                l1=l1,
                l2=l2,
                features=Features(max_order=max_order, order_penalty=order_penalty, penalize_biases=penalize_biases),
                n_jobs=n_jobs,
            ).fit(train)

        def validation_score(
            l1: float, order_penalty: float, splits: Any = splits, fits: Any = fits, name: str = name, fit: Any = fit
        ) -> float:
            field, times = _timed(lambda: fit(splits.train, l1, order_penalty))
            score = field.score(splits.valid)
            fits[l1, order_penalty] = score, field, times
            penalties = f"l1 {l1:g}" if max_order == 2 else f"l1 {l1:g}, order penalty {order_penalty:g}"
            report(f"{name}: {penalties}, validation score per row {score:.4f}, {times.cpu_seconds:.1f} CPU seconds")
            return score

        grid = (GRIDS if max_order == 2 else HIGHER_GRIDS)[name]
        fit(splits.train[:WARM_UP_ROWS], grid[-1], order_penalties[0])
        for order_penalty in order_penalties:
            climb(grid, partial(validation_score, order_penalty=order_penalty))
        (l1, order_penalty), (_, field, times) = max(fits.items(), key=lambda item: item[1][0])
        rows.append(
            {
                "data": name,
                "method": "sparsefield" if max_order == 2 else f"sparsefield, order {max_order}",
                "l1": l1,
                "order_penalty": None if max_order == 2 else order_penalty,
                "test_score": field.score(splits.test),
                "features": len(field.field_.features),
                "candidates": field.field_.layout.n_candidate_pairs,
                "kkt_violation": field.kkt_violation_,
                **times._asdict(),
            }
        )
        if boosting:
            report(f"{name}: gradient boosting, one model a column")
            score, times = score_boosting(np.asarray(splits.train), np.asarray(splits.test))
            rows.append({"data": name, "method": "boosting", "test_score": score, **times._asdict()})
    return rows


def _timed(function: Callable[[], Any]) -> tuple[Any, Times]:
    """Return what a function returns, and the time it takes."""
    cpu, wall = time.process_time(), time.perf_counter()
    found = function()
    return found, Times(time.process_time() - cpu, time.perf_counter() - wall)


def score_boosting(train: np.ndarray, test: np.ndarray, **options: Any) -> tuple[float, Times]:
    """Return the test score per row, and the time of all fits, of boosting each 0/1 column on all others.

    This is scikit-learn's histogram boosting. Trees of depth 3 score better here than its defaults, and are faster."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    total, spent = 0.0, Times(0.0, 0.0)
    for k in range(train.shape[1]):
        others, column, truth = np.delete(train, k, axis=1), train[:, k], test[:, k]
        if column.min() == column.max():
            # Nothing to learn; a value that training never saw counts as half a row of it.
            total += float(np.where(truth == column[0], 0.0, np.log(0.5 / len(train))).sum())
            continue
        model = HistGradientBoostingClassifier(**{"max_depth": 3, "random_state": 0, **options})
        with threadpool_limits(1):
            _, times = _timed(partial(model.fit, others, column))
        spent = Times(spent.cpu_seconds + times.cpu_seconds, spent.seconds + times.seconds)
        beliefs = model.predict_proba(np.delete(test, k, axis=1))
        right = beliefs[np.arange(len(test)), np.searchsorted(np.asarray(model.classes_), truth)]
        total += float(np.log(np.maximum(right, 1e-12)).sum())
    return total / len(test), spent


def command(
    data: Annotated[list[str] | None, typer.Option("--data", help="nltcs, dna, plants; by default all.")] = None,
    max_order: Annotated[int, typer.Option("--max-order", min=2, help="Largest number of columns of a feature.")] = 2,
    order_penalty: Annotated[
        list[float] | None,
        typer.Option("--order-penalty", min=1.0, help="As in `sparsefield fit`; the best of several, by default 2."),
    ] = None,
    boosting: Annotated[bool, typer.Option("--boosting", help="Also measure boosting of each column.")] = False,
    as_json: Json = False,
) -> None:
    """Score held-out rows of public binary data sets, with l1 chosen on their validation rows."""
    found = run_heldout(
        tuple(data or ("nltcs", "dna", "plants")),
        report=print_message,
        max_order=max_order,
        order_penalties=tuple(order_penalty or (2.0,)),
        boosting=boosting,
    )
    shown = ("data", "method", "l1", "order_penalty", "test_score", "features", "candidates", "kkt_violation")
    shown = (*shown, "cpu_seconds", "seconds")
    print_rows(found, shown, as_json)

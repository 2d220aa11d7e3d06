"""Choosing l1 from the data at hand: fields along a path, judged by cells that they have not seen, or by EBIC."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import (
    Dataset,
    DenseDataset,
    DistributedDataset,
    LocalDataset,
    SparseDataset,
    deduplicate_rows,
    draw_rows,
    hide_cells,
    take_rows,
)
from sparsefield.errors import DataError
from sparsefield.inference import InferenceMethod, infer
from sparsefield.model import Field, PathRow
from sparsefield.objectives import OBJECTIVES, DenseEvaluator, make_evaluator
from sparsefield.solver.path_trainer import PathTrainer
from sparsefield.solver.regularization_path import PathPoint, Scorer, ebic, ebic_of_an_end, end_of_walk, follow_path

__all__ = ["LONG_PATIENCE", "PathSelection", "SelectionOptions", "choose_l1", "prune_by_wald"]

VALUES = 33
SMALLEST_RATIO = 1e-4
PATIENCE = 3
"""Values of l1 on a path, each three quarters of the one before; the last of them as a share of the first; and how many
worse ones in a row end it early, which they nearly always do."""

PROGRESS = {"heldout": 1e-4, "ebic": 0.0}
"""Share by which a score must rise for the path to be worth going on. Of a criterion any rise counts."""

LONG_PATIENCE = 8
"""For a look at what lies beyond the choice."""

GAMMA = 0.5
"""Of EBIC: how much the number of candidates counts."""

HELD_OUT = 0.2
FEW_ROWS = 200
"""A plain table with so many rows holds back a fifth of them; smaller ones, and linked tables, hold back cells."""

GROUPS = 10
"""Held-out cells are scored in so many groups, whose differences tell how sure a comparison is."""

PRUNINGS = 5

Make = Callable[[Dataset, float, float], PathTrainer]
"""``make(sample, l1, kkt_tol)``"""


@dataclass(frozen=True)
class SelectionOptions:
    """How to choose."""

    selection: Literal["heldout", "ebic"] = "heldout"
    values: int = VALUES
    patience: int | None = PATIENCE
    kkt_tol: float = 0.01
    seed: int = 0
    refit_l2: float | None = None
    """Where features will be estimated anew without L1, with this l2: fields are judged by held-out cells as they are
    then, since few features that are refitted may do better than many that are shrunk."""


@dataclass(frozen=True)
class PathSelection:
    """What was chosen, and the path that it was chosen from."""

    l1: float
    """For all rows."""
    place: int
    """Of the chosen point on the path."""
    path: tuple[PathPoint, ...]
    scale: float = 1.0
    """l1 for all rows, as a multiple of l1 on the path, which had fewer."""

    def rows(self) -> tuple[PathRow, ...]:
        """Return a row for each value of l1."""
        found = []
        for k, point in enumerate(self.path):
            error = float(point.worth.std(ddof=1) / np.sqrt(len(point.worth))) if len(point.worth) > 1 else np.nan
            found.append(
                PathRow(
                    float(point.l1 * self.scale),
                    len(point.learned.field.features),
                    point.score,
                    error,
                    chosen=k == self.place,
                )
            )
        return tuple(found)


def choose_l1(
    sample: Dataset,
    make: Make,
    inference: InferenceMethod,
    engine: Engine,
    ways: SelectionOptions,
    hear: Callable[[PathPoint], None] | None = None,
) -> PathSelection:
    """Walk down the path and choose. ``hear`` is told of each point."""
    judge, part, scale = _judge(sample, inference, engine, ways)
    path = []
    steps = follow_path(
        lambda l1, kkt_tol: make(part, l1, kkt_tol),
        judge,
        count=ways.values,
        ratio=SMALLEST_RATIO,
        kkt_tol=ways.kkt_tol,
        patience=ways.patience,
        progress=PROGRESS[ways.selection],
    )
    for point in steps:
        path.append(point)
        if hear is not None:
            hear(replace(point, l1=point.l1 * scale))
    place = _choose(path, ways.selection)
    scale = scale if len(path) > 1 else 1.0  # nothing depends on anything, at any l1
    return PathSelection(path[place].l1 * scale, place, tuple(path), scale)


def _choose(path: list[PathPoint], selection: str) -> int:
    """What a walk of ordinary patience takes, however long this one was."""
    seen = path[: end_of_walk([point.score for point in path], PATIENCE, PROGRESS[selection])]
    best = int(np.argmax([point.score for point in seen]))
    return one_standard_error(seen, best) if selection == "heldout" else best


def one_standard_error(path: list[PathPoint], best: int) -> int:
    """The first point, the sparsest, that is worse than the best by no more than one standard error of the difference:
    all are scored on the same cells, so that differences are far surer than scores."""
    for k, point in enumerate(path[:best]):
        apart = path[best].worth - point.worth
        if len(apart) > 1 and apart.mean() <= apart.std(ddof=1) / np.sqrt(len(apart)):
            return k
    return best


def prune_by_wald(trainer: PathTrainer, l2: float, gamma: float = GAMMA) -> Field:
    """Estimate the features with a weight anew without L1, and drop those whose weight EBIC does not support, in turns.

    A feature stays when its Wald statistic exceeds what EBIC asks for one end of it; the lower of two ends counts.
    """
    if not isinstance(trainer.evaluator, DenseEvaluator):
        raise TypeError("weights of a sparse table have no Wald statistics")
    n = trainer.layout.n_states
    field = trainer.refit(trainer.theta[n:] != 0.0, l2)
    cost = ebic_of_an_end(trainer.layout, trainer.evaluator.total_weights, gamma)
    for _ in range(PRUNINGS):
        weights = trainer.theta[n:]
        asked = np.full(len(weights), np.inf)
        np.minimum.at(asked, trainer.arcs.feature, cost[trainer.arcs.target])
        kept = trainer.evaluator.wald_statistics(trainer.arcs, weights) > asked
        if kept.all():
            break
        field = trainer.refit(kept, l2)
    return field


def _judge(
    sample: Dataset, inference: InferenceMethod, engine: Engine, ways: SelectionOptions
) -> tuple[Scorer, Dataset, float]:
    """What judges, the sample to learn from, and the factor from its l1 to that of all rows.

    The noise in a gradient grows with the square root of the cells that it sums over, and so does the l1 that holds it
    down.
    """
    if ways.selection == "ebic":
        part = deduplicate_rows(sample) if isinstance(sample, DenseDataset) else sample
        return lambda trainer, _: np.array([-ebic(trainer, GAMMA)]), part, 1.0
    if isinstance(sample, DistributedDataset):
        raise DataError(
            "l1='auto' with selection='heldout' holds rows back, for which all rows must be here, and these are on a "
            "cluster: take selection='ebic', or give l1 a number."
        )
    rng = np.random.default_rng(ways.seed)
    if isinstance(sample, SparseDataset) or (sample.is_plain and sample.n_rows >= FEW_ROWS):
        rows = draw_rows(sample, HELD_OUT, rng)
        if len(rows) >= GROUPS:
            rest = take_rows(sample, np.setdiff1d(np.arange(sample.n_rows), rows))
            part = deduplicate_rows(rest) if isinstance(rest, DenseDataset) else rest
            # In turn, so that no group is of one time or place where rows come in such an order.
            held = [take_rows(sample, rows[k::GROUPS]) for k in range(GROUPS)]
            scale = float(np.sqrt(_weight(sample) / max(_weight(rest), np.finfo(float).tiny)))
            return lambda trainer, _: _score_rows(_final(trainer, ways), held, inference, engine), part, scale
        if isinstance(sample, SparseDataset):
            raise DataError(
                f"l1='auto' needs {GROUPS} rows to hold back, and finds {len(rows)} of {sample.n_rows}: take "
                "selection='ebic', or give l1 a number."
            )
    part, hidden = hide_cells(sample, HELD_OUT, rng)
    if sum(int(cells.sum()) for cells in hidden) < GROUPS:
        return _judge(sample, inference, engine, replace(ways, selection="ebic"))  # nothing to hold back
    seen = [table.codes() for table in sample.tables]
    group = [rng.integers(0, GROUPS, codes.shape) for codes in seen]
    return (
        lambda trainer, _: _score_cells(_final(trainer, ways), part, seen, hidden, group, inference, engine),
        part,
        float(np.sqrt(1.0 / (1.0 - HELD_OUT))),
    )


def _final(trainer: PathTrainer, ways: SelectionOptions) -> Field:
    """The field at hand as it would be handed out."""
    if ways.refit_l2 is None:
        return trainer.field
    twin, beliefs = trainer.branch(), trainer.evaluator.missing_beliefs()
    field = twin.refit(twin.theta[twin.layout.n_states :] != 0.0, ways.refit_l2)
    trainer.evaluator.set_missing_beliefs(beliefs)
    return field


def _weight(sample: LocalDataset) -> float:
    return sum(table.total_weight for table in sample.tables)


def _score_rows(field: Field, held: list, inference: InferenceMethod, engine: Engine) -> np.ndarray:
    """(groups,): pseudo-log-likelihood per unit of weight."""
    found = []
    for sample in held:
        if isinstance(sample, SparseDataset):
            evaluator = make_evaluator(sample, OBJECTIVES["pl"](), engine)
            loss, _ = evaluator.evaluate(evaluator.compile(field.layout.arcs(field.features)), field.theta)
            found.append(-loss / _weight(sample))
        else:
            found.append(infer(field, sample, inference, engine).log_likelihood / _weight(sample))
    return np.array(found)


def _score_cells(
    field: Field,
    part: DenseDataset,
    seen: list[np.ndarray],
    hidden: list[np.ndarray],
    group: list[np.ndarray],
    inference: InferenceMethod,
    engine: Engine,
) -> np.ndarray:
    """(groups,): mean log-belief in the truth of hidden cells."""
    answers = infer(field, part, inference, engine)
    total, count = np.zeros(GROUPS), np.zeros(GROUPS)
    for table, beliefs, codes, chosen, groups in zip(part.tables, answers.marginals, seen, hidden, group, strict=True):
        offsets = table.schema.state_offsets
        for v in range(len(codes)):
            rows = np.flatnonzero(chosen[v])
            states = beliefs[offsets[v] : offsets[v + 1]][:, rows]
            every = np.concatenate([1.0 - states.sum(axis=0, keepdims=True), states])
            truth = np.log(np.maximum(every[codes[v, rows], np.arange(len(rows))], 1e-12))
            np.add.at(total, groups[v, rows], truth)
            np.add.at(count, groups[v, rows], 1.0)
    return total[count > 0] / count[count > 0]

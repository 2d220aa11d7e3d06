"""How well a field predicts the known cells of some rows, each from everything else: by column, and how calibrated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sparsefield.data import DenseDataset, Variable
from sparsefield.inference import Posterior, state_probabilities

__all__ = [
    "Calibration",
    "ColumnScore",
    "calibrate",
    "count_contrasts",
    "overall",
    "score_columns",
]

TINY = np.finfo(float).tiny
"""A belief of 0 counts as this, about -708 in logs."""

BINS = 10


@dataclass(frozen=True)
class ColumnScore:
    """Scores of the known cells of one column, or of several.

    Attributes
    ----------
    cll, marginal_cll : float
        Mean natural log of the belief in the true state: of the field, and of the column's frequencies in training.
    error_rate, marginal_error_rate : float
        Share of cells whose most believed state is not the true one.
    """

    name: str
    cells: int
    cll: float
    marginal_cll: float
    error_rate: float
    marginal_error_rate: float

    @property
    def gain(self) -> float:
        return self.cll - self.marginal_cll


@dataclass(frozen=True)
class Calibration:
    """Statements "this cell has this state", by how sure the field is of them: per bin, of even width.

    Attributes
    ----------
    count : (bins,)
    belief : (bins,)
        Mean belief; NaN where no statement falls.
    share : (bins,)
        How many of them are true.
    """

    count: np.ndarray
    belief: np.ndarray
    share: np.ndarray

    @property
    def gap(self) -> float:
        """Mean distance of share and belief, each bin by its statements."""
        full = self.count > 0
        distance = np.abs(self.share[full] - self.belief[full])
        return float((self.count[full] * distance).sum() / max(self.count.sum(), 1))


def score_columns(sample: DenseDataset, answers: Posterior, *, known_shares: bool = True) -> list[ColumnScore]:
    """Scores of each target column that has known cells, in the order of the schema.

    ``known_shares`` says whether the schema's frequencies come from training; otherwise those of the rows at hand
    stand in for them.
    """
    found = []
    for table, variable, beliefs, truth in _cells(sample, answers):
        if known_shares:
            shares = np.asarray(variable.frequencies, dtype=float)
        else:
            shares = np.bincount(truth, minlength=len(variable.states)) / len(truth)
        right = beliefs[np.arange(len(truth)), truth]
        found.append(
            ColumnScore(
                f"{table}.{variable.name}" if table else variable.name,
                len(truth),
                float(np.log(np.maximum(right, TINY)).mean()),
                float(np.log(np.maximum(shares[truth], TINY)).mean()),
                float((beliefs.argmax(axis=1) != truth).mean()),
                float((truth != shares.argmax()).mean()),
            )
        )
    return found


def overall(scores: Sequence[ColumnScore]) -> ColumnScore:
    """All columns together, each by its cells."""
    cells = sum(score.cells for score in scores)
    if cells == 0:
        return ColumnScore("all columns", 0, *[math.nan] * 4)
    means = [
        sum(score.cells * getattr(score, what) for score in scores) / cells
        for what in ("cll", "marginal_cll", "error_rate", "marginal_error_rate")
    ]
    return ColumnScore("all columns", cells, *means)


def calibrate(sample: DenseDataset, answers: Posterior, bins: int = BINS) -> Calibration:
    """Beliefs in all states of all known cells, against how many of them are true."""
    count, belief, true = np.zeros(bins), np.zeros(bins), np.zeros(bins)
    for _, _, beliefs, truth in _cells(sample, answers):
        place = np.minimum((beliefs * bins).astype(np.int64), bins - 1)
        hits = np.arange(beliefs.shape[1]) == truth[:, None]
        count += np.bincount(place.ravel(), minlength=bins)
        belief += np.bincount(place.ravel(), beliefs.ravel(), bins)
        true += np.bincount(place[hits], minlength=bins)
    with np.errstate(invalid="ignore"):
        return Calibration(count, belief / count, true / count)


def count_contrasts(
    sample: DenseDataset, answers: Posterior, bins: int = 40
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges from -1 to 1, and how many errors and how many signals of known cells lie between them.

    An error is q1 - q0 (Definition 1): what is believed of a state given everything else, less what is seen. A signal
    is q0 less its mean over the rows (Definition 2). Each state but the base counts.
    """
    edges = np.linspace(-1.0, 1.0, bins + 1)
    errors, signals = np.zeros(bins), np.zeros(bins)
    for t, table in enumerate(sample.tables):
        codes, offsets = table.codes(), table.schema.state_offsets
        for v in range(len(table.schema.targets)):
            seen = codes[v] >= 0
            for state in range(int(offsets[v]), int(offsets[v + 1])):
                q0 = answers.marginals[t][state]
                errors += np.histogram(np.clip((answers.conditionals[t][state] - q0)[seen], -1, 1), edges)[0]
                signals += np.histogram((q0 - q0.mean())[seen], edges)[0]
    return edges, errors, signals


def _cells(sample: DenseDataset, answers: Posterior) -> Iterator[tuple[str, Variable, np.ndarray, np.ndarray]]:
    """Table, column, beliefs (cells, states) and true states of the known cells of each target column."""
    for t, table in enumerate(sample.tables):
        codes, offsets = table.codes(), table.schema.state_offsets
        for v, variable in enumerate(table.schema.targets):
            rows = np.flatnonzero(codes[v] >= 0)
            if len(rows):
                columns = answers.conditionals[t][offsets[v] : offsets[v + 1]][:, rows]
                truth = variable.position_of_code[codes[v, rows]]
                yield sample.layout.tables[t], variable, state_probabilities(variable, columns), truth

"""Scores of predicted labels of whole rows: of all together, and of each label with its calibration."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from sparsefield.analysis.hold_out import number_answers
from sparsefield.analysis.metrics import (
    UNKNOWN,
    CellPredictions,
    ColumnEvaluation,
    LabelScores,
    evaluate_numbers,
    evaluate_states,
    score_labels,
)
from sparsefield.data import Variable
from sparsefield.data.labels import as_numbers, factorize
from sparsefield.errors import DataError
from sparsefield.estimators import CRFClassifier
from sparsefield.estimators.compiled_rows import check_weights
from sparsefield.estimators.crf_classifier import read_all_labels

Array = np.ndarray[Any, np.dtype[Any]]

DECODINGS = ("marginal", "joint")


@dataclass(frozen=True)
class LabelEvaluation:
    """Scores of the labels of some rows."""

    rows: int
    unknown: int
    """Number of labels that no training row has: they count as errors, and are left out of the scores of columns."""
    marginal: LabelScores
    """Of the most probable class of each label."""
    joint: LabelScores
    """Of the most probable combination of all labels."""
    columns: tuple[ColumnEvaluation, ...]
    """Of each label by itself, with the calibration of its probabilities; the baseline is the training frequencies."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        scores = {name: asdict(getattr(self, name)) for name in DECODINGS}
        return {
            "rows": self.rows,
            "unknown": self.unknown,
            **scores,
            "columns": [column.as_dict() for column in self.columns],
        }


def evaluate_labels(classifier: CRFClassifier, X: Any, y: Any, *, sample_weight: Any = None) -> LabelEvaluation:
    """Return the scores of predicted labels: Hamming loss, subset accuracy, micro and macro F1, and more.

    Both ways to decode labels are scored, and each label by itself, with the calibration of its probabilities. A label
    that no training row has counts as an error, and is left out of the scores of its column: it has no probability.

    Parameters
    ----------
    classifier : fitted `CRFClassifier`
    X : table or sparse matrix
    y : the true labels, each of which is known
    sample_weight : (rows,) weights of the rows; None weights all alike
    """
    posterior, joint, schema = classifier.infer(X), classifier.predict(X, decode="joint"), classifier.field_.schema
    joint = joint.reshape(len(joint), -1)
    labels = read_all_labels(y, tuple(classifier.states_), len(joint))
    sample_weight = check_weights(sample_weight, labels.n_rows)
    problems = [
        f"Label column {variable.name!r} has missing values, first in row "
        f"{int(np.argmin(labels.column(variable.name).present))}: an evaluation needs the label of every row."
        for variable in schema.targets
        if not labels.column(variable.name).present.all()
    ]
    if problems:
        raise DataError(" ".join(problems))
    truth, marginal, together, positive, columns, unknown = [], [], [], [], [], 0
    for variable, combined in zip(schema.targets, joint.T, strict=True):
        column, probabilities = labels.column(variable.name), posterior.state_probabilities(variable.name)
        if variable.numeric:
            answers = [as_numbers(answer.column(variable.name)) for answer in number_answers(posterior)]
            columns.append(
                evaluate_numbers(
                    variable.name, variable, as_numbers(column), probabilities, answers,
                    visible_mean=variable.center, scale=variable.scale, sample_weight=sample_weight,
                )
            )  # fmt: skip
            continue
        values, places = factorize(column)
        known = {state: k for k, state in enumerate(variable.states)}
        states = np.array([known.get(state, UNKNOWN) for state in values], dtype=np.int64)[places]
        seen = np.flatnonzero(states != UNKNOWN)
        unknown += len(states) - len(seen)
        weights = None if sample_weight is None else sample_weight[seen]
        if len(seen) if weights is None else weights.any():
            baseline = np.tile(np.asarray(variable.frequencies, dtype=np.float64), (len(seen), 1))
            pairs = (probabilities[seen], baseline)
            cells = [CellPredictions(part, states[seen], None, weights) for part in pairs]
            columns.append(evaluate_states(variable.name, variable.kind, *cells))
        truth.append(states)
        marginal.append(probabilities.argmax(axis=1))
        together.append(np.array([known[state] for state in combined.tolist()], dtype=np.int64))
        positive.append(_positive_state(variable))
    if not truth:
        nothing = LabelScores(*[float("nan")] * len(fields(LabelScores)))
        return LabelEvaluation(labels.n_rows, 0, nothing, nothing, tuple(columns))
    states = np.column_stack(truth)
    one_by_one, jointly = (
        score_labels(states, np.column_stack(part), positive, sample_weight) for part in (marginal, together)
    )
    return LabelEvaluation(labels.n_rows, unknown, one_by_one, jointly, tuple(columns))


def _positive_state(variable: Variable) -> int | None:
    """Return the second of two states; of a label that is always 0 in training, the state that it does not know."""
    if len(variable.states) == 1:
        return 0 if variable.states[0] == 1 else UNKNOWN
    return 1 if len(variable.states) == 2 else None

"""This module defines `CRFClassifier`, the estimator for one or several labels given observed columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, count
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from sparsefield.data import (
    DenseDataset,
    JoinedColumns,
    Label,
    Schema,
    Source,
    as_array,
    as_source,
    compile_table,
    learn_schema,
)
from sparsefield.errors import DataError
from sparsefield.estimators.answer_tables import probabilities
from sparsefield.estimators.field_estimator import FieldEstimator
from sparsefield.estimators.training import TrainingData
from sparsefield.estimators.validation import check_weights
from sparsefield.model import Field


class CRFClassifier(ClassifierMixin, FieldEstimator):
    """Learn a conditional random field over labels given observed columns, as a scikit-learn classifier.

    With one label column it is a sparse logistic regression, binary or multinomial; with several, labels depend on each
    other. Parameters are those of `MarkovField` except ``latent`` and ``observed``: all columns of ``X`` are observed.
    ``X`` may be numeric, categorical or mixed; ``X`` and ``y`` may have missing values.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(CRFClassifier(l1=0.1).fit(X, y).score(X, y) > 0.9)
    True
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CRFClassifier:
        """Learn to predict ``y``, one label column (1-D) or several (2-D or a frame), from ``X``."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        self._check_parameters()
        with self._open_training_data(X, y, sample_weight=sample_weight) as data:
            self._train(data)
        self._set_outputs(single=self.single_output_)
        return self

    @contextmanager
    def _open_training_data(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Iterator[TrainingData]:
        source = self._read(X, reset=True)
        labels, self.single_output_ = _read_labels(y, source.names)
        if labels.n_rows != source.n_rows:
            raise DataError(
                f"Found input variables with inconsistent numbers of samples: [{source.n_rows}, {labels.n_rows}]"
            )
        both = set(source.names) & set(labels.names)
        if both:
            raise DataError(f"Column {sorted(both)[0]!r} is in X and in y: take it out of X, or rename it.")
        joined = JoinedColumns((labels, source))
        weight = check_weights(sample_weight, source.n_rows)
        schema = learn_schema(joined, observed=source.names, numeric=self._numeric(source), sample_weight=weight)
        yield TrainingData(DenseDataset.single(compile_table(joined, schema, sample_weight=weight)), source.kind)

    def predict_proba(self, X: Any) -> np.ndarray | list[np.ndarray]:
        """Return the probabilities of the classes, (rows, classes); a list of arrays if there are several labels."""
        found = self._probabilities(X)
        return found[0] if self.single_output_ else found

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each label, (rows,) or (rows, labels)."""
        found = self._probabilities(X)
        classes = [self.classes_] if self.single_output_ else self.classes_
        picked = [c[p.argmax(axis=1)] for c, p in zip(classes, found, strict=True)]
        if self.single_output_:
            return picked[0]
        same = len({p.dtype for p in picked}) == 1
        return np.column_stack(picked if same else [p.astype(object) for p in picked])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows in which every label is predicted correctly."""
        predicted = self.predict(X)
        predicted = predicted.reshape(len(predicted), -1)
        labels = self._read_known_labels(y, len(predicted))
        right = np.ones(len(predicted), dtype=bool)
        for k, name in enumerate(self.states_):
            column = labels.column(name)
            if not column.present.all():
                raise DataError(f"Label column {name!r} has missing values: score needs the label of every row.")
            right &= np.asarray(column.values) == predicted[:, k]
        return float(np.average(right, weights=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        tags.classifier_tags.multi_label = True
        return tags

    def _probabilities(self, X: Any) -> list[np.ndarray]:
        source = self._read(X)
        schema = self.field_.schema
        table = compile_table(source, schema, absent_targets=True)
        (beliefs,) = self._infer_marginals(DenseDataset.single(table))
        return list(probabilities(schema, beliefs).values())

    def _compile_with_schema(self, X: Any, y: Any, sample_weight: Any) -> DenseDataset:
        if y is None:
            raise DataError(f"A {type(self).__name__} also needs labels: pass them as y=.")
        source = self._read(X)
        joined = JoinedColumns((self._read_known_labels(y, source.n_rows), source))
        weight = check_weights(sample_weight, source.n_rows)
        return DenseDataset.single(compile_table(joined, self.field_.schema, sample_weight=weight))

    def _read_known_labels(self, y: Any, n_rows: int) -> Source:
        """Return the label columns of the fit; they are matched by name, or by position if their names are unknown."""
        (labels, _), known = _read_labels(y), tuple(self.states_)
        if len(labels.names) != len(known) or labels.n_rows != n_rows:
            raise DataError(
                f"y has {labels.n_rows} rows and {len(labels.names)} label column(s); "
                f"{n_rows} and {len(known)} are needed."
            )
        return labels if set(labels.names) == set(known) else replace(labels, names=known)

    def _set_outputs(self, *, single: bool) -> None:
        self.single_output_ = single
        classes = [_classes(variable.states) for variable in self.field_.schema.targets]
        self.classes_ = classes[0] if single else classes

    def _extra(self) -> dict[str, Any]:
        return {"single": self.single_output_}

    def _restore(self, field: Field, extra: dict[str, Any]) -> None:
        super()._restore(field, extra)
        self._set_outputs(single=extra["single"])

    def _input_names(self, schema: Schema) -> Sequence[str]:
        return [variable.name for variable in schema.observed]


def _read_labels(y: Any, taken: Collection[str] = ()) -> tuple[Source, bool]:
    """Return the label columns, and whether ``y`` is 1-D. Unnamed columns get names that are not ``taken``."""
    if hasattr(y, "columns"):
        return as_source(y, what="y"), False
    single = hasattr(y, "to_frame")
    if single and y.name not in (None, ""):
        return as_source(y, what="y"), True
    if not single and not sp.issparse(y):
        y = as_array(y, "y")
        single = y.ndim == 1
        if single:
            _check_numbers(y)
            y = y.reshape(-1, 1)
    labels = as_source(y, what="y")
    return replace(labels, names=_free_names(len(labels.names), single, taken)), single


def _check_numbers(labels: np.ndarray) -> None:
    """Refuse continuous labels, with scikit-learn's message."""
    if labels.dtype.kind != "f":
        return
    if np.isinf(labels).any():
        raise DataError("Input y contains infinity or a value too large for dtype('float64').")
    if not np.isnan(labels).any():
        check_classification_targets(labels)


def _free_names(n_labels: int, single: bool, taken: Collection[str]) -> tuple[str, ...]:
    """Return y, or y0, y1, ...; with another stem if X has a column of that name."""
    stems = chain(("y", "label"), (f"label_{k}_" for k in count()))
    candidates = ((stem,) if single else tuple(f"{stem}{k}" for k in range(n_labels)) for stem in stems)
    return next(names for names in candidates if not set(names) & set(taken))


def _classes(states: Sequence[Label]) -> np.ndarray:
    """Return the classes as an array, of dtype object where NumPy would turn numbers into text."""
    mixed = len({isinstance(state, str) for state in states}) > 1
    return np.array(states, dtype=object if mixed else None)

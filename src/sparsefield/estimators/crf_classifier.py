"""This module defines `CRFClassifier`, the estimator for one or several labels given observed columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
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
from sparsefield.data.frames import RawColumn
from sparsefield.errors import DataError
from sparsefield.estimators.field_estimator import FieldEstimator
from sparsefield.estimators.number_answers import mean
from sparsefield.estimators.posterior import Posterior
from sparsefield.estimators.row_groups import split_groups
from sparsefield.estimators.training import TrainingData
from sparsefield.estimators.validation import check_weights
from sparsefield.model import Field


class CRFClassifier(ClassifierMixin, FieldEstimator):
    """Learn a conditional random field over labels given observed columns, as a scikit-learn classifier.

    With one label column it is a sparse logistic regression, binary or multinomial; with several, labels depend on each
    other. Parameters are those of `MarkovField` except ``latent`` and ``observed``: all columns of ``X`` are observed.
    Columns of ``X`` may be of any kind; ``X`` and ``y`` may have missing values.

    A label is nominal, whole numbers included, unless it is an ordered categorical or ``kinds`` gives another kind:
    ``kinds={"y": "ordinal"}`` is an ordinal regression, and ``kinds={"y": "numeric"}`` a regression. A label column
    without a name is called y, or y0, y1, ... if there are several.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(CRFClassifier(l1=0.1).fit(X, y).score(X, y) > 0.9)
    True
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> CRFClassifier:
        """Learn to predict ``y``, one label column (1-D) or several (2-D or a frame), from ``X``.

        ``groups`` are rows that ``l1="auto"`` holds out together: see `MarkovField.fit`.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        self._check_parameters()
        with self._open_training_data(X, y, sample_weight=sample_weight, groups=groups) as data:
            self._train(data)
        self._set_outputs(single=self.single_output_)
        return self

    @contextmanager
    def _open_training_data(
        self, X: Any, y: Any = None, *, sample_weight: Any = None, groups: Any = None
    ) -> Iterator[TrainingData]:
        X, groups = split_groups(X, groups)
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
        given = self._kinds(source)
        # Whole numbers are classes here, unless something else is said.
        labeled = {name: "nominal" for name in labels.names if not labels.ordered_categories(name)}
        kinds = labeled | dict(given) if isinstance(given, Mapping) else labeled
        if self.single_output_ and labels.kind == "array" and kinds.get(labels.names[0]) == "nominal":
            _check_classes(labels.column(labels.names[0]))
        symmetric = self.coding == "symmetric"
        schema = learn_schema(joined, observed=source.names, kinds=kinds, symmetric=symmetric, sample_weight=weight)
        table = compile_table(joined, schema, sample_weight=weight)
        yield TrainingData(DenseDataset.single(table), source.kind, groups=self._read_groups(groups, source.n_rows))

    def predict_proba(self, X: Any) -> np.ndarray | list[np.ndarray]:
        """Return the probabilities of the classes, (rows, classes); a list of arrays if there are several labels."""
        found = self._probabilities(X)
        numbers = [variable.name for variable in self.field_.schema.targets if variable.numeric]
        if numbers:
            raise DataError(f"Label {numbers[0]!r} is a number, which has no classes: use predict or infer.")
        return found[0] if self.single_output_ else found

    def infer(self, X: Any) -> Posterior:
        """Return the distribution of the labels of each row: see `Posterior`."""
        source = self._read(X)
        table = compile_table(source, self.field_.schema, absent_targets=True)
        (marginals,) = self._infer_marginals(DenseDataset.single(table))
        return Posterior(source, table, marginals, source.kind)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each label, (rows,) or (rows, labels); the mean of a numeric label."""
        found, targets = self._probabilities(X), self.field_.schema.targets
        classes = [self.classes_] if self.single_output_ else self.classes_
        picked = [
            mean(variable, p) if variable.numeric else c[p.argmax(axis=1)]
            for variable, c, p in zip(targets, classes, found, strict=True)
        ]
        if self.single_output_:
            return picked[0]
        same = len({p.dtype for p in picked}) == 1
        return np.column_stack(picked if same else [p.astype(object) for p in picked])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows in which every label is predicted correctly; R^2 for a numeric label.

        Of several labels some of which are numeric, it is the mean of R^2 over those, and of the share over the others
        together.
        """
        from sklearn.metrics import r2_score

        predicted = self.predict(X)
        predicted = predicted.reshape(len(predicted), -1)
        labels = self._read_known_labels(y, len(predicted))
        scores, right = [], []
        for k, variable in enumerate(self.field_.schema.targets):
            column = labels.column(variable.name)
            if not column.present.all():
                raise DataError(
                    f"Label column {variable.name!r} has missing values: score needs the label of every row."
                )
            truth = np.asarray(column.values)
            if variable.numeric:
                found = predicted[:, k].astype(np.float64)
                scores.append(r2_score(truth.astype(np.float64), found, sample_weight=sample_weight))
            else:
                right.append(truth == predicted[:, k])
        if right:
            scores.append(np.average(np.all(right, axis=0), weights=sample_weight))
        return float(np.mean(scores))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        tags.classifier_tags.multi_label = True
        return tags

    def _probabilities(self, X: Any) -> list[np.ndarray]:
        posterior = self.infer(X)
        return [posterior.state_probabilities(variable.name) for variable in self.field_.schema.targets]

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
        y = y.reshape(-1, 1) if single else y
    labels = as_source(y, what="y")
    return replace(labels, names=_free_names(len(labels.names), single, taken)), single


def _check_classes(labels: RawColumn) -> None:
    """Refuse continuous labels, with scikit-learn's message."""
    values = labels.values
    if values.dtype.kind != "f":
        return
    if np.isinf(values).any():
        raise DataError("Input y contains infinity or a value too large for dtype('float64').")
    if labels.present.all():
        check_classification_targets(values)


def _free_names(n_labels: int, single: bool, taken: Collection[str]) -> tuple[str, ...]:
    """Return y, or y0, y1, ...; with another stem if X has a column of that name."""
    stems = chain(("y", "label"), (f"label_{k}_" for k in count()))
    candidates = ((stem,) if single else tuple(f"{stem}{k}" for k in range(n_labels)) for stem in stems)
    return next(names for names in candidates if not set(names) & set(taken))


def _classes(states: Sequence[Label]) -> np.ndarray:
    """Return the classes as an array, of dtype object where NumPy would turn numbers into text."""
    mixed = len({isinstance(state, str) for state in states}) > 1
    return np.array(states, dtype=object if mixed else None)

"""One or several labels, given observed columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsefield.data import Joined, Source, compile_table, learn_schema, read
from sparsefield.errors import DataError
from sparsefield.estimators.base import FieldEstimator, check_weights, states_of
from sparsefield.field import Field
from sparsefield.inference import ask, state_probabilities

__all__ = ["CRFClassifier"]


class CRFClassifier(ClassifierMixin, FieldEstimator):
    """A conditional random field over labels given observed columns, as a scikit-learn classifier.

    With one label column it is a sparse logistic regression, binary or multinomial; with several, labels inform each
    other. Parameters are those of `MarkovField`. ``X`` may hold numbers, categories and gaps; ``Y`` may hold gaps.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(CRFClassifier(l1=0.1).fit(X, y).score(X, y) > 0.9)
    True
    """

    def fit(self, X: Any, Y: Any = None, sample_weight: Any = None) -> CRFClassifier:
        """Learn to predict ``Y``, one label column (1-D) or several (2-D or a frame), from ``X``."""
        if Y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        source = read(X)
        self._check_parameters()
        validate_data(self, source.native if source.kind == "array" else X, skip_check_array=True)
        labels = _read_labels(Y)
        if labels.n_rows != source.n_rows:
            raise DataError(
                f"Found input variables with inconsistent numbers of samples: [{source.n_rows}, {labels.n_rows}]"
            )
        both = set(source.names) & set(labels.names)
        if both:
            raise DataError(f"Column {sorted(both)[0]!r} is in X and in Y: take it out of X, or rename it.")
        joined = Joined((labels, source))
        weight = check_weights(sample_weight, source.n_rows)
        numeric = self.numeric if isinstance(self.numeric, str) else [str(name) for name in self.numeric]
        schema = learn_schema(joined, observed=source.names, numeric=numeric, sample_weight=weight)
        self._learn(compile_table(joined, schema, sample_weight=weight), source.kind)
        self._set_outputs(single=np.ndim(Y) == 1)
        return self

    def predict_proba(self, X: Any) -> Any:
        """(rows, classes), or a list of such arrays when there are several labels."""
        found = self._probabilities(X)
        return found[0] if self.single_output_ else found

    def predict(self, X: Any) -> np.ndarray:
        """(rows,) or (rows, labels): the most probable class of each label."""
        found = self._probabilities(X)
        classes = [self.classes_] if self.single_output_ else self.classes_
        picked = [c[p.argmax(axis=1)] for c, p in zip(classes, found, strict=True)]
        if self.single_output_:
            return picked[0]
        same = len({p.dtype for p in picked}) == 1
        return np.column_stack(picked if same else [p.astype(object) for p in picked])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of rows for which every label is right."""
        predicted = self.predict(X)
        labels = _read_labels(y)
        truth = predicted.reshape(len(predicted), -1)
        right = np.ones(len(predicted), dtype=bool)
        for k, name in enumerate(labels.names):
            column = labels.column(name)
            if not column.seen.all():
                raise DataError(f"Label column {name!r} has gaps: score needs the truth of every row.")
            right &= np.asarray(column.values) == truth[:, k]
        return float(np.average(right, weights=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.sparse = False
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        tags.classifier_tags.multi_label = True
        return tags

    def _probabilities(self, X: Any) -> list[np.ndarray]:
        check_is_fitted(self)
        source = read(X)
        validate_data(self, source.native if source.kind == "array" else X, reset=False, skip_check_array=True)
        schema = self.field_.schema
        table = compile_table(source, schema, absent_targets=True)
        with self._engine() as engine:
            beliefs = ask(self.field_, table, self._inference(), engine).gaps
        offsets = schema.state_offsets
        return [
            state_probabilities(variable, beliefs[offsets[v] : offsets[v + 1]])
            for v, variable in enumerate(schema.targets)
        ]

    def _set_outputs(self, *, single: bool) -> None:
        schema = self.field_.schema
        self.single_output_ = single
        self.states_ = states_of(schema)
        classes = [np.array(variable.states) for variable in schema.targets]
        self.classes_ = classes[0] if single else classes

    def _extra(self) -> dict[str, Any]:
        return {"single": self.single_output_}

    def _restore(self, field: Field, extra: dict[str, Any]) -> None:
        super()._restore(field, extra)
        self._set_outputs(single=extra["single"])
        names = [variable.name for variable in field.schema.observed]
        self.n_features_in_ = len(names)
        if extra["kind"] not in ("array", "sparse"):
            self.feature_names_in_ = np.array(names, dtype=object)


def _read_labels(Y: Any) -> Source:
    """Label columns, called y (or y0, y1, ...) when they have no names."""
    if hasattr(Y, "columns") or hasattr(Y, "to_frame"):
        return read(Y, what="Y")
    array = np.asarray(Y)
    if array.ndim == 1:
        array = array.reshape(-1, 1)
        if array.dtype.kind == "f":
            if np.isinf(array).any():
                raise DataError("Input y contains infinity or a value too large for dtype('float64').")
            if not np.isnan(array).any():
                check_classification_targets(array.ravel())
        names: tuple[str, ...] = ("y",)
    else:
        names = tuple(f"y{k}" for k in range(array.shape[1])) if array.ndim == 2 else ()
    return replace(read(array, what="Y"), names=names)

"""`CRFClassifier`, the estimator for one or several labels given observed columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.metrics import r2_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsefield.data import (
    Dataset,
    JoinedColumns,
    Schema,
    Source,
    SparseMatrix,
    as_array,
    as_source,
    check_weights,
    compile_table,
    learn_schema,
    read_covariates,
)
from sparsefield.data.frames import Columns
from sparsefield.data.labels import as_numbers, factorize
from sparsefield.data.schema_learning import given_kinds
from sparsefield.errors import DataError, list_first
from sparsefield.estimators.answers import Posterior, mean
from sparsefield.estimators.compiled_rows import infer_missing, joint_log_likelihood, read_by_name, threads_for
from sparsefield.estimators.field_estimator import FieldEstimator, TrainingData
from sparsefield.estimators.queries import find_completion
from sparsefield.estimators.training import check_parameters, read_groups, split_groups, train
from sparsefield.induction import RULES
from sparsefield.inference.elimination import MAX_CELLS
from sparsefield.inference.gibbs import AIS
from sparsefield.model import Field
from sparsefield.model.field import condition_on_covariates
from sparsefield.options import choice, problems_of, raise_problems


class _LabelRows(NamedTuple):
    """Rows whose labels are to be inferred."""

    source: Columns
    kind: str
    """Kind of the table that the user passed."""
    field: Field
    dataset: Dataset


@dataclass(kw_only=True, eq=False, repr=False, match_args=False)
class CRFClassifier(ClassifierMixin, FieldEstimator):
    """Learn a conditional random field over labels given observed columns, as a scikit-learn classifier.

    With one label column it is a sparse logistic regression, binary or multinomial; with several, labels depend on each
    other. Parameters are those of `MarkovField` except ``latent`` and ``observed``, since all columns of ``X`` are
    observed, and two of its own.
    Columns of ``X`` may be of any kind; ``X`` and ``y`` may have missing values.

    A label is nominal, whole numbers included, unless it is an ordered categorical or ``kinds`` gives another kind:
    ``kinds={"y": "ordinal"}`` is an ordinal regression, and ``kinds={"y": "numeric"}`` a regression. A label column
    without a name is called y, or y0, y1, ... if there are several.

    ``X`` may be a sparse matrix of real numbers, such as `sklearn.feature_extraction.text.TfidfVectorizer` makes, with
    10^6 columns or more: it is never made dense. Its values are used as they are, as by scikit-learn's
    ``LogisticRegression``, while numbers of dense columns are standardized and also have bins. With a sparse ``X``
    every label must be known, and ``objective``, ``penalty``, ``features`` and ``engine`` must be the defaults.

    Parameters
    ----------
    label_penalty : float, default=1.0
        Factor of ``l1`` for pairs of labels. Weights of small inputs, such as those of TF-IDF, need a small ``l1``,
        with which nearly all labels would depend on each other; a factor of 5 or 10 then keeps the pairs that matter,
        and inference exact.
    class_weight : None, "balanced" or {class: weight}, default=None
        Weights of the classes of a single label, by which those of rows are multiplied; "balanced" gives all classes
        the same total weight, with ``sample_weight`` counted. Several labels have none: the weight of a row counts for
        all of its labels.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(CRFClassifier(l1=0.1).fit(X, y).score(X, y) > 0.9)
    True
    """

    label_penalty: float = 1.0
    class_weight: str | Mapping[Any, float] | None = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> CRFClassifier:
        """Learn to predict ``y``, one label column (1-D) or several (2-D or a frame), from ``X``.

        ``groups`` are rows that ``l1="auto"`` holds out together: see `MarkovField.fit`.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        check_parameters(self)
        with self._open_training_data(X, y, sample_weight=sample_weight, groups=groups) as data:
            train(self, data)
        self._set_outputs(single=self.single_output_)
        return self

    @contextmanager
    def _open_training_data(
        self, X: Any, y: Any = None, *, sample_weight: Any = None, groups: Any = None
    ) -> Iterator[TrainingData]:
        X, groups = split_groups(X, groups)
        source = self._read(X, reset=True)
        labels, self.single_output_ = read_labels(y, source.names)
        if labels.n_rows != source.n_rows:
            raise DataError(
                f"Found input variables with inconsistent numbers of samples: [{source.n_rows}, {labels.n_rows}]"
            )
        both = set(source.names) & set(labels.names)
        if both:
            raise DataError(f"Column {sorted(both)[0]!r} is in X and in y: take it out of X, or rename it.")
        weight = check_weights(sample_weight, source.n_rows)
        weight = weigh_classes(self.class_weight, labels, weight, self.kinds)
        sparse = source.kind == "sparse"
        if sparse:
            raise_problems(sparse_input_problems(self, labels))
        kinds = self._label_kinds(labels, self.kinds if sparse else self._kinds(source))
        ways: dict[str, Any] = {"symmetric": self.resolve("features").coding == "symmetric", "sample_weight": weight}
        if sparse:
            schema = learn_schema(labels, kinds=kinds, **ways).with_covariates(source.names)
        else:
            schema = learn_schema(JoinedColumns((labels, source)), observed=source.names, kinds=kinds, **ways)
        dataset, groups = self._compile(source, labels, schema, weight), read_groups(self, groups, source.n_rows)
        yield TrainingData(dataset, source.kind, groups=groups)

    def _compile(self, source: Source, labels: Source, schema: Schema, weight: np.ndarray | None) -> Dataset:
        """Compile rows to learn from."""
        if schema.has_sparse_covariates:
            absent = {name: ~labels.column(name).present for name in labels.names}
            incomplete = [name for name, missing in absent.items() if missing.any()]
            if incomplete:
                raise DataError(
                    f"Label column {incomplete[0]!r} has missing values, first in row "
                    f"{int(np.argmax(absent[incomplete[0]]))}: with a sparse X every label must be known. Leave these "
                    "rows out, or pass X as a dense array or a frame."
                )
            table = compile_table(labels, schema.labels, sample_weight=weight)
            table = replace(table, sparse_covariates=SparseMatrix.of(source.native))
        else:
            table = compile_table(JoinedColumns((labels, source)), schema, sample_weight=weight)
        dataset = Dataset.single(table, schema)
        return replace(dataset, layout=replace(dataset.layout, target_factor=float(self.label_penalty)))

    def _contradictions(self, parts: Mapping[str, Any]) -> Iterator[str]:
        if self.penalty == "group" and self.label_penalty != 1.0:
            yield "label_penalty is for penalty='l1', not for penalty='group'."

    def _label_kinds(self, labels: Source, kinds: Any) -> dict[str, Any]:
        """Return the kinds of columns: whole numbers in labels are classes, unless something else is said."""
        labeled = {name: "nominal" for name in labels.names if not labels.order(name)}
        kinds = labeled | dict(kinds) if isinstance(kinds, Mapping) else labeled
        if self.single_output_ and labels.kind == "array" and kinds.get(labels.names[0]) == "nominal":
            column = labels.column(labels.names[0])
            if column.values.dtype.kind == "f" and np.isinf(column.values).any():
                raise DataError("Input y contains infinity or a value too large for dtype('float64').")
            if column.values.dtype.kind == "f" and column.present.all():
                check_classification_targets(column.values)  # continuous numbers
        return kinds

    def predict_proba(self, X: Any, *, known: Any = None) -> np.ndarray | list[np.ndarray]:
        """Return the probabilities of the classes, (rows, classes); a list of arrays if there are several labels.

        ``known`` are labels that are known already: see `predict`. Such a label has its class with certainty.
        """
        parts = self._probabilities(self._compile_rows(X, known))
        numbers = [variable.name for variable in self.field_.schema.targets if variable.numeric]
        if numbers:
            raise DataError(f"Label {numbers[0]!r} is a number, which has no classes: use predict or infer.")
        return parts[0] if self.single_output_ else parts

    def infer(self, X: Any, *, known: Any = None) -> Posterior:
        """Return the distribution of the labels of each row given ``X`` and ``known`` labels: see `Posterior`.

        ``known`` is as for `predict`.
        """
        return self._infer_rows(self._compile_rows(X, known))

    def predict(self, X: Any, *, decode: Literal["marginal", "joint"] = "marginal", known: Any = None) -> np.ndarray:
        """Return the classes of each label, (rows,) or (rows, labels); the mean of a numeric label.

        Parameters
        ----------
        X : table or sparse matrix
        decode : "marginal" or "joint"
            "marginal" takes the most probable class of each label by itself, which gives the fewest wrong labels.
            "joint" takes the most probable combination of all labels (MAP inference), which gives the most rows with
            every label right (subset accuracy); of a numeric label it is the mean of a level. Where labels depend on
            each other too widely for an exact answer, a search finds it, with a warning.
        known : table of labels, or None
            Labels that are known already, on which the others are conditioned: a frame with some or all of the label
            columns, or an array with all of them. None and NaN are labels that are not known.
        """
        raise_problems(problems_of({"decode": decode}, {"decode": choice("marginal", "joint")}))
        rows = self._compile_rows(X, known)
        classes = [self.classes_] if self.single_output_ else self.classes_
        targets, parts = self.field_.schema.targets, self._probabilities(rows, joint=decode == "joint")
        picked = [
            mean(variable, p) if variable.numeric else states[p.argmax(axis=1)]
            for variable, states, p in zip(targets, classes, parts, strict=True)
        ]
        for k, variable in enumerate(targets):
            if variable.numeric and variable.name in rows.source.names:
                column = rows.source.column(variable.name)
                picked[k][column.present] = as_numbers(column)
        if self.single_output_:
            return picked[0]
        same = len({p.dtype for p in picked}) == 1
        return np.column_stack(picked if same else [p.astype(object) for p in picked])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows in which every label is predicted correctly; R^2 for a numeric label.

        Of several labels some of which are numeric, it is the mean of R^2 over those, and of the share over all others.
        """
        predicted = self.predict(X)
        parts, weight = predicted.reshape(len(predicted), -1), check_weights(sample_weight, len(predicted))
        labels = self._read_known_labels(y, len(predicted))
        scores, right = [], []
        for variable, answers in zip(self.field_.schema.targets, parts.T, strict=True):
            column = labels.column(variable.name)
            if not column.present.all():
                raise DataError(f"Label column {variable.name!r} has missing values: score needs the label of all.")
            if variable.numeric:
                scores.append(r2_score(as_numbers(column), answers.astype(np.float64), sample_weight=weight))
            else:
                states, places = factorize(column)
                truth = np.empty(len(states), dtype=object)
                truth[:] = states
                right.append(truth[places] == answers)
        if right:
            scores.append(np.average(np.all(right, axis=0), weights=weight))
        return float(np.mean(scores))

    def log_likelihood(self, X: Any, y: Any, *, ais: AIS | None = None) -> np.ndarray:
        """Return the log-likelihood of the labels of each row, all together: see `MarkovField.log_likelihood`."""
        check_is_fitted(self)
        source = self._read(X)
        rows = self._join_labels(source, self._read_known_labels(y, source.n_rows))
        return joint_log_likelihood(self, rows.field, rows.dataset, ais)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        tags.classifier_tags.multi_label = True
        return tags

    def _read(self, X: Any, *, reset: bool = False) -> Source:
        """Return ``X`` as a source; a sparse matrix of real numbers if the field is, or will be, one of covariates."""
        if not reset and not self.field_.schema.has_sparse_covariates:
            return super()._read(X)
        if not sp.issparse(X):
            if reset:
                return super()._read(X, reset=True)
            if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind not in "biuf":
                raise DataError("The field was learned from a sparse matrix: pass one, or an array of numbers.")
            X = sp.csr_array(X)
        names = () if reset else tuple(self._input_names(self.field_.schema))
        source = read_covariates(X, names=names)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return source

    def _compile_rows(self, X: Any, known: Any = None) -> _LabelRows:
        """Return rows whose labels are missing unless they are known."""
        check_is_fitted(self)
        source = self._read(X)
        labels = None if known is None else match_labels(known, tuple(self.states_), source.n_rows, "known")
        return self._join_labels(source, labels)

    def _join_labels(self, source: Source, labels: Source | None) -> _LabelRows:
        schema = self.field_.schema
        if schema.has_sparse_covariates:
            columns = replace(source, names=()) if labels is None else labels  # covariates are many
            table = compile_table(columns, schema.labels, absent_targets=True)
            conditioned = condition_on_covariates(self.field_, SparseMatrix.of(source.native), table)
            return _LabelRows(columns, columns.kind, *conditioned)
        joined = source if labels is None else JoinedColumns((labels, source))
        dataset = Dataset.single(compile_table(joined, schema, absent_targets=True))
        return _LabelRows(joined, source.kind, self.field_, dataset)

    def _infer_rows(self, rows: _LabelRows) -> Posterior:
        marginals = infer_missing(self, rows.dataset, rows.field).values[0]
        return Posterior(rows.source, rows.dataset.tables[0], marginals, rows.kind)

    def _probabilities(self, rows: _LabelRows, *, joint: bool = False) -> list[np.ndarray]:
        """Return the probabilities of the classes of each label; 1 for those of the most probable combination."""
        targets = self.field_.schema.targets
        if not joint:
            posterior = self._infer_rows(rows)
            return [posterior.state_probabilities(variable.name) for variable in targets]
        with threads_for(self, rows.dataset) as engine:
            codes = find_completion(rows.field, rows.dataset, engine, MAX_CELLS).codes[0]
        return [np.eye(len(v.states))[v.position_of_code[code]] for v, code in zip(targets, codes, strict=True)]

    def _compile_fitted(self, X: Any, y: Any, sample_weight: Any) -> Dataset:
        source = read_by_name(self, X)
        labels = self._read_known_labels(y, source.n_rows)
        return self._compile(source, labels, self.field_.schema, check_weights(sample_weight, source.n_rows))

    def _read_known_labels(self, y: Any, n_rows: int) -> Source:
        if y is None:
            raise DataError(f"A {type(self).__name__} also needs labels: pass them as y=.")
        return match_labels(y, tuple(self.states_), n_rows, "y")

    def _set_outputs(self, *, single: bool) -> None:
        self.single_output_ = single
        kinds = [{isinstance(state, str) for state in variable.states} for variable in self.field_.schema.targets]
        classes = [  # NumPy would turn numbers beside text into text
            np.array(variable.states, dtype=object if len(mixed) > 1 else None)
            for variable, mixed in zip(self.field_.schema.targets, kinds, strict=True)
        ]
        self.classes_ = classes[0] if single else classes

    def _extra(self) -> dict[str, Any]:
        return {"single": self.single_output_}

    def _restore(self, field: Field, extra: dict[str, Any]) -> None:
        super()._restore(field, extra)
        if extra["single"] and len(field.schema.targets) > 1:
            raise ValueError("several labels, where one is expected")
        self._set_outputs(single=extra["single"])

    def _input_names(self, schema: Schema) -> Sequence[str]:
        return schema.names[schema.n_targets :]


def read_labels(y: Any, taken: Collection[str] = (), what: str = "y") -> tuple[Source, bool]:
    """Return the label columns, and whether ``y`` is 1-D. Unnamed columns get names that are not ``taken``."""
    if hasattr(y, "columns"):
        return as_source(y, what=what), False
    single = hasattr(y, "to_frame")
    if single and y.name not in (None, ""):
        return as_source(y, what=what), True
    if not single and not sp.issparse(y):
        y = as_array(y, what)
        single = y.ndim == 1
        y = y.reshape(-1, 1) if single else y
    labels = as_source(y, what=what)
    stems = chain(("y", "label"), (f"label_{k}_" for k in count()))
    candidates = ((stem,) if single else tuple(f"{stem}{k}" for k in range(len(labels.names))) for stem in stems)
    return replace(labels, names=next(names for names in candidates if not set(names) & set(taken))), single


def match_labels(y: Any, names: Sequence[str], n_rows: int, what: str) -> Source:
    """Return the labels of rows with the names that they had in the fit: of a frame by name, otherwise by position.

    Of ``known`` labels, a frame may have some; of ``y``, all are needed.
    """
    labels, _ = read_labels(y, what=what)
    by_name = hasattr(y, "columns") or (what == "known" and hasattr(y, "to_frame") and y.name in names)
    absent, unknown = sorted(set(names) - set(labels.names)), sorted(set(labels.names) - set(names))
    parts = [
        f"{words} {', '.join(map(repr, columns[:8]))}{', ...' if len(columns) > 8 else ''}"
        for words, columns in (("lacks the label(s)", absent * (what == "y")), ("has the unknown column(s)", unknown))
        if columns and by_name
    ]
    if parts:
        raise DataError(
            f"{what}= {' and '.join(parts)}: a frame has the label columns of the fit by name: "
            f"{', '.join(names[:20])}. Rename or drop columns, or pass an array, whose columns go by position."
        )
    if labels.n_rows != n_rows or not (by_name or len(labels.names) == len(names)):
        raise DataError(
            f"{what}= has {labels.n_rows:,} row(s) and {len(labels.names):,} column(s), where X has {n_rows:,} row(s) "
            f"and the fit had {len(names):,} label(s)."
        )
    return labels if by_name else replace(labels, names=tuple(names))


def weigh_classes(
    class_weight: Any, labels: Source, sample_weight: np.ndarray | None, kinds: Any = "auto"
) -> np.ndarray | None:
    """Return the weights of rows, (rows,), times those of the class of each row: of one label, with its kinds.

    Rows without a label count once, and so do classes that a dict leaves out.
    """
    if class_weight is None:
        return sample_weight
    name = labels.names[0]
    if len(labels.names) > 1:
        raise DataError(
            f"class_weight is for one label, and y has {len(labels.names):,}: the weight of a row counts for all of "
            "its labels. Leave it out, or fit one classifier per label."
        )
    named = isinstance(kinds, Mapping) and name in kinds
    if named and given_kinds({name: kinds[name]}, [name])[name].kind == "numeric":
        raise DataError(f"class_weight is for classes, and {name!r} is a number: use sample_weight instead.")
    classes, places = factorize(labels.column(name))
    if isinstance(class_weight, str):
        known = places >= 0
        totals = np.bincount(places[known], None if sample_weight is None else sample_weight[known], len(classes))
        factors = totals.sum() / (len(classes) * np.where(totals > 0.0, totals, 1.0))
    else:
        unknown = [key for key in class_weight if key not in {*classes, *map(str, classes)}]
        if unknown:
            raise DataError(
                f"class_weight has {unknown[0]!r}, which y lacks; classes: {list_first(list(classes), 20)}."
            )
        # In a model that was loaded, classes are text.
        factors = np.array([class_weight.get(c, class_weight.get(str(c), 1.0)) for c in classes], dtype=np.float64)
    of_row = np.append(factors, 1.0)[places]
    return of_row if sample_weight is None else of_row * sample_weight


def sparse_input_problems(estimator: Any, labels: Source) -> Iterator[str]:
    """Yield a sentence for each parameter, and for labels, that a fit to a sparse ``X`` does not take."""
    searches = tuple(name for name, rule in RULES.items() if not rule.fixed_candidates)
    for name, value, allowed in (
        ("objective", estimator.resolve("objective").name, ("pl",)),
        ("refit", estimator.refit, (False, True)),
        ("penalty", estimator.penalty, ("l1",)),
        ("max_order", estimator.resolve("features").max_order, (2,)),
        ("induction", estimator.resolve("induction").name, searches),
        ("engine", estimator.resolve("solver").engine, (None,)),
    ):
        if value not in allowed:
            yield f"With a sparse X {name} is {' or '.join(map(repr, allowed))}, not {value!r}."
    for name in estimator.kinds if isinstance(estimator.kinds, Mapping) else ():
        if name not in labels.names:
            yield f"kinds= has {name!r}, which is no label: columns of a sparse X are numbers, used as they are."

"""This module checks the arguments of estimators: columns, weights, names of choices, numbers and seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.utils import check_random_state

from sparsefield.data import Source
from sparsefield.data.column_summaries import refuse_odd_weights, refuse_small_weights
from sparsefield.errors import DataError


def column_names(source: Source, columns: Any) -> list[str]:
    """Return the distinct names of columns given by name, by position or as a mask; names take precedence."""
    if columns is None:
        return []
    columns = [columns] if isinstance(columns, str) else list(columns)
    if columns and all(isinstance(column, (bool, np.bool_)) for column in columns):
        if len(columns) != len(source.names):
            raise DataError(f"A mask of {len(columns)} columns is given, but there are {len(source.names)} columns.")
        columns = np.flatnonzero(columns).tolist()
    return list(dict.fromkeys(_column_name(source, column) for column in columns))


def _column_name(source: Source, column: Any) -> str:
    if column in source.keys:
        return source.names[source.keys.index(column)]
    if not isinstance(column, Integral):
        return str(column)
    if not -len(source.names) <= int(column) < len(source.names):
        raise DataError(f"Column {column} does not exist: there are {len(source.names)} columns.")
    return source.names[int(column)]


def name_columns(source: Source, columns: Any) -> Source:
    """Return an array or a sparse matrix with the given names of its columns; None leaves the source as it is."""
    if columns is None:
        return source
    if source.kind not in ("array", "sparse"):
        raise DataError("columns= has names for an array or a sparse matrix; X is a frame, whose columns have names.")
    names = tuple(str(name) for name in columns)
    if len(names) != len(source.names):
        raise DataError(f"columns= has {len(names):,} names, but X has {len(source.names):,} columns.")
    if len(set(names)) < len(names):
        twice = [name for name, count in Counter(names).items() if count > 1]
        raise DataError(f"columns= has the same name several times: {', '.join(map(repr, twice[:5]))}.")
    return replace(source, names=names)


def check_weights(sample_weight: Any, n_rows: int) -> np.ndarray | None:
    """Return the weights as (rows,) floats, or None."""
    if sample_weight is None:
        return None
    weight = np.array(sample_weight, dtype=float)
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.shape != (n_rows,):
        raise DataError(f"sample_weight.shape == {weight.shape}, expected ({n_rows},): one weight per row.")
    refuse_odd_weights(weight)
    refuse_small_weights(float(weight.max(initial=0.0)))
    return weight


def check_y(y: Any, n_rows: int) -> None:
    """Refuse names of columns as ``y``, where observed columns were meant."""
    if y is not None and np.asarray(y, dtype=object).shape[:1] != (n_rows,):
        raise DataError("fit takes the observed columns by keyword: fit(X, observed=[...]).")


def parameter_problems(params: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each parameter of an estimator that describes columns and has another type than it must."""
    problems, kinds = [], params.get("kinds", "auto")
    if kinds != "auto" and not isinstance(kinds, Mapping):
        problems.append(f"kinds must be 'auto' or a dict such as {{'age': 'numeric'}}, got {kinds!r}.")
    for name, example in (("observed", "['age', 'sex']"), ("templates", "['within person']")):
        value = params.get(name)
        if value is not None and not isinstance(value, str) and not np.iterable(value):
            problems.append(f"{name} must be None or a list such as {example}, got {value!r}.")
    return problems


def as_seed(random_state: Any) -> int | None:
    """Return an integer seed; a random state or generator is drawn from."""
    if random_state is None:
        return None
    if isinstance(random_state, Integral):
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(np.iinfo(np.int32).max))
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def wants_pandas(estimator: Any) -> bool:
    """Return whether ``set_output`` of an estimator, or scikit-learn's configuration, asks for frames of pandas."""
    wanted = getattr(estimator, "_sklearn_output_config", {}).get("transform")
    return (wanted or get_config()["transform_output"]) == "pandas"

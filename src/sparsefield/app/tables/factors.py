"""Factors of a field with full tables, as other programs of inference use them: UAI files and pgmpy networks."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsefield.atomic_write import write_atomically
from sparsefield.data.schema import Label, Schema, Variable
from sparsefield.errors import DataError
from sparsefield.estimators.field_estimator import FieldEstimator, fitted_field
from sparsefield.model.field import Field

if TYPE_CHECKING:
    from pgmpy.models import DiscreteMarkovNetwork  # pyright: ignore[reportMissingImports]

MAX_NUMBERS = 2**24
"""The largest table of a factor: a conjunction has one weight, but its table is exponential in its order."""

MAX_LOG = 700.0
"""The largest logarithm whose exponential is finite."""

Factors = dict[tuple[int, ...], np.ndarray]
"""{scope: logarithms for all joint states}; a scope has indices into a list of variables, ascending."""


def write_uai(
    field: FieldEstimator | Field,
    path: str | os.PathLike[str],
    *,
    given: Mapping[str, Any] | None = None,
    names: str | os.PathLike[str] | None = None,
) -> dict[str, list[Label]]:
    """Write the exact distribution of a field over one table as a file of the UAI inference competitions.

    There is a factor for each variable and for each set of variables that share features. Entries of reference states
    are 1, so without ``given`` the partition function of the file is that of the field. The states of a number are its
    levels, which are named by their mean values.

    Parameters
    ----------
    field : fitted estimator, or its field
    path : path of the file, which is replaced atomically
    given : {column: state or number}
        Values of observed columns, and optionally of others; the distribution is conditioned on them.
    names : path, optional
        Path of a JSON file for the names, which the UAI format cannot hold.

    Returns
    -------
    dict of column to its states
        In the order in which the file numbers them.

    Examples
    --------
    >>> import tempfile
    >>> from sparsefield.app.datasets import make_markov_field
    >>> field = make_markov_field(3, 1, neighbors=2.0, burn_in=1).field.field_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_uai(field, folder + "/net.uai")
    {'x0': [0, 1], 'x1': [0, 1], 'x2': [0, 1]}
    """
    variables, factors = to_factors(fitted_field(field), given)
    lines = ["MARKOV", str(len(variables)), " ".join(str(len(v.states)) for v in variables), str(len(factors))]
    lines += [" ".join(map(str, (len(scope), *scope))) for scope in factors]
    for scope, logs in factors.items():
        largest = logs.flat[np.abs(logs).argmax()]
        if abs(largest) > MAX_LOG:
            raise DataError(
                f"The weights of {', '.join(variables[k].name for k in scope)} add up to {largest:.4g}, whose "
                "exponential is too large for a table."
            )
        rows = np.exp(logs).reshape(-1, logs.shape[-1]).tolist()
        lines += ["", str(logs.size), *(" ".join(map(repr, row)) for row in rows)]
    states = {variable.name: list(variable.states) for variable in variables}
    write_atomically(path, ("\n".join(lines) + "\n").encode("ascii"))
    if names is not None:
        write_atomically(names, (json.dumps(states, ensure_ascii=False, indent=1) + "\n").encode())
    return states


def to_pgmpy(field: FieldEstimator | Field, *, given: Mapping[str, Any] | None = None) -> DiscreteMarkovNetwork:
    """Return the distribution as a ``pgmpy.models.DiscreteMarkovNetwork`` with the names of columns and states.

    This needs pgmpy: ``pip install 'sparsefield[pgmpy]'``. The largest entry of every factor is 1, so that products of
    many factors do not overflow. pgmpy's ``VariableElimination`` returns unnormalized results for a Markov network: use
    ``query(...).normalize(inplace=False)``.

    Parameters
    ----------
    field : fitted estimator, or its field
        Over one table.
    given : {column: state or number}
        Values of observed columns, and optionally of others; the distribution is conditioned on them.

    Examples
    --------
    >>> from sparsefield.app.datasets import make_markov_field
    >>> field = make_markov_field(3, 1, states=3, neighbors=2.0, burn_in=1).field.field_
    >>> network = to_pgmpy(field, given={"x0": 2})  # doctest: +SKIP
    >>> sorted(network.nodes())  # doctest: +SKIP
    ['x1', 'x2']
    """
    try:
        from pgmpy.factors.discrete import DiscreteFactor  # pyright: ignore[reportMissingImports]
        from pgmpy.models import DiscreteMarkovNetwork  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise DataError("pgmpy is not installed: pip install 'sparsefield[pgmpy]'.") from None
    variables, factors = to_factors(fitted_field(field), given)
    network = DiscreteMarkovNetwork()
    network.add_nodes_from([variable.name for variable in variables])
    for scope, logs in factors.items():
        names = [variables[k].name for k in scope]
        network.add_edges_from((a, b) for k, a in enumerate(names) for b in names[k + 1 :])
        states = {variables[k].name: list(variables[k].states) for k in scope}
        network.add_factors(DiscreteFactor(names, logs.shape, np.exp(logs - logs.max()), states))
    return network


def to_factors(field: Field, given: Mapping[str, Any] | None = None) -> tuple[list[Variable], Factors]:
    """Return the free variables of a field over one table and its factors, those of single variables first.

    The distribution is proportional to the exponential of the sum of the factors. A table holds 0 wherever a state is
    a reference state. Constants are dropped. A value of None in ``given`` means that an observed column is missing; its
    mean in training is used.

    Examples
    --------
    >>> from sparsefield.app.datasets import make_markov_field
    >>> field = make_markov_field(3, 1, states=3, neighbors=2.0, burn_in=1).field.field_
    >>> list(to_factors(field)[1])
    [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    """
    if len(field.layout.schemas) != 1 or field.layout.neighbor_views:
        raise DataError(
            "A field over linked tables has variables for each row and is not a single network; use to_networkx or "
            "GraphML, which show its templates."
        )
    schema = field.schema
    known = _known_values(schema, given or {})
    free = [k for k, v in enumerate(schema.variables) if v.role != "observed" and v.name not in known]
    place = {k: number for number, k in enumerate(free)}
    variables = [schema.variables[k] for k in free]
    tables: Factors = {(k,): _by_state(v, v.log_base) for k, v in enumerate(variables)}
    coded = [_by_state(variable, variable.coded) for variable in variables]
    unknown: dict[str, None] = {}
    for columns, weight in _features(field):
        scope, values = [], []
        for column in columns:
            k = int(schema.variable_of_column[column])
            name, own = schema.variables[k].name, column - int(schema.offsets[k])
            if name in known:
                weight *= known[name][own]
            elif k in place:
                scope.append(place[k])
                values.append(coded[place[k]][:, own])
            else:
                unknown[name] = None
        if scope and weight:
            key = tuple(scope)
            if key not in tables:
                tables[key] = _zeros([variables[k] for k in scope])
            # Most columns are indicators of one state, so most entries stay as they are.
            states = [np.flatnonzero(own) for own in values]
            products = reduce(np.multiply.outer, [own[on] for own, on in zip(values, states, strict=True)])
            tables[key][np.ix_(*states)] += weight * products
    if unknown:
        raise DataError(
            f"The field is conditioned on {len(unknown)} observed column(s) "
            f"({', '.join(map(repr, list(unknown)[:5]))}): pass their values with given={{column: value}}, or --given "
            "COLUMN=VALUE at the command line."
        )
    return variables, {scope: tables[scope] for scope in sorted(tables, key=lambda scope: (len(scope), scope))}


def _by_state(variable: Variable, values: np.ndarray) -> np.ndarray:
    """Return values by code, (states, ...), in the order of the variable's states."""
    ordered = np.empty_like(values)
    ordered[variable.position_of_code] = values
    return ordered


def _known_values(schema: Schema, given: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return {variable: (width,) values of its columns} for variables whose state or number is given."""
    known = {}
    for name, value in given.items():
        if name not in schema.index_of_name:
            raise DataError(f"given names the column {name!r}, which the field does not have.")
        variable = schema.variables[schema.index_of_name[name]]
        if value is None:
            known |= {name: variable.column_means} if variable.role == "observed" else {}
        elif variable.numeric:
            try:
                number = float(value)
            except (TypeError, ValueError):
                number = math.nan
            if not math.isfinite(number):
                raise DataError(f"Column {name!r} holds numbers; given has {value!r}.")
            cell, observed = np.array([number]), variable.role == "observed"
            known[name] = variable.values_of(cell)[:, 0] if observed else variable.coded[variable.codes_of(cell)[0]]
        else:
            value = value.item() if isinstance(value, np.generic) else value
            code = variable.code_of_label.get(value) if isinstance(value, (str, int, float)) else None
            if code is None:
                states = ", ".join(map(repr, variable.states[:6])) + ", ..." * (len(variable.states) > 6)
                raise DataError(f"Column {name!r} has no state {value!r}; its states are {states}.")
            known[name] = variable.coded[code]
    return known


def _features(field: Field) -> Iterator[tuple[list[int], float]]:
    """Yield the columns, ascending, and the weight of every active feature."""
    # The states of a single table are its first columns, so a bias has the index of its column.
    for column in np.flatnonzero(field.biases).tolist():
        yield [column], float(field.biases[column])
    for features, weights in ((field.pairs, field.weights), (field.conjunctions, field.conjunction_weights)):
        active = np.flatnonzero(weights)
        for columns, weight in zip(features[active].tolist(), weights[active].tolist(), strict=True):
            yield sorted(column for column in columns if column >= 0), weight


def _zeros(variables: list[Variable]) -> np.ndarray:
    shape = tuple(len(variable.states) for variable in variables)
    if math.prod(shape) > MAX_NUMBERS:
        names = ", ".join(variable.name for variable in variables[:5]) + ", ..." * (len(variables) > 5)
        raise DataError(
            f"The full table over {names} has {math.prod(shape):,} numbers, too many to write: export GraphML."
        )
    return np.zeros(shape)

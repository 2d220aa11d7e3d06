"""Queries to a field over one table: probabilities of events, marginals, completions and draws of rows."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsefield import config
from sparsefield.compute import Engine
from sparsefield.data import Dataset, Schema, Source, Variable, as_source, compile_table, make_frame
from sparsefield.data.column_types import days_of, family_of
from sparsefield.data.frame_building import Frame, make_column
from sparsefield.data.labels import as_numbers, is_missing
from sparsefield.errors import DataError, EstimateWarning, list_first
from sparsefield.estimators.answers import drawn_columns, has_numbers, shares_below
from sparsefield.estimators.compiled_rows import threads_for
from sparsefield.estimators.field_estimator import FieldEstimator
from sparsefield.inference import Gibbs, draw
from sparsefield.inference.automatic import MAPResult, complete
from sparsefield.inference.elimination import batches_by_shape, log_partition
from sparsefield.inference.factor_graph import FactorGraph, build_factors
from sparsefield.inference.gibbs import run_chains
from sparsefield.inference.missing_problem import MissingProblem, compile_problem
from sparsefield.kernels.gibbs_chains import Event
from sparsefield.model import Field
from sparsefield.options import problems_of, raise_problems

QUERY_CHAINS = Gibbs(chains=8, burn_in=500, sweeps=5000)
"""Gibbs chains of queries that exact inference cannot answer: long ones, since a query is about one row."""

Conditioned = tuple[MissingProblem, np.ndarray, FactorGraph]
"""The missing cells of a row, the weights of the field, and the factors of these."""

BYTES_OF_DRAWN_CELL = 12
"""Least memory of a cell of a sample: its code, and its label or number in the frame."""


@dataclass(frozen=True)
class Probability:
    """The probability of an event, and how it was computed; ``float(answer)`` is the value alone."""

    value: float
    method: Literal["exact", "gibbs"]
    error: float
    """Standard error; 0 if the value is exact."""

    def __float__(self) -> float:
        return self.value


def find_completion(field: Field, dataset: Dataset, engine: Engine, max_cells: int) -> MAPResult:
    """Return the most probable completion of all rows, with a warning if some were found by a search."""
    raise_problems(problems_of({"max_cells": max_cells}))
    result = complete(field, dataset, engine, max_cells=max_cells)
    unsure = sum(int((~exact).sum()) for exact in result.exact)
    if unsure:
        rows = sum(len(exact) for exact in result.exact)
        warnings.warn(
            f"In {unsure:,} of {rows:,} rows missing cells depend on each other too widely for exact inference: their "
            "completion was searched for, and a more probable one may exist. Raise max_cells for an exact one.",
            EstimateWarning,
            stacklevel=3,
        )
    return result


def draw_rows(
    estimator: FieldEstimator, source: Source | None, n: int, burn_in: int, chains: int, thin: int, **options: Any
) -> Frame:
    """Return ``n`` rows, or ``n`` for each row of the source with its missing cells drawn: see `MarkovField.sample`."""
    field, schema = estimator.field_, estimator.field_.schema
    rows = n * (1 if source is None else source.n_rows)
    config.refuse_beyond_memory(
        float(rows) * len(schema.variables) * BYTES_OF_DRAWN_CELL,
        f"A sample of {rows:,} rows",
        lambda: "draw fewer rows at a time, with other seeds.",
    )
    if source is None and schema.observed:
        names = list_first([variable.name for variable in schema.observed], 8)
        raise DataError(f"The field is conditioned on observed columns ({names}): pass them as given=.")
    chains = min(chains, n)
    names = tuple(variable.name for variable in schema.targets)
    empty = Source(names, 1, "array", np.full((1, len(names)), np.nan))
    dataset = Dataset.single(compile_table(source or empty, schema, repeat=chains))
    length = -(-n // chains)
    with threads_for(estimator, dataset) as engine:
        (codes,) = draw(field, dataset, count=length, sweeps=burn_in, thin=thin, engine=engine, **options)
    # (draws, targets, rows of given x chains) to (targets, rows of given x n), chain after chain. The first chains
    # contribute one row more if n is no multiple of their number.
    chain, number = np.divmod(np.arange(chains * length), length)
    contributed = number < n // chains + (chain < n % chains)
    codes = np.moveaxis(codes, 0, 2).reshape(codes.shape[1], -1, chains * length)[:, :, contributed]
    seeds = np.random.SeedSequence(options["seed"])
    columns: dict[str, Any] = drawn_columns(schema, codes.reshape(len(codes), -1), seeds)
    for variable in schema.targets:
        labels, known = columns[variable.name], None
        if source is not None and variable.numeric and variable.name in source.names:
            column = source.column(variable.name)  # numbers that are known, not their levels
            known = np.repeat(column.present, n)
            numbers = np.repeat(as_numbers(column), n).tolist()
            for row, number in zip(np.flatnonzero(known).tolist(), numbers, strict=True):
                labels[row] = int(number) if variable.whole else number
        types = {type(state) for state in variable.states}
        if len(types) > 1 and estimator.kind_ != "pandas":  # whose columns alone may mix numbers and text
            common = float if types == {int, float} else str
            labels = [common(label) for label in labels]
        if variable.dtype:
            labels = make_column(variable.name, labels, variable.column_type, estimator.kind_, known)
        columns[variable.name] = labels
    return make_frame(columns, estimator.kind_)


def event_probability(
    field: Field, event: Mapping[Any, Any], given: Mapping[Any, Any] | None, max_cells: int, gibbs: Gibbs
) -> Probability:
    """Return P(event | given), the product over the connected components that the event involves."""
    parts, known = _read_event(field.schema, event), _known_values(field.schema, {} if given is None else given)
    dataset = row_of(field.schema, given)
    (block,) = dataset.tables[0].blocks
    missing = {target: part.shares for target, part in parts.items() if block.codes[target, 0] < 0}
    seen = {target: known[field.schema.targets[target].name] for target in parts.keys() - missing.keys()}
    if not all(parts[target].contains(value) for target, value in seen.items()):
        return Probability(0.0, "exact", 0.0)
    if not missing:
        return Probability(1.0, "exact", 0.0)
    compiled = compile_problem(dataset, field.graphs, [(0, block)])
    graph = build_factors(compiled.problem, field.theta)
    by_component: dict[int, dict[int, np.ndarray]] = defaultdict(dict)
    for cell, target in enumerate(compiled.missing_cells[1].tolist()):
        if target in missing:
            by_component[int(graph.component_of_cell[cell])][cell] = missing[target]
    model = compiled.problem, field.theta, graph
    factors = [_shared_probability(model, k, cells, max_cells, gibbs) for k, cells in by_component.items()]
    values, errors = np.array([p.value for p in factors]), np.array([p.error for p in factors])
    others = [np.prod(np.delete(values, k)) for k in range(len(values))]
    error = float(np.linalg.norm(errors * others))
    sampled = any(factor.method == "gibbs" for factor in factors)
    return Probability(float(np.prod(values)), "gibbs" if sampled else "exact", error)


def _shared_probability(
    model: Conditioned, component: int, wanted: dict[int, np.ndarray], max_cells: int, gibbs: Gibbs
) -> Probability:
    """Return the probability of an event that contains shares of the states of cells, (states,) of each, by code.

    States of which the event contains the same share are treated together.
    """
    parts = []
    for cell, shares in wanted.items():
        parts.append([(cell, share, np.flatnonzero(shares == share)) for share in np.unique(shares[shares > 0.0])])
    value, error, method = 0.0, 0.0, "exact"
    for chosen in product(*parts):
        codes = {cell: states for cell, _, states in chosen}
        part = _component_probability(model, component, codes, max_cells, gibbs)
        share = float(np.prod([share for _, share, _ in chosen]))
        value, error, method = value + share * part.value, error + share * part.error, part.method
    return Probability(min(value, 1.0), method, error)


def _component_probability(
    model: Conditioned, component: int, wanted: dict[int, np.ndarray], max_cells: int, gibbs: Gibbs
) -> Probability:
    """Return the probability that cells of a connected component have one of the codes that are ``wanted`` of them.

    It is exact if the treewidth of the component is small enough, and otherwise estimated by Gibbs sampling.
    """
    graph = model[2]
    (batch,) = batches_by_shape(graph, max_cells, np.array([component]))
    if batch.plan.feasible:
        place = {int(cell): k for k, cell in enumerate(batch.missing_cells[0])}
        of_event = log_partition(graph, batch, {place[cell]: codes for cell, codes in wanted.items()})
        return Probability(float(min(np.exp(of_event - log_partition(graph, batch))[0], 1.0)), "exact", 0.0)
    states = np.zeros(graph.offsets[-1], dtype=bool)
    for cell, codes in wanted.items():
        states[graph.offsets[cell] + codes] = True
    event = Event(np.array(sorted(wanted), dtype=np.int64), states)
    means = run_chains(*model, gibbs, event, np.array([component]))
    worst = float(np.nanmax(means.r_hat, initial=1.0))
    if worst > gibbs.max_r_hat:
        warnings.warn(
            f"Gibbs chains do not agree (R-hat {worst:.3g}): the estimate and its standard error may be inaccurate. "
            "Raise burn_in and sweeps: gibbs=Gibbs(burn_in=..., sweeps=...).",
            ConvergenceWarning,
            stacklevel=3,
        )
    return Probability(float(means.value[0]), "gibbs", float(means.error[0]))


def row_of(schema: Schema, given: Mapping[Any, Any] | None) -> Dataset:
    """Return a row with the given cells, in which all others are missing."""
    cells = _known_values(schema, {} if given is None else given)
    absent = [variable.name for variable in schema.observed if variable.name not in cells]
    if absent:
        raise DataError(f"The field is conditioned on {list_first(absent, 8)}: give each a value, or None if unknown.")
    names = [variable.name for variable in schema.variables]
    row = np.full((1, len(names)), None, dtype=object)
    for name, value in cells.items():
        variable = schema.variables[schema.index_of_name[name]]
        if value is None:
            continue
        if variable.numeric:
            if not isinstance(value, Real):
                raise DataError(f"Column {name!r} is numeric; given= has {value!r}.")
        else:
            value = variable.states[int(variable.position_of_code[_code(variable, value, "given")])]
        row[0, schema.index_of_name[name]] = value
    return Dataset.single(compile_table(replace(as_source(row), names=tuple(names)), schema))


def _known_values(schema: Schema, given: Mapping[Any, Any]) -> dict[str, Any]:
    """Return {column: value}, where dates are numbers of days; None for unknown values."""
    if not isinstance(given, Mapping):
        raise DataError(f"given is a {type(given).__name__}; it must be {{column: state}}.")
    values = {}
    for column, value in given.items():
        name = _name(schema, column, "given")
        variable = schema.variables[schema.index_of_name[name]]
        values[name] = None if is_missing(value) else _undated(variable, value, "given")
    return values


def _undated(variable: Variable, value: Any, what: str) -> Any:
    """Return a date of a column of dates as a number of days; other values as they are."""
    return days_of(variable.name, value, variable.dtype, what) if family_of(variable.dtype) else value


class _EventPart(NamedTuple):
    """What an event says about one column."""

    shares: np.ndarray
    """(states,): the share of each state, by code, that the event contains."""
    contains: Callable[[Any], bool]
    """Whether a known value belongs to the event."""


def _read_event(schema: Schema, event: Mapping[Any, Any]) -> dict[int, _EventPart]:
    """Return {number of a target: what the event says about it}."""
    if not isinstance(event, Mapping) or not event:
        problem = "names no column" if isinstance(event, Mapping) else f"is a {type(event).__name__}"
        raise DataError(f"event {problem}; it must be {{column: state}}, or {{column: [state, ...]}}.")
    parts = {}
    for column, states in event.items():
        name = _name(schema, column, "event")
        number = schema.index_of_name[name]
        variable = schema.variables[number]
        if variable.role == "observed":
            raise DataError(f"Column {name!r} is observed: the field has no probabilities of its states.")
        if isinstance(states, tuple) or variable.numeric:
            parts[number] = _read_range(variable, states)
        else:
            parts[number] = _read_states(variable, states)
    return parts


def _read_states(variable: Variable, states: Any) -> _EventPart:
    if not isinstance(states, Iterable) or isinstance(states, (str, bytes)):
        states = [states]
    codes = {_code(variable, _undated(variable, state, "event"), "event") for state in states}
    if not codes:
        raise DataError(f"The event allows no state of column {variable.name!r}.")
    shares = np.isin(np.arange(len(variable.states)), list(codes)).astype(float)
    return _EventPart(shares, lambda value: _code(variable, value, "given") in codes)


def _read_range(variable: Variable, ends: Any) -> _EventPart:
    """Return the part of an event that is a range (low, high), both ends included; it may contain part of a level."""
    if not variable.ordered or not (isinstance(ends, tuple) and len(ends) == 2):
        form = "a range (low, high), such as (60, None)" if variable.ordered else "a state, or a list of states"
        raise DataError(f"event= has {ends!r} for the {variable.kind} column {variable.name!r}: write {form}.")
    low, high = (
        unbounded if end is None else _as_place(variable, end, "event")
        for end, unbounded in zip(ends, (-np.inf, np.inf), strict=True)
    )
    if low > high:
        raise DataError(f"event= has the range {ends!r} for column {variable.name!r}: write the lower end first.")

    def contains(value: Any) -> bool:
        return low <= _as_place(variable, value, "given") <= high

    if not variable.limits:
        values = np.array(variable.states, dtype=float) if has_numbers(variable) else np.arange(len(variable.states))
        shares = ((values >= low) & (values <= high)).astype(float)
    else:
        first, last = low, high
        if variable.whole:  # a whole number stands for all that is rounded to it
            first, last = np.ceil(low) - 0.5, np.floor(high) + 0.5
        shares = shares_below(variable, last, included=True) - shares_below(variable, first, included=False)
        shares = np.round(np.maximum(shares, 0.0), 12)  # so that whole levels have a share of 1
    return _EventPart(shares[variable.position_of_code], contains)


def _as_place(variable: Variable, value: Any, what: str) -> float:
    """Return a value as a number: of a variable without numbers, the position of the state."""
    value = _undated(variable, value, what)
    if not has_numbers(variable):
        return float(variable.position_of_code[_code(variable, value, what)])
    if not isinstance(value, Real):
        raise DataError(f"Column {variable.name!r} holds numbers; {what}= has {value!r}.")
    return float(value)


def _name(schema: Schema, column: Any, what: str) -> str:
    if column not in schema.index_of_name:
        columns = list_first(schema.order, 8)
        raise DataError(f"{what}= names the column {column!r}, which is not there; columns: {columns}.")
    return str(column)


def _code(variable: Variable, state: Any, what: str) -> int:
    try:
        return variable.code_of_label[state]
    except (KeyError, TypeError):
        known = list_first(variable.states, 8)
        raise DataError(f"{what}= has the unknown state {state!r} of {variable.name!r}; states: {known}.") from None

"""Queries to a field over one table: probabilities of events, marginals and completions."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from numbers import Integral, Real
from typing import Any, Generic, Literal, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsefield.compute import Engine
from sparsefield.data import DenseDataset, Schema, Variable, as_source, compile_table
from sparsefield.data.cell_values import is_missing
from sparsefield.data.column_types import days_of, family_of
from sparsefield.data.frame_building import TableT
from sparsefield.errors import DataError, EstimateWarning
from sparsefield.estimators.number_answers import has_numbers, shares_below
from sparsefield.inference import Gibbs
from sparsefield.inference.elimination import batches_by_shape, log_partition
from sparsefield.inference.exact_marginals import exact_logits
from sparsefield.inference.factor_graph import FactorGraph, build_factors, component_of_cell, normalize
from sparsefield.inference.gibbs import ChainMeans, run_chains
from sparsefield.inference.map_inference import MAPResult, complete
from sparsefield.inference.missing_problem import compile_problem, independent_groups
from sparsefield.kernels.gibbs_chains import Event
from sparsefield.model import Field

QUERY_CHAINS = Gibbs(chains=8, burn_in=500, sweeps=5000)
"""Gibbs chains of queries that exact inference cannot answer: long ones, since a query is about one row."""

COMPARISONS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}

SHOWN = 20
"""Largest number of names that an error lists."""


@dataclass(frozen=True)
class Probability:
    """The probability of an event, and how it was computed; ``float(answer)`` is the value alone."""

    value: float
    method: Literal["exact", "gibbs"]
    error: float
    """Standard error; 0 if the value is exact."""

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True)
class Completion(Generic[TableT]):
    """A table whose missing cells are in their most probable joint states.

    For linked tables, ``exact`` and ``log_probability`` are {table: array}.
    """

    table: TableT
    exact: np.ndarray | dict[str, np.ndarray]
    """(rows,): whether the completion of a row is known to be the most probable one; False if a search found it."""
    log_probability: np.ndarray | dict[str, np.ndarray]
    """(rows,): ln of the joint probability of the row's missing cells given its observed values; over linked tables, of
    the missing cells of all rows that it is linked with. 0 in a complete row, NaN where a search found the result."""


def find_completion(field: Field, sample: DenseDataset, engine: Engine, max_cells: int) -> MAPResult:
    """Return the most probable completion of all rows, with a warning if some were found by a search."""
    found = complete(field, sample, engine, max_cells=max_cells)
    unsure = sum(int((~exact).sum()) for exact in found.exact)
    if unsure:
        rows = sum(len(exact) for exact in found.exact)
        warnings.warn(
            f"In {unsure:,} of {rows:,} rows missing cells depend on each other too widely for exact inference: their "
            "completion was searched for, and a more probable one may exist. Raise max_cells for an exact one.",
            EstimateWarning,
            stacklevel=3,
        )
    return found


class _RowGraph(NamedTuple):
    """One row as a factor graph over its missing cells."""

    graph: FactorGraph
    cell_of_target: dict[int, int]
    """{number of a target that is missing: its cell in the graph}."""
    codes: np.ndarray
    """(targets,): -1 for a missing cell."""
    component_of_cell: np.ndarray


def event_probability(
    field: Field, event: Mapping[Any, Any], given: Mapping[Any, Any] | None, max_cells: int, gibbs: Gibbs
) -> Probability:
    """Return P(event | given), the product over the connected components that the event involves."""
    wanted = _shares_of_event(field.schema, event)
    known = _known_values(field.schema, given or {})
    row = _build_row_graph(field, given)
    by_component: dict[int, dict[int, np.ndarray]] = {}
    for target, (shares, contains) in wanted.items():
        if row.codes[target] >= 0:
            if not contains(known[field.schema.targets[target].name]):
                return Probability(0.0, "exact", 0.0)
            continue
        if not shares.any():
            return Probability(0.0, "exact", 0.0)
        cell = row.cell_of_target[target]
        by_component.setdefault(int(row.component_of_cell[cell]), {})[cell] = shares
    found = [_shared_probability(row.graph, k, cells, max_cells, gibbs) for k, cells in by_component.items()]
    value = float(np.prod([one.value for one in found]))
    others = [np.prod([other.value for other in found if other is not one]) for one in found]
    error = float(np.sqrt(sum((one.error * other) ** 2 for one, other in zip(found, others, strict=True))))
    return Probability(value, "gibbs" if any(one.method == "gibbs" for one in found) else "exact", error)


def marginal_probabilities(
    field: Field, given: Mapping[Any, Any] | None, max_cells: int, gibbs: Gibbs
) -> dict[str, np.ndarray]:
    """Return {column: probabilities of its states} of a row of which only ``given`` is known."""
    row = _build_row_graph(field, given)
    graph = row.graph
    batches = batches_by_shape(graph, max_cells)
    beliefs = normalize(graph, exact_logits(graph, [batch for batch in batches if batch.plan.feasible]))
    wide = [row.component_of_cell[batch.missing_cells[:, 0]] for batch in batches if not batch.plan.feasible]
    if wide:
        means = run_chains(graph, gibbs, components=np.concatenate(wide))
        drawn = np.isfinite(means.value)
        beliefs[drawn] = means.value[drawn]
        _warn_of_chains(means, gibbs)
        warnings.warn(
            "Columns depend on each other too widely for exact marginals: those of some are means over Gibbs chains, "
            f"with standard errors up to {np.nanmax(means.error):.2g}. Raise max_cells for exact ones, or sweeps: "
            "gibbs=Gibbs(sweeps=...).",
            EstimateWarning,
            stacklevel=3,
        )
    found = {}
    for v, variable in enumerate(field.schema.targets):
        states = np.zeros(len(variable.states))
        if row.codes[v] >= 0:
            states[variable.position_of_code[row.codes[v]]] = 1.0
        else:
            first = graph.offsets[row.cell_of_target[v]]
            states[variable.position_of_code] = beliefs[first : first + len(states)]
        found[variable.name] = states
    return {name: found[name] for name in field.schema.order if name in found}


def _shared_probability(
    graph: FactorGraph, component: int, wanted: dict[int, np.ndarray], max_cells: int, gibbs: Gibbs
) -> Probability:
    """Return the probability of an event that contains shares of the states of cells, (states,) of each, by code.

    States of which the event contains the same share are treated together.
    """
    parts = []
    for cell, shares in wanted.items():
        parts.append([(cell, share, np.flatnonzero(shares == share)) for share in np.unique(shares[shares > 0.0])])
    found, factors = [], []
    for chosen in product(*parts):
        codes = {cell: states for cell, _, states in chosen}
        found.append(_component_probability(graph, component, codes, max_cells, gibbs))
        factors.append(float(np.prod([share for _, share, _ in chosen])))
    value = sum(factor * one.value for factor, one in zip(factors, found, strict=True))
    error = sum(factor * one.error for factor, one in zip(factors, found, strict=True))
    return Probability(min(value, 1.0), found[0].method, error)


def _component_probability(
    graph: FactorGraph, component: int, wanted: dict[int, np.ndarray], max_cells: int, gibbs: Gibbs
) -> Probability:
    """Return the probability that cells of a connected component have one of the codes that are ``wanted`` of them.

    It is exact if the treewidth of the component is small enough, and otherwise estimated by Gibbs sampling.
    """
    (batch,) = batches_by_shape(graph, max_cells, np.array([component]))
    if batch.plan.feasible:
        place = {int(cell): k for k, cell in enumerate(batch.missing_cells[0])}
        of_event = log_partition(graph, batch, {place[cell]: codes for cell, codes in wanted.items()})
        return Probability(float(min(np.exp(of_event - log_partition(graph, batch))[0], 1.0)), "exact", 0.0)
    states = np.zeros(graph.offsets[-1], dtype=bool)
    for cell, codes in wanted.items():
        states[graph.offsets[cell] + codes] = True
    event = Event(np.array(sorted(wanted), dtype=np.int64), states)
    means = run_chains(graph, gibbs, event, np.array([component]))
    _warn_of_chains(means, gibbs)
    return Probability(float(means.value[0]), "gibbs", float(means.error[0]))


def _warn_of_chains(means: ChainMeans, gibbs: Gibbs) -> None:
    worst = float(np.nanmax(means.r_hat, initial=1.0))
    if worst > gibbs.max_r_hat:
        warnings.warn(
            f"Gibbs chains do not agree (R-hat {worst:.3g}): the estimate and its standard error may be inaccurate. "
            "Raise burn_in and sweeps: gibbs=Gibbs(burn_in=..., sweeps=...).",
            ConvergenceWarning,
            stacklevel=4,
        )


def _build_row_graph(field: Field, given: Mapping[Any, Any] | None) -> _RowGraph:
    table = compile_table(_make_row(field.schema, given or {}), field.schema)
    sample, (block,) = DenseDataset.single(table), table.blocks
    if independent_groups(sample, [[block]]):
        compiled = compile_problem(sample, field.graphs, [(0, block)])
        graph, targets = build_factors(compiled.problem, field.theta), compiled.missing_cells[1].tolist()
    else:
        graph, targets = _empty_graph(), []
    return _RowGraph(graph, {v: cell for cell, v in enumerate(targets)}, block.codes[:, 0], component_of_cell(graph))


def _empty_graph() -> FactorGraph:
    nothing, start = np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
    numbers, keys = np.empty(0), np.empty(0, dtype=np.uint64)
    return FactorGraph(start, numbers, start, nothing, nothing, nothing, start, numbers, start, start, nothing, start,
                       nothing, start, nothing, keys)  # fmt: skip


def _make_row(schema: Schema, given: Mapping[Any, Any]) -> Any:
    """Return a row with the given cells, in which all others are missing."""
    cells = _known_values(schema, given)
    absent = [variable.name for variable in schema.observed if variable.name not in cells]
    if absent:
        raise DataError(
            f"The field is conditioned on observed columns ({_join(absent)}): give each a value, or None where it is "
            "not known."
        )
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
    return replace(as_source(row), names=tuple(names))


def _known_values(schema: Schema, given: Mapping[Any, Any]) -> dict[str, Any]:
    """Return {column: value}, where dates are numbers of days; None for unknown values."""
    found = {}
    for column, value in given.items():
        name = _name(schema, column, "given")
        variable = schema.variables[schema.index_of_name[name]]
        found[name] = None if is_missing(value) else _undated(variable, value, "given")
    return found


def _undated(variable: Variable, value: Any, what: str) -> Any:
    """Return a date of a column of dates as a number of days; other values as they are."""
    return days_of(variable.name, value, variable.dtype, what) if family_of(variable.dtype) else value


Contains = Callable[[Any], bool]
"""Says whether a value belongs to an event."""


def _shares_of_event(schema: Schema, event: Mapping[Any, Any]) -> dict[int, tuple[np.ndarray, Contains]]:
    """Return {number of a target: (the share of each state, by code, that the event contains; what it contains)}."""
    if not event:
        raise DataError("The event names no column: event={column: state}, or {column: [state, ...]}.")
    found = {}
    for column, states in event.items():
        name = _name(schema, column, "event")
        number = schema.index_of_name[name]
        variable = schema.variables[number]
        if variable.role == "observed":
            raise DataError(
                f"Column {name!r} is observed: the field says nothing about the probabilities of its states."
            )
        several = isinstance(states, Iterable) and not isinstance(states, (str, bytes))
        parts = [_shares(variable, state) for state in (states if several else [states])]
        if not parts:
            raise DataError(f"The event allows no state of column {name!r}.")
        shares = np.minimum(np.sum([part for part, _ in parts], axis=0), 1.0)
        found[number] = shares, partial(_any_contains, [contains for _, contains in parts])
    return found


def _any_contains(parts: Sequence[Contains], value: Any) -> bool:
    return any(contains(value) for contains in parts)


def _shares(variable: Variable, state: Any) -> tuple[np.ndarray, Contains]:
    """Return the share of each state, by code, in an event: a state, or a range of an ordered variable."""
    if variable.ordered and isinstance(state, str) and state not in variable.code_of_label:
        found = _range(variable, state)
        if found is not None:
            return found[0][variable.position_of_code], found[1]
    if variable.numeric:
        raise DataError(
            f"event= has {state!r} for the numeric column {variable.name!r}: write a range, such as "
            f"{_ranges(variable)}."
        )
    code = _code(variable, _undated(variable, state, "event"), "event")
    return (np.arange(len(variable.states)) == code).astype(
        float
    ), lambda value: _code(variable, value, "given") == code


def _ranges(variable: Variable) -> str:
    """Return examples of ranges."""
    if family_of(variable.dtype) == "dates":
        return "'> 2020-01-31' or '2020-01-01 to 2020-01-31'"
    return "'> 60', '<= 3' or '20 to 30'"


def _range(variable: Variable, text: str) -> tuple[np.ndarray, Contains] | None:
    """Return the share of each state, in their order, in a range such as "> 60" or "20 to 30"; None if it is none.

    A range may contain part of a level of a number.
    """
    between = re.fullmatch(r"\s*(.+?)\s+to\s+(.+?)\s*", text)
    compared = re.fullmatch(r"\s*(<=|>=|<|>)\s*(.+?)\s*", text)
    if between:
        bounds = [(">=", _as_place(variable, between[1])), ("<=", _as_place(variable, between[2]))]
        if bounds[0][1] > bounds[1][1]:
            raise DataError(f"event= has the range {text!r} for column {variable.name!r}: write the lower bound first.")
    elif compared:
        bounds = [(compared[1], _as_place(variable, compared[2]))]
    else:
        return None

    def contains(values: Any) -> Any:
        return np.all([COMPARISONS[sign](values, bound) for sign, bound in bounds], axis=0)

    def contains_value(value: Any) -> bool:
        return bool(contains(value if has_numbers(variable) else _as_place(variable, value)))

    if not variable.limits:
        values = np.array(variable.states, dtype=float) if has_numbers(variable) else np.arange(len(variable.states))
        return contains(values).astype(float), contains_value
    shares = np.ones(len(variable.states))
    half = 0.5 if variable.whole else 0.0
    for sign, bound in bounds:
        if half:  # a whole number stands for all that is rounded to it
            bound = np.ceil(bound) - half if sign in ("<", ">=") else np.floor(bound) + half
        below = shares_below(variable, bound, included=sign in ("<=", ">"))
        shares += (below if sign in ("<", "<=") else 1.0 - below) - 1.0
    return np.round(np.maximum(shares, 0.0), 12), contains_value  # so that whole levels have a share of 1


def _as_place(variable: Variable, text: Any) -> float:
    """Return a bound of a range as a number: of a variable without numbers, the position of the state."""
    if family_of(variable.dtype):
        return days_of(variable.name, text, variable.dtype, "event")
    if has_numbers(variable):
        try:
            return float(text)
        except ValueError:
            raise DataError(f"Column {variable.name!r} holds numbers; event= has {text!r}.") from None
    return float(variable.states.index(variable.states[int(variable.position_of_code[_code(variable, text, "event")])]))


def _name(schema: Schema, column: Any, what: str) -> str:
    """Return the name of a column that is given by name or by position."""
    if isinstance(column, Integral) and not isinstance(column, bool) and -1 < int(column) < len(schema.order):
        return schema.order[int(column)]
    if column not in schema.index_of_name:
        raise DataError(f"{what}= names the column {column!r}, which is not there; columns: {_join(schema.order)}.")
    return str(column)


def _code(variable: Variable, state: Any, what: str) -> int:
    try:
        return variable.code_of_label[state]
    except (KeyError, TypeError):
        known = _join(variable.states)
        raise DataError(
            f"{what}= has the state {state!r} of column {variable.name!r}, which is not known; states: {known}."
        ) from None


def _join(names: Iterable[Any]) -> str:
    names = list(names)
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(str(name) for name in names[:SHOWN]) + more

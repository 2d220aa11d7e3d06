"""Questions to a field over one table about one row, of which some cells are given: joint events, and marginals."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsefield.data import DenseDataset, Schema, Variable, as_source, compile_table
from sparsefield.errors import DataError, EstimateWarning
from sparsefield.inference import Gibbs, state_probabilities
from sparsefield.inference.elimination import batches_by_shape, log_partition
from sparsefield.inference.exact_marginals import exact_logits
from sparsefield.inference.factor_graph import FactorGraph, build_factors, component_of_cell, normalize
from sparsefield.inference.gibbs import ChainMeans, run_chains
from sparsefield.inference.map_inference import MAPResult
from sparsefield.inference.missing_problem import compile_problem, independent_groups
from sparsefield.kernels.gibbs_chains import Event
from sparsefield.model import Field

__all__ = ["Completion", "Probability", "event_probability", "marginal_probabilities", "warn_of_search"]

SHOWN = 20
"""Names that an error lists at most."""


@dataclass(frozen=True)
class Probability:
    """The probability of an event, and where it comes from; ``float(answer)`` is the value alone."""

    value: float
    method: Literal["exact", "gibbs"]
    error: float
    """Standard error; 0 where the value is exact."""

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True)
class Completion:
    """A table with its gaps in their most probable joint states; of linked tables, the last two are {table: array}."""

    table: Any
    exact: Any
    """(rows,): whether no other completion of the row is more probable; else it was searched for."""
    log_probability: Any
    """(rows,): ln of the joint probability of the row's gaps given what is seen, over linked tables together with the
    gaps of the rows that it is linked with; 0 in a row without gaps, NaN where a completion was searched for."""


class _Asked(NamedTuple):
    """One row as a factor graph."""

    graph: FactorGraph
    gap_of_target: dict[int, int]
    """By number of the target."""
    codes: np.ndarray
    """(targets,): -1 for a gap."""
    component_of_cell: np.ndarray


def event_probability(
    field: Field, event: Mapping[Any, Any], given: Mapping[Any, Any] | None, *, max_cells: int, gibbs: Gibbs
) -> Probability:
    """P(event | given): parts that the event touches are eliminated where they are narrow enough, else sampled."""
    schema = field.schema
    wanted = _wanted(schema, event)
    asked = _ask_row(field, given)
    by_part: dict[int, dict[int, np.ndarray]] = {}
    for target, codes in wanted.items():
        if asked.codes[target] >= 0:
            if asked.codes[target] not in codes:
                return Probability(0.0, "exact", 0.0)
            continue
        cell = asked.gap_of_target[target]
        by_part.setdefault(int(asked.component_of_cell[cell]), {})[cell] = codes
    found = [_of_part(asked.graph, part, missing, max_cells, gibbs) for part, missing in by_part.items()]
    value = float(np.prod([one.value for one in found]))
    rest = [np.prod([other.value for other in found if other is not one]) for one in found]
    error = float(np.sqrt(sum((one.error * others) ** 2 for one, others in zip(found, rest, strict=True))))
    return Probability(value, "gibbs" if any(one.method == "gibbs" for one in found) else "exact", error)


def marginal_probabilities(
    field: Field, given: Mapping[Any, Any] | None, *, max_cells: int, gibbs: Gibbs
) -> dict[str, np.ndarray]:
    """{target: (states,)} given some cells, in the order of the states."""
    asked = _ask_row(field, given)
    graph = asked.graph
    alike = batches_by_shape(graph, max_cells)
    narrow = [parts for parts in alike if parts.plan.feasible]
    beliefs = normalize(graph, exact_logits(graph, narrow))
    wide = [asked.component_of_cell[parts.missing_cells[:, 0]] for parts in alike if not parts.plan.feasible]
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
        column = np.zeros((variable.width, 1))
        if asked.codes[v] > 0:
            column[asked.codes[v] - 1] = 1.0
        elif asked.codes[v] < 0:
            first = graph.offsets[asked.gap_of_target[v]]
            column[:, 0] = beliefs[first + 1 : first + 1 + variable.width]
        found[variable.name] = state_probabilities(variable, column)[0]
    return {name: found[name] for name in field.schema.order if name in found}


def warn_of_search(completed: MAPResult) -> None:
    """Say in how many rows nothing proves that the completion is the most probable one."""
    unsure = sum(int((~exact).sum()) for exact in completed.exact)
    if unsure:
        rows = sum(len(exact) for exact in completed.exact)
        warnings.warn(
            f"In {unsure:,} of {rows:,} rows gaps depend on each other too widely for an exact answer: their "
            "completion was searched for, and a more probable one may exist. Raise max_cells for an exact one.",
            EstimateWarning,
            stacklevel=3,
        )


# -- behind them -------------------------------------------------------------------------------------------------------


def _of_part(graph: FactorGraph, part: int, wanted: dict[int, np.ndarray], max_cells: int, gibbs: Gibbs) -> Probability:
    """The probability that some gaps of one part have some of their codes."""
    (parts,) = batches_by_shape(graph, max_cells, np.array([part]))
    if parts.plan.feasible:
        place = {int(cell): k for k, cell in enumerate(parts.missing_cells[0])}
        some = log_partition(graph, parts, {place[cell]: codes for cell, codes in wanted.items()})
        return Probability(float(min(np.exp(some - log_partition(graph, parts))[0], 1.0)), "exact", 0.0)
    states = np.zeros(graph.offsets[-1], dtype=bool)
    for cell, codes in wanted.items():
        states[graph.offsets[cell] + codes] = True
    event = Event(np.array(sorted(wanted), dtype=np.int64), states)
    means = run_chains(graph, gibbs, event, np.array([part]))
    _warn_of_chains(means, gibbs)
    return Probability(float(means.value[0]), "gibbs", float(means.error[0]))


def _warn_of_chains(means: ChainMeans, gibbs: Gibbs) -> None:
    worst = float(np.nanmax(means.r_hat, initial=1.0))
    if worst > gibbs.max_r_hat:
        warnings.warn(
            f"Gibbs chains do not agree (R-hat {worst:.3g}): the answer, and its standard error, may be far off. "
            "Raise burn_in and sweeps: gibbs=Gibbs(burn_in=..., sweeps=...).",
            ConvergenceWarning,
            stacklevel=4,
        )


def _ask_row(field: Field, given: Mapping[Any, Any] | None) -> _Asked:
    schema = field.schema
    table = compile_table(_row(schema, given or {}), schema)
    sample, (block,) = DenseDataset.single(table), table.blocks
    members = [(0, block)]
    if independent_groups(sample, [[block]]):
        compiled = compile_problem(sample, field.graphs, members)
        graph, variables = build_factors(compiled.problem, field.theta), compiled.missing_cells[1].tolist()
    else:
        graph, variables = _no_gaps(), []
    return _Asked(graph, {v: cell for cell, v in enumerate(variables)}, block.codes[:, 0], component_of_cell(graph))


def _no_gaps() -> FactorGraph:
    nothing, start = np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
    numbers, keys = np.empty(0), np.empty(0, dtype=np.uint64)
    return FactorGraph(start, numbers, start, nothing, nothing, nothing, start, numbers, start, start, nothing, start,
                       nothing, start, nothing, keys)  # fmt: skip


def _row(schema: Schema, given: Mapping[Any, Any]) -> Any:
    """One row with the given cells, and gaps elsewhere."""
    cells = {_name(schema, column, "given"): value for column, value in given.items()}
    absent = [variable.name for variable in schema.observed if variable.name not in cells]
    if absent:
        raise DataError(
            f"The field is conditioned on observed columns ({_listed(absent)}): give each a value, or None where it is "
            "not known."
        )
    names = [variable.name for variable in schema.variables]
    row = np.full((1, len(names)), None, dtype=object)
    for name, value in cells.items():
        variable = schema.variables[schema.index_of_name[name]]
        if value is None or (isinstance(value, float) and np.isnan(value)):
            continue
        if variable.numeric:
            if not isinstance(value, Real):
                raise DataError(f"Column {name!r} is numeric; given= has {value!r}.")
        else:
            value = variable.states[int(variable.position_of_code[_code(variable, value, "given")])]
        row[0, schema.index_of_name[name]] = value
    return replace(as_source(row), names=tuple(names))


def _wanted(schema: Schema, event: Mapping[Any, Any]) -> dict[int, np.ndarray]:
    """{number of a target: codes that the event allows}."""
    if not event:
        raise DataError("The event names no column: event={column: state}, or {column: [state, ...]}.")
    found = {}
    for column, states in event.items():
        name = _name(schema, column, "event")
        number = schema.index_of_name[name]
        variable = schema.variables[number]
        if variable.role == "observed":
            raise DataError(f"Column {name!r} is observed: the field says nothing about how probable its states are.")
        several = isinstance(states, Iterable) and not isinstance(states, (str, bytes))
        codes = {_code(variable, state, "event") for state in (states if several else [states])}
        if not codes:
            raise DataError(f"The event allows no state of column {name!r}.")
        found[number] = np.array(sorted(codes), dtype=np.int64)
    return found


def _name(schema: Schema, column: Any, what: str) -> str:
    """The name of a column given by name or by position."""
    if isinstance(column, Integral) and not isinstance(column, bool) and -1 < int(column) < len(schema.order):
        return schema.order[int(column)]
    if column not in schema.index_of_name:
        raise DataError(f"{what}= names the column {column!r}, which is not there; columns: {_listed(schema.order)}.")
    return str(column)


def _code(variable: Variable, state: Any, what: str) -> int:
    try:
        return variable.code_of_label[state]
    except (KeyError, TypeError):
        known = _listed(variable.states)
        raise DataError(
            f"{what}= has the state {state!r} of column {variable.name!r}, which is not known; states: {known}."
        ) from None


def _listed(names: Iterable[Any]) -> str:
    names = list(names)
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(str(name) for name in names[:SHOWN]) + more

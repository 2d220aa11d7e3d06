"""A field as a graph: a node for each variable, an edge for each two that share features."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from sparsefield.data.layout import FeatureName
from sparsefield.data.schema import Label, Schema, Variable
from sparsefield.errors import DataError
from sparsefield.model.field import Field

__all__ = ["Drawing", "Edge", "Node", "draw", "to_networkx"]


@dataclass(frozen=True)
class Node:
    """A variable."""

    name: str
    attributes: dict[str, Any]


@dataclass(frozen=True)
class Edge:
    """Two variables that share features; over links they may be one variable, of two rows."""

    ends: tuple[str, str]
    attributes: dict[str, Any]


@dataclass(frozen=True)
class Drawing:
    """A graph before any library has it."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    """Strongest first."""
    linked: bool
    """Whether variables are of linked tables, where several templates may join the same two."""


class _Ends(NamedTuple):
    template: str
    table_a: str
    variable_a: str
    table_b: str
    variable_b: str


def to_networkx(field: Field, *, flat: bool = False) -> Any:
    """The field as a ``networkx.Graph``; of linked tables, as a ``networkx.MultiGraph``.

    Needs networkx: ``pip install 'sparsefield[graph]'``.

    A node is called as its column, over linked tables ``table.column``, and has

    - ``role``: "target" or "observed"; "count" for the number of neighbors that rows see over a link
    - ``states`` and ``base``, the state against which weights count; a numeric column has ``mean`` and ``deviation``
    - ``shares``: how often each state was seen, where the field was learned
    - ``weights``: {state: weight} of the features of one state

    An edge has

    - ``strength``: the norm of all weights that the two share; ``strongest``: the largest of them, with its sign
    - ``variable_a``, ``variable_b``, and ``weights``: {(state of a, state of b): weight}
    - ``conjunctions``, where there are any: a list of ({column: state}, weight), features of these two and others
    - ``template``, ``table_a``, ``table_b``, over linked tables

    The state of a numeric column is None: its weight is per standard deviation.

    Parameters
    ----------
    field : Field
    flat : bool
        Text for whatever is a list or a dict, as GraphML wants it; nodes then have a ``label``, and edges a ``weight``,
        which is their strength under the name that many programs look for.

    Examples
    --------
    >>> from sparsefield.datasets import make_markov_field
    >>> field = make_markov_field(3, 1, neighbors=1.0, burn_in=1, seed=1).field.field_
    >>> graph = to_networkx(field)
    >>> graph.nodes["x0"]["states"]
    [0, 1]
    >>> [sorted(edge["weights"]) for _, _, edge in graph.edges(data=True)]
    [[(1, 1)]]
    """
    try:
        import networkx as nx
    except ImportError:
        raise DataError("networkx is not installed: pip install 'sparsefield[graph]'.") from None
    drawing = draw(field, flat=flat)
    graph: Any = nx.MultiGraph() if drawing.linked else nx.Graph()
    graph.add_nodes_from((node.name, node.attributes) for node in drawing.nodes)
    if drawing.linked:
        graph.add_edges_from((*edge.ends, k, edge.attributes) for k, edge in enumerate(drawing.edges))
    else:
        graph.add_edges_from((*edge.ends, edge.attributes) for edge in drawing.edges)
    return graph


def draw(field: Field, *, flat: bool = False) -> Drawing:
    """Nodes and edges of a field, with the attributes that `to_networkx` tells of."""
    layout = field.layout
    linked = layout.tables != ("",) or bool(layout.views)
    edges = list(_edges(field, linked))
    nodes = list(_nodes(field, linked))
    names = [node.name for node in nodes]
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise DataError(f"Two columns would both be called {twice!r}: rename a table or a column.")
    there = set(names)
    for end in dict.fromkeys(end for edge in edges for end in edge.ends if end not in there):
        nodes.append(Node(end, {"role": "count"}))
    edges.sort(key=lambda edge: -edge.attributes["strength"])
    if flat:
        nodes = [Node(node.name, {"label": node.name, **_flat_node(node.attributes)}) for node in nodes]
        edges = [Edge(edge.ends, _flat_edge(edge.attributes)) for edge in edges]
    return Drawing(tuple(nodes), tuple(edges), linked)


# -- nodes ---------------------------------------------------------------------------------------------------


def _nodes(field: Field, linked: bool) -> Iterator[Node]:
    layout = field.layout
    known = field.record.is_learned  # one that was given has seen no data
    for t, (table, schema) in enumerate(zip(layout.tables, layout.schemas, strict=True)):
        unary = field.unary[layout.state_starts[t] : layout.state_starts[t + 1]]
        for variable, weights in _with_weights(schema, unary):
            attributes = {"table": table, "variable": variable.name} if linked else {}
            attributes |= {"role": variable.role, **_told(variable, known), "weights": weights}
            yield Node(_name(table, variable.name, linked), attributes)


def _with_weights(schema: Schema, unary: np.ndarray) -> Iterator[tuple[Variable, dict[Label, float]]]:
    """Every variable with the unary weights of its states; observed ones have none."""
    for k, variable in enumerate(schema.variables):
        if variable.role == "observed":
            yield variable, {}
            continue
        own = unary[schema.offsets[k] : schema.offsets[k + 1]].tolist()
        states = (variable.states[position] for position in variable.position_of_code[1:])
        yield variable, {state: weight for state, weight in zip(states, own, strict=True) if weight}


def _told(variable: Variable, known: bool) -> dict[str, Any]:
    if variable.numeric:
        return {"mean": variable.centre, "deviation": variable.scale}
    told: dict[str, Any] = {"states": list(variable.states), "base": variable.states[variable.base]}
    return {**told, "shares": list(variable.frequencies)} if known else told


def _name(table: str, variable: str, linked: bool) -> str:
    return f"{table}.{variable}" if linked and table else variable


# -- edges ---------------------------------------------------------------------------------------------------


def _edges(field: Field, linked: bool) -> Iterator[Edge]:
    pairs: dict[_Ends, dict[tuple[Any, Any], float]] = {}
    for columns, weight in _used(field.pairs, field.weights):
        name = field.layout.feature_name(*sorted(columns))
        own, states = pairs.setdefault(_ends(name), {}), (name.state_a, name.state_b)
        own[states] = own.get(states, 0.0) + weight
    more: dict[_Ends, list[tuple[dict[str, Any], float]]] = {}
    for columns, weight in _used(field.conjunctions, field.conjunction_weights):
        states, ends = _conjunction(field, [column for column in columns if column >= 0])
        for key in ends:
            more.setdefault(key, []).append((states, weight))
    for key in dict.fromkeys([*pairs, *more]):
        weights, conjunctions = pairs.get(key, {}), more.get(key, [])
        all_weights = [*weights.values(), *(weight for _, weight in conjunctions)]
        attributes: dict[str, Any] = {"template": key.template} if linked else {}
        attributes |= {"strength": math.hypot(*all_weights), "strongest": max(all_weights, key=abs)}
        for end, table, variable in (("a", key.table_a, key.variable_a), ("b", key.table_b, key.variable_b)):
            attributes |= {f"table_{end}": table} if linked else {}
            attributes[f"variable_{end}"] = variable
        attributes["weights"] = weights
        attributes |= {"conjunctions": conjunctions} if conjunctions else {}
        ends = _name(key.table_a, key.variable_a, linked), _name(key.table_b, key.variable_b, linked)
        yield Edge(ends, attributes)


def _used(features: np.ndarray, weights: np.ndarray) -> Iterable[tuple[list[int], float]]:
    used = np.flatnonzero(weights)
    return zip(features[used].tolist(), weights[used].tolist(), strict=True)


def _ends(name: FeatureName) -> _Ends:
    return _Ends(name.template, name.table_a, name.variable_a, name.table_b, name.variable_b)


def _conjunction(field: Field, columns: list[int]) -> tuple[dict[str, Any], list[_Ends]]:
    """A feature of several columns of one table in words, and every two of its variables."""
    states, ends = {}, []
    for a, b in combinations(columns, 2):
        name = field.layout.feature_name(a, b)
        states |= {name.variable_a: name.state_a, name.variable_b: name.state_b}
        ends.append(_ends(name))
    return states, ends


# -- flat ----------------------------------------------------------------------------------------------------


def _flat_node(attributes: dict[str, Any]) -> dict[str, Any]:
    flat = dict(attributes)
    for what in ("states", "shares"):
        if what in flat:
            flat[what] = ", ".join(f"{value:.6g}" if what == "shares" else str(value) for value in flat[what])
    if "base" in flat:
        flat["base"] = str(flat["base"])
    if "weights" in flat:
        flat["weights"] = "; ".join(f"{state}: {weight:.6g}" for state, weight in flat["weights"].items())
    return flat


def _flat_edge(attributes: dict[str, Any]) -> dict[str, Any]:
    flat = {"weight": attributes["strength"], **attributes}
    named = flat["variable_a"], flat["variable_b"]
    flat["weights"] = "; ".join(
        _sentence(zip(named, states, strict=True), weight) for states, weight in flat["weights"].items()
    )
    if "conjunctions" in flat:
        flat["conjunctions"] = "; ".join(_sentence(states.items(), weight) for states, weight in flat["conjunctions"])
    return flat


def _sentence(states: Iterable[tuple[str, Any]], weight: float) -> str:
    """``a=u & b=v: 1.5``; a number has no state."""
    return " & ".join(name if state is None else f"{name}={state}" for name, state in states) + f": {weight:.6g}"

"""The graph of a field: a node for each variable, an edge for every two that share features."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsefield.data.coding import ColumnClass
from sparsefield.data.layout import FeatureName
from sparsefield.data.schema import Variable
from sparsefield.errors import DataError
from sparsefield.estimators.field_estimator import FieldEstimator, fitted_field
from sparsefield.model.atomic_write import write_atomically
from sparsefield.model.field import Field

if TYPE_CHECKING:
    import networkx

Attributes = dict[str, Any]


@dataclass(frozen=True)
class FieldGraph:
    """The nodes and edges of a field, independent of any graph library."""

    nodes: dict[str, Attributes]
    """A node for each variable."""
    edges: list[tuple[str, str, Attributes]]
    """An edge for every two variables that share features, strongest first; over links, the two may be the same."""
    linked: bool
    """Whether the tables are linked, so that several templates may join the same two variables."""


def to_networkx(field: FieldEstimator | Field, *, flat: bool = False) -> networkx.Graph:
    """Return the field as a ``networkx.Graph``, or for linked tables as a ``networkx.MultiGraph``.

    This needs networkx: ``pip install 'sparsefield[graph]'``.

    A node has the name of its column, or ``table.column`` for linked tables, and the attributes

    - ``role``: "target" or "observed"; "count" for the number of linked rows
    - ``kind``: "nominal", "ordinal" or "numeric"
    - ``states``, in their order for an ordinal column, and ``reference``, the reference state of the weights, if there
      is one; a numeric column has ``mean``, ``deviation`` and ``transform`` instead
    - ``shares``: the frequency of each state in training, if the field was learned
    - ``weights``: {state: bias}; the bias of the squared score of a numeric column has the key "square"

    An edge has the attributes

    - ``strength``: the Euclidean norm of all weights that the two share
    - ``strongest``: the weight of largest magnitude
    - ``variable_a``, ``variable_b``, and ``weights``: {(state of a, state of b): weight}
    - ``conjunctions``, if any: a list of ({column: state}, weight) for features of these two and other columns
    - ``template``, ``table_a``, ``table_b``, for linked tables

    A state of None is the score of an ordinal or numeric column, whose weight is per standard deviation. The bins of a
    numeric column are states such as "12 to 18.5".

    Parameters
    ----------
    field : fitted estimator, or its field
    flat : bool
        Whether lists and dicts become text, as GraphML requires; nodes then also have a ``label``, and edges a
        ``weight``, which is their strength under the name that many programs expect.

    Examples
    --------
    >>> from sparsefield.app.datasets import make_markov_field
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
    field_graph = build_graph(fitted_field(field), flat=flat)
    graph: Any = nx.MultiGraph() if field_graph.linked else nx.Graph()
    graph.add_nodes_from(field_graph.nodes.items())
    edges = field_graph.edges
    # Edges of a multigraph are numbered.
    graph.add_edges_from([(a, b, k, edge) for k, (a, b, edge) in enumerate(edges)] if field_graph.linked else edges)
    return graph


def build_graph(field: Field, *, flat: bool = False) -> FieldGraph:
    """Return the nodes and edges of a field, with the attributes that `to_networkx` lists."""
    layout = field.layout
    linked = layout.tables != ("",) or bool(layout.neighbor_views)
    edges, nodes = list(_edges(field, linked)), {}
    for name, attributes in _nodes(field, linked):
        if name in nodes:
            raise DataError(f"Two nodes would have the name {name!r}: rename a table or a column.")
        nodes[name] = attributes
    for end in [end for edge in edges for end in edge[:2]]:
        nodes.setdefault(end, {"role": "count"})
    edges.sort(key=lambda edge: -edge[2]["strength"])
    if flat:
        nodes = {name: {"label": name, **_flat_node(attributes)} for name, attributes in nodes.items()}
        edges = [(a, b, _flat_edge(attributes)) for a, b, attributes in edges]
    return FieldGraph(nodes, edges, linked)


def _nodes(field: Field, linked: bool) -> Iterator[tuple[str, Attributes]]:
    layout = field.layout
    known = field.record.is_learned  # a field that was not learned has no frequencies
    for t, (table, schema) in enumerate(zip(layout.tables, layout.schemas, strict=True)):
        biases = field.biases[layout.target_starts[t] : layout.target_starts[t + 1]].tolist()
        weights: dict[str, dict[Any, float]] = {variable.name: {} for variable in schema.variables}
        for column, weight in enumerate(biases):
            name, state = schema.column_name(column)
            state = "square" if schema.column_classes[column] == ColumnClass.SQUARE else state
            weights[name] |= {state: weight} if weight else {}
        for variable in schema.variables:
            attributes: Attributes = {"table": table, "variable": variable.name} if linked else {}
            attributes |= {"role": variable.role, "kind": variable.kind, **_state_attributes(variable, known)}
            attributes["weights"] = weights[variable.name]
            yield _name(table, variable.name, linked), attributes


def _state_attributes(variable: Variable, known: bool) -> dict[str, Any]:
    if variable.numeric:
        return {"mean": variable.center, "deviation": variable.scale, "transform": variable.transform}
    attributes: dict[str, Any] = {"states": list(variable.states)}
    attributes |= {"reference": variable.states[variable.reference]} if variable.has_reference else {}
    return {**attributes, "shares": list(variable.frequencies)} if known else attributes


def _name(table: str, variable: str, linked: bool) -> str:
    return f"{table}.{variable}" if linked and table else variable


def _edges(field: Field, linked: bool) -> Iterator[tuple[str, str, Attributes]]:
    # An edge is identified by the names of its features without their states.
    pairs: dict[FeatureName, dict[tuple[Any, Any], float]] = {}
    for columns, weight in _active(field.pairs, field.weights):
        name = field.layout.feature_name(*sorted(columns))
        own, states = pairs.setdefault(_without_states(name), {}), (name.state_a, name.state_b)
        own[states] = own.get(states, 0.0) + weight
    more: dict[FeatureName, list[tuple[dict[str, Any], float]]] = {}
    for columns, weight in _active(field.conjunctions, field.conjunction_weights):
        names = [field.layout.feature_name(*pair) for pair in combinations([c for c in columns if c >= 0], 2)]
        states = {}
        for name in names:
            states |= {name.variable_a: name.state_a, name.variable_b: name.state_b}
        for name in names:
            more.setdefault(_without_states(name), []).append((states, weight))
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
        yield _name(key.table_a, key.variable_a, linked), _name(key.table_b, key.variable_b, linked), attributes


def _active(features: np.ndarray, weights: np.ndarray) -> Iterable[tuple[list[int], float]]:
    used = np.flatnonzero(weights)
    return zip(features[used].tolist(), weights[used].tolist(), strict=True)


def _without_states(name: FeatureName) -> FeatureName:
    return name._replace(state_a=None, state_b=None)


def _flat_node(attributes: dict[str, Any]) -> dict[str, Any]:
    as_text: dict[str, Callable[[Any], str]] = {
        "states": lambda states: ", ".join(map(str, states)),
        "reference": str,
        "shares": lambda shares: ", ".join(f"{share:.6g}" for share in shares),
        "weights": lambda weights: "; ".join(
            f"{'score' if state is None else state}: {weight:.6g}" for state, weight in weights.items()
        ),
    }
    return {name: as_text[name](value) if name in as_text else value for name, value in attributes.items()}


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
    """Return text such as ``a=u & b=v: 1.5``; a score has no state."""
    return " & ".join(name if state is None else f"{name}={state}" for name, state in states) + f": {weight:.6g}"


NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that are not allowed in XML, even when escaped."""


def write_graphml(field: FieldEstimator | Field, path: str | os.PathLike[str]) -> None:
    """Write the graph of a field as GraphML; all attributes are text or numbers.

    This needs networkx: ``pip install 'sparsefield[graph]'``. It reads the file as ``to_networkx(field, flat=True)``;
    for linked tables, pass it ``force_multigraph=True``. Characters that XML does not allow are replaced, and carriage
    returns are read as line feeds. An existing file is replaced atomically.

    Parameters
    ----------
    field : fitted estimator, or its field
        Over one table or linked tables.
    path : path of the file

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sparsefield.app.datasets import make_markov_field
    >>> field = make_markov_field(3, 1, neighbors=1.0, burn_in=1, seed=1).field.field_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_graphml(field, folder + "/net.graphml")
    ...     text = Path(folder + "/net.graphml").read_text()
    >>> text.count("<node "), text.count("<edge ")
    (3, 1)
    """
    graph = to_networkx(field, flat=True)
    clean = {name: _clean(name) for name in graph}
    if len(set(clean.values())) < len(clean):
        raise DataError("Two columns have names that differ only in characters that XML does not allow: rename one.")
    import networkx as nx

    graph = nx.relabel_nodes(graph, clean)
    for attributes in [*graph.nodes.values(), *graph.edges.values()]:
        attributes |= {name: _clean(value) for name, value in attributes.items() if isinstance(value, str)}
    file = BytesIO()
    nx.write_graphml(graph, file)
    write_atomically(path, file.getvalue())


def _clean(text: str) -> str:
    return NOT_XML.sub("\ufffd", text)

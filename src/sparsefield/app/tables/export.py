"""Fields for other programs, as graphs of networkx."""

from __future__ import annotations

import json
import os
import re
from io import BytesIO
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.atomic_write import write_atomically
from sparsefield.errors import DataError
from sparsefield.estimators.field_estimator import FieldEstimator, fitted_field
from sparsefield.model.feature_tables import bias_table, list_features
from sparsefield.model.field import Field

if TYPE_CHECKING:
    import networkx

NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that are not allowed in XML, even when escaped."""


def to_networkx(field: FieldEstimator | Field) -> networkx.Graph:
    """Return the field as a ``networkx.Graph``, or for linked tables as a ``networkx.MultiGraph``.

    This needs networkx: ``pip install 'sparsefield[graph]'``. All attributes are text or numbers, so that networkx can
    write them in every format; exact weights by state are in ``field.features_`` and ``field.biases_``.

    A node has the name of its column, or ``table.column`` for linked tables, and the attributes

    - ``role``: "target", "observed" or "latent"; "count" for the number of linked rows
    - ``kind``: "nominal", "ordinal" or "numeric"
    - ``states``, with ``shares`` in training if the field was learned; of a number ``mean`` and ``deviation``
    - ``biases``, such as ``yes: -1.5``

    An edge has the attributes

    - ``weight``: its strength, the Euclidean norm of all weights that the two share
    - ``strongest``: the weight of largest magnitude
    - ``features``, such as ``smokes=yes & mood=glad: 1.5``; a score, with a weight per standard deviation, has no state
    - ``template``, for linked tables

    Parameters
    ----------
    field : fitted estimator, or its field

    Examples
    --------
    >>> from sparsefield.app.datasets import make_markov_field
    >>> field = make_markov_field(3, 1, neighbors=1.0, burn_in=1, seed=1).field.field_
    >>> [edge["features"].split(":")[0] for _, _, edge in to_networkx(field).edges(data=True)]
    ['x0=1 & x2=1']
    """
    try:
        import networkx as nx
    except ImportError:
        raise DataError("networkx is not installed: pip install 'sparsefield[graph]'.") from None
    field = fitted_field(field)
    is_linked = field.layout.tables != ("",)
    graph: Any = nx.MultiGraph() if is_linked else nx.Graph()
    for table, schema in zip(field.layout.tables, field.layout.schemas, strict=True):
        for variable in schema.variables:
            name = _node_name(table, variable.name)
            if name in graph:
                raise DataError(f"Two nodes would have the name {name!r}: rename a table or a column.")
            node: dict[str, Any] = {"label": name, "role": variable.role, "kind": variable.kind}
            if variable.numeric:
                node |= {"mean": variable.center, "deviation": variable.scale}
            else:
                node["states"] = ", ".join(map(str, variable.states))
                if field.record.is_learned:  # a field that was not learned has no frequencies
                    node["shares"] = ", ".join(f"{share:.6g}" for share in variable.frequencies)
            graph.add_node(name, **node)
    for row in bias_table(field).iter_rows(named=True):
        node = graph.nodes[_node_name(row.get("table"), row["variable"])]
        text = f"{'score' if row['state'] is None else row['state']}: {row['weight']:.6g}"
        node["biases"] = f"{node['biases']}; {text}" if "biases" in node else text
    shared: dict[tuple[str, str, str], list[tuple[str, float]]] = {}
    for feature in list_features(field):
        words = " & ".join(term.text for term in feature.terms)
        for a, b in combinations(feature.terms, 2):
            shared.setdefault((feature.template, a.column, b.column), []).append((words, feature.weight))
    for (template, a, b), features in shared.items():
        edge: dict[str, Any] = {"template": template} if is_linked else {}
        edge["weight"] = sum(weight**2 for _, weight in features) ** 0.5
        edge["strongest"] = features[0][1]  # features come strongest first
        edge["features"] = "; ".join(f"{words}: {weight:.6g}" for words, weight in features)
        for end in (a, b):
            if end not in graph:
                graph.add_node(end, label=end, role="count")
        graph.add_edge(a, b, **edge)
    return graph


def _node_name(table: str | None, variable: str) -> str:
    return f"{table}.{variable}" if table else variable


def write_graph(field: FieldEstimator | Field, path: str | os.PathLike[str]) -> tuple[int, int]:
    """Write the graph of a field by networkx, as GraphML or JSON; return its numbers of nodes and edges.

    ``.graphml`` is for Gephi, Cytoscape, yEd and igraph; characters that XML does not allow are replaced. ``.json`` is
    read by ``networkx.node_link_graph`` and by D3. An existing file is replaced atomically.
    """
    graph = to_networkx(field)
    import networkx as nx

    if Path(path).suffix.lower() == ".json":
        content = json.dumps(nx.node_link_data(graph, edges="edges"), ensure_ascii=False, indent=1).encode()
    else:
        clean = {name: NOT_XML.sub("\ufffd", name) for name in graph}
        if len(set(clean.values())) < len(clean):
            raise DataError("Columns have names that differ only in characters that XML does not allow: rename one.")
        graph, buffer = nx.relabel_nodes(graph, clean), BytesIO()
        for attributes in [*graph.nodes.values(), *graph.edges.values()]:
            for name, value in attributes.items():
                attributes[name] = NOT_XML.sub("\ufffd", value) if isinstance(value, str) else value
        nx.write_graphml(graph, buffer)
        content = buffer.getvalue()
    write_atomically(path, content)
    return graph.number_of_nodes(), graph.number_of_edges()

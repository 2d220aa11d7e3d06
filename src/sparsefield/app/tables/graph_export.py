"""The graph of a field: a node for each variable, an edge for every two that share features."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from itertools import combinations
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

from sparsefield.atomic_write import write_atomically
from sparsefield.errors import DataError
from sparsefield.estimators.field_estimator import FieldEstimator, fitted_field
from sparsefield.model.feature_tables import bias_table, feature_table
from sparsefield.model.field import Field

if TYPE_CHECKING:
    import networkx

NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that are not allowed in XML, even when escaped."""

Attributes = dict[str, Any]


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
    - ``features``, such as ``smokes=yes & mood=glad: 1.5``; a score, whose weight is per standard deviation, has no
      state
    - ``template``, for linked tables

    Parameters
    ----------
    field : fitted estimator, or its field

    Examples
    --------
    >>> from sparsefield.app.datasets import make_markov_field
    >>> field = make_markov_field(3, 1, neighbors=1.0, burn_in=1, seed=1).field.field_
    >>> graph = to_networkx(field)
    >>> graph.nodes["x0"]["states"]
    '0, 1'
    >>> [edge["features"].split(":")[0] for _, _, edge in graph.edges(data=True)]
    ['x0=1 & x2=1']
    """
    try:
        import networkx as nx
    except ImportError:
        raise DataError(
            "networkx is not installed: pip install 'sparsefield[graph]', or export the edges as .csv or .json."
        ) from None
    nodes, edges, linked = _nodes_and_edges(fitted_field(field))
    graph: Any = nx.MultiGraph() if linked else nx.Graph()
    graph.add_nodes_from(nodes.items())
    # Edges of a multigraph are numbered.
    graph.add_edges_from([(a, b, k, edge) for k, (a, b, edge) in enumerate(edges)] if linked else edges)
    return graph


def write_graph(field: FieldEstimator | Field, path: str | os.PathLike[str]) -> tuple[int, int]:
    """Write the graph of a field with the attributes that `to_networkx` lists; the suffix decides the format.

    ``.graphml`` and ``.gexf`` are for Gephi, Cytoscape, yEd and igraph, and need networkx: ``pip install
    'sparsefield[graph]'``; characters that XML does not allow are replaced. ``.json`` is read by networkx's
    ``node_link_graph`` and by D3. ``.csv`` is a list of edges. An existing file is replaced atomically.

    Parameters
    ----------
    field : fitted estimator, or its field
        Over one table or linked tables.
    path : path of the file

    Returns
    -------
    numbers of nodes and of edges
    """
    suffix = Path(path).suffix.lower()
    nodes, edges, linked = _nodes_and_edges(fitted_field(field))
    if suffix == ".csv":
        text = io.StringIO()
        names = (["template"] if linked else []) + ["weight", "strongest", "features"]
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["source", "target", *names])
        writer.writerows([a, b, *(edge[name] for name in names)] for a, b, edge in edges)
        content = text.getvalue().encode()
    elif suffix == ".json":
        listed = [
            {"source": a, "target": b, **({"key": k} if linked else {}), **e} for k, (a, b, e) in enumerate(edges)
        ]
        graph = {"directed": False, "multigraph": linked, "graph": {}}
        graph |= {"nodes": [{"id": name, **node} for name, node in nodes.items()], "edges": listed}
        content = json.dumps(graph, ensure_ascii=False, indent=1).encode()
    elif suffix in (".graphml", ".gexf"):
        content = _as_xml(to_networkx(field), suffix)
    else:
        raise DataError(f"{path}: the name of a graph ends in .graphml, .gexf, .json or .csv.")
    write_atomically(path, content)
    return len(nodes), len(edges)


def _as_xml(graph: Any, suffix: str) -> bytes:
    import networkx as nx

    clean = {name: NOT_XML.sub("\ufffd", name) for name in graph}
    if len(set(clean.values())) < len(clean):
        raise DataError("Two columns have names that differ only in characters that XML does not allow: rename one.")
    graph = nx.relabel_nodes(graph, clean)
    for attributes in [*graph.nodes.values(), *graph.edges.values()]:
        texts = {name: value for name, value in attributes.items() if isinstance(value, str)}
        attributes |= {name: NOT_XML.sub("\ufffd", value) for name, value in texts.items()}
    file = io.BytesIO()
    (nx.write_graphml if suffix == ".graphml" else nx.write_gexf)(graph, file)
    return file.getvalue()


def _nodes_and_edges(field: Field) -> tuple[dict[str, Attributes], list[tuple[str, str, Attributes]], bool]:
    """Return {name: attributes} of the nodes, the edges, strongest first, and whether the tables are linked."""
    linked = field.layout.tables != ("",)
    nodes: dict[str, Attributes] = {}
    biases: dict[str, list[str]] = {}
    for row in bias_table(field).iter_rows(named=True):
        state = "score" if row["state"] is None else row["state"]
        biases.setdefault(_name(row.get("table"), row["variable"]), []).append(f"{state}: {row['weight']:.6g}")
    for table, schema in zip(field.layout.tables, field.layout.schemas, strict=True):
        for variable in schema.variables:
            name = _name(table, variable.name)
            if name in nodes:
                raise DataError(f"Two nodes would have the name {name!r}: rename a table or a column.")
            node: Attributes = {"label": name, "role": variable.role, "kind": variable.kind}
            if variable.numeric:
                node |= {"mean": variable.center, "deviation": variable.scale}
            else:
                node["states"] = ", ".join(map(str, variable.states))
                if field.record.is_learned:  # a field that was not learned has no frequencies
                    node["shares"] = ", ".join(f"{share:.6g}" for share in variable.frequencies)
            nodes[name] = node | ({"biases": "; ".join(biases[name])} if name in biases else {})
    shared: dict[tuple[str, str, str], list[tuple[str, float]]] = {}
    for row in feature_table(field).iter_rows(named=True):
        letters = [letter for letter in ascii_lowercase if row.get(f"variable_{letter}") is not None]
        ends = [_name(row.get(f"table_{letter}"), row[f"variable_{letter}"]) for letter in letters]
        states = [row[f"state_{letter}"] for letter in letters]
        words = [end if state is None else f"{end}={state}" for end, state in zip(ends, states, strict=True)]
        for a, b in combinations(ends, 2):
            shared.setdefault((row.get("template") or "", a, b), []).append((" & ".join(words), row["weight"]))
    edges = []
    for (template, a, b), features in shared.items():
        edge: Attributes = {"template": template} if linked else {}
        edge["weight"] = sum(weight**2 for _, weight in features) ** 0.5
        edge["strongest"] = features[0][1]  # features come strongest first
        edge["features"] = "; ".join(f"{words}: {weight:.6g}" for words, weight in features)
        edges.append((a, b, edge))
        for end in (a, b):
            nodes.setdefault(end, {"label": end, "role": "count"})
    return nodes, sorted(edges, key=lambda edge: -edge[2]["weight"]), linked


def _name(table: str | None, variable: str) -> str:
    return f"{table}.{variable}" if table else variable

"""This module writes GraphML, which Gephi, Cytoscape, yEd, igraph and networkx read, without needing networkx."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from sparsefield.errors import DataError
from sparsefield.io.atomic_write import write_atomically
from sparsefield.io.graph_export import build_graph
from sparsefield.model.field import Field

HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" \
xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">"""
TYPES = {str: "string", float: "double"}
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that are not allowed in XML, even when escaped."""


def write_graphml(field: Field, path: str | os.PathLike[str]) -> None:
    """Write the graph of a field as GraphML; all attributes are text or numbers.

    networkx reads the file as ``to_networkx(field, flat=True)``; for linked tables, pass it ``force_multigraph=True``.
    An existing file is replaced atomically.

    Parameters
    ----------
    field : Field
        A field over one table or linked tables.
    path : path of the file

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sparsefield.datasets import make_markov_field
    >>> field = make_markov_field(3, 1, neighbors=1.0, burn_in=1, seed=1).field.field_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_graphml(field, folder + "/net.graphml")
    ...     text = Path(folder + "/net.graphml").read_text()
    >>> text.count("<node "), text.count("<edge ")
    (3, 1)
    """
    graph = build_graph(field, flat=True)
    names = {node.name: _clean(node.name) for node in graph.nodes}
    if len(set(names.values())) < len(names):
        raise DataError("Two columns have names that differ only in characters that XML does not allow: rename one.")
    lines = [HEAD]
    lines += _keys("node", (node.attributes for node in graph.nodes))
    lines += _keys("edge", (edge.attributes for edge in graph.edges))
    lines.append('<graph edgedefault="undirected">')
    for node in graph.nodes:
        lines += [f"<node id={quoteattr(names[node.name])}>", *_data("node", node.attributes), "</node>"]
    for k, edge in enumerate(graph.edges):
        # networkx takes ids for the keys of parallel edges, and for one more attribute where there are none.
        own = f' id="{k}"' if graph.linked else ""
        ends = (quoteattr(names[end]) for end in edge.ends)
        lines += ["<edge{} source={} target={}>".format(own, *ends), *_data("edge", edge.attributes), "</edge>"]
    lines += ["</graph>", "</graphml>", ""]
    write_atomically(path, "\n".join(lines).encode())


def _keys(what: str, attributes: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the declarations of all attributes of nodes or edges."""
    found: dict[str, str] = {}
    for own in attributes:
        for name, value in own.items():
            found.setdefault(name, TYPES[type(value)])
    for name, kind in found.items():
        yield f'<key id="{what}_{name}" for="{what}" attr.name="{name}" attr.type="{kind}"/>'


def _data(what: str, attributes: dict[str, Any]) -> Iterator[str]:
    for name, value in attributes.items():
        text = _clean(value) if isinstance(value, str) else repr(value)
        # An unescaped carriage return would be read as a line feed.
        yield f'<data key="{what}_{name}">{escape(text, {chr(13): "&#13;"})}</data>'


def _clean(text: str) -> str:
    return NOT_XML.sub("\ufffd", text)

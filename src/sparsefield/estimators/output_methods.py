"""This module shows a fitted estimator as a plot, a report or a card in a notebook, and exports it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from sparsefield.app.tables import field_factors, graph_export, uai
from sparsefield.data import Label
from sparsefield.model import Field

if TYPE_CHECKING:
    import networkx
    from pgmpy.models import DiscreteMarkovNetwork  # pyright: ignore[reportMissingImports]

    from sparsefield.analysis.confidence_intervals import ConfidenceIntervals
    from sparsefield.app.pages.figure import NameStyle, NetworkPlot
    from sparsefield.app.pages.page import ExtraColumns, WeightIntervals


class OutputMethods:
    """Methods that show and export the field."""

    field_: Field

    def plot(
        self,
        *,
        title: str | None = None,
        layout: Any = None,
        communities: Any = None,
        rings: Any = None,
        ring_title: str = "predictability",
        edge_labels: bool = False,
        names: NameStyle = "auto",
        width_mm: float | None = None,
        height_mm: float | None = None,
        max_edges: int | None = None,
        legend: bool = True,
        seed: int = 0,
    ) -> NetworkPlot:
        """Return a plot of the network; ``.save("net.pdf")`` writes a figure for print.

        Blue edges are positive, orange and dashed ones negative, and gray ones have no sign. Wider edges are stronger.

        Parameters
        ----------
        title : str
            Drawn above the network; a figure without one has its legend only.
        layout : another plot, {column: (x, y)}, a frame or a CSV file with column, x and y
            Positions of the columns, so that several figures can share them; ``.positions`` of a plot has its own.
        communities : {column: community}, a frame or a CSV file with column and community, or "auto"
            Communities that color the columns, instead of those that are found; over linked tables, instead of tables.
            Columns that they leave out are gray. "auto" is the same as None.
        rings : {column: share}, a frame or a CSV file with column and value, or with a column named ``ring_title``
            Shares from 0 to 1 that fill a ring around each column; the result of `predictability` is such a frame.
        ring_title : what the rings show, for the legend
        edge_labels : whether edges have their weights as labels
        names : "auto", "inside" or "beside"
            Whether names are within the circles or beside them.
        width_mm, height_mm : float
            Size of the figure in print.
        max_edges : int
            The number of the strongest edges to draw; by default about as many as can be told apart, and the edges
            that keep columns connected.
        legend : whether to draw a legend
        seed : seed of the layout

        Examples
        --------
        >>> import numpy as np
        >>> from sparsefield import MarkovField
        >>> rain = np.arange(100) % 2
        >>> wet = np.where(np.arange(100) % 10 < 8, rain, 1 - rain)
        >>> plot = MarkovField(l1=1.0).fit(np.column_stack([rain, wet])).plot(width_mm=90)
        >>> plot.positions["column"].to_list()
        ['x0', 'x1']
        """
        from sparsefield.app.pages.figure import plot_network

        check_is_fitted(self)
        return plot_network(
            self, title=title, layout=layout, communities=communities, rings=rings, ring_title=ring_title,
            edge_labels=edge_labels, names=names, width_mm=width_mm, height_mm=height_mm, max_edges=max_edges,
            legend=legend, seed=seed,
        )  # fmt: skip

    def findings(self, X: Any, y: Any = None, *, most: int = 5) -> list[str]:
        """Return sentences about the data: how many pairs of columns go together, and the strongest with figures.

        Parameters
        ----------
        X : table, or `Relational` for a field over linked tables
            The rows of training, or others, from which shares, means and rank correlations are taken.
        y : labels, for a `CRFClassifier`
        most : largest number of pairs of columns that are told
        """
        from sparsefield.app.pages.findings import findings

        return findings(self, X, y, most=most)

    def write_report(
        self,
        path: str | os.PathLike[str],
        data: Any = None,
        *,
        title: str | None = None,
        data_name: str | None = None,
        extra: ExtraColumns | None = None,
        intervals: ConfidenceIntervals | WeightIntervals | None = None,
    ) -> None:
        """Write one HTML file about the field, which works offline.

        Parameters
        ----------
        path : where to write it
        data : table, or `Relational` for a field over linked tables
            Rows to compare with the field, for unexpected features, quality by column, calibration and missing values.
            The table of a `CRFClassifier` has its labels as columns. For a sparse matrix, tables of features also have
            support, confidence and lift.
        title : str
        data_name : str
            Name of the training file in the lines that repeat the fit.
        extra : {title: {name of a feature: value}}
            Further columns of the tables of features, such as selection frequencies. A feature has a name such as
            ``"rain=1 & wet=1"``; `sparsefield.analysis.feature_sentences.list_features` lists all names.
        intervals : `ConfidenceIntervals`, or {name of a feature: (lower end, upper end)}
            Intervals of weights, which are drawn as whiskers.
        """
        from sparsefield.app.pages.page import write_report

        write_report(self, data, path, title=title, data_name=data_name, extra=extra, intervals=intervals)

    def to_networkx(self, *, flat: bool = False) -> networkx.Graph:
        """Return the field as a networkx graph: a node per variable, an edge per pair of variables that share features.

        See `sparsefield.app.tables.graph_export.to_networkx` for the attributes. Linked tables make a MultiGraph.
        """
        check_is_fitted(self)
        return graph_export.to_networkx(self.field_, flat=flat)

    def to_graphml(self, path: str | os.PathLike[str]) -> None:
        """Write the graph of `to_networkx` as GraphML, for Gephi, Cytoscape, yEd or igraph."""
        check_is_fitted(self)
        graph_export.write_graphml(self.field_, path)

    def to_pgmpy(self, *, given: Mapping[str, Any] | None = None) -> DiscreteMarkovNetwork:
        """Return the distribution as a ``DiscreteMarkovNetwork`` of pgmpy.

        ``given`` has the values of observed columns, and of others that are known; the network is conditioned on them.
        """
        check_is_fitted(self)
        return field_factors.to_pgmpy(self.field_, given=given)

    def to_uai(
        self,
        path: str | os.PathLike[str],
        *,
        given: Mapping[str, Any] | None = None,
        names: str | os.PathLike[str] | None = None,
    ) -> dict[str, list[Label]]:
        """Write the distribution as a UAI file, and return {column: states} in the order of its numbers.

        ``given`` has the values of observed columns, and of others that are known; the network is conditioned on them.
        ``names`` is a file to which {column: states} is written as JSON, since the format has no names.
        """
        check_is_fitted(self)
        return uai.write_uai(self.field_, path, given=given, names=names)

    def _repr_html_inner(self) -> str:
        """Return the HTML that notebooks show: a card of the fit, or scikit-learn's diagram before the fit."""
        if not hasattr(self, "field_"):
            return super()._repr_html_inner()  # pyright: ignore[reportAttributeAccessIssue]
        from sparsefield.app.pages.page import make_card

        return make_card(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**kwargs)  # pyright: ignore[reportAttributeAccessIssue]
        return {**bundle, "text/html": self._repr_html_inner()} if "text/html" in bundle else bundle

"""This module shows a fitted estimator as a plot, a report or a card in a notebook, and exports it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from sparsefield.app.pages.report.repeat_fit import FitDescription
from sparsefield.app.tables import field_factors, graph_export, uai
from sparsefield.data import BinarySchema, DenseDataset, Label, Relational, Source, as_source, compile_table
from sparsefield.data.labels import as_numbers
from sparsefield.errors import DataError
from sparsefield.model import Field
from sparsefield.model.atomic_write import write_atomically

if TYPE_CHECKING:
    import networkx
    from pgmpy.models import DiscreteMarkovNetwork  # pyright: ignore[reportMissingImports]

    from sparsefield.analysis.confidence_intervals import ConfidenceIntervals
    from sparsefield.app.pages.figure_options import NameStyle
    from sparsefield.app.pages.network_plot import NetworkPlot
    from sparsefield.app.pages.network_view import ExtraColumns
    from sparsefield.app.pages.report.data_sections import ScoredRows
    from sparsefield.app.pages.report.feature_sections import WeightIntervals


MOST_CELLS = 10_000_000
"""Largest number of cells that a report evaluates; of a larger table it takes evenly spaced rows."""


MOST_WITH_PATHS = 500
"""Largest number of columns for which a report has closeness and betweenness; more take seconds."""


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
        extra: ExtraColumns | None = None,
    ) -> NetworkPlot:
        """Return a plot of the network: interactive in a notebook; ``.save("net.pdf")`` writes a figure for print.

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
        extra : {title: {name of a feature: value}}
            Further values that the interactive page shows beside the weights.

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
        from sparsefield.app.pages.figure_options import FigureOptions, read_column_values, read_positions
        from sparsefield.app.pages.network_plot import NetworkPlot
        from sparsefield.app.pages.network_view import build_view, check_communities

        check_is_fitted(self)
        places = read_positions(layout.positions if isinstance(layout, NetworkPlot) else layout)
        own = None if isinstance(communities, str) and communities == "auto" else communities
        given = read_column_values(own, "communities", "community")
        view = build_view(self.field_, extra, given_communities=check_communities(self.field_, given))
        shares = read_column_values(rings, "rings", "value", ring_title)
        options = FigureOptions(
            places, shares, ring_title, edge_labels, names, width_mm, height_mm,
            max_edges, legend, seed,
        ).checked(view.whole.network.labels)  # fmt: skip
        return NetworkPlot(view, title or "", options, f"Network of a {type(self).__name__}")

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

        check_is_fitted(self)
        estimator: Any = self
        return findings(self.field_, estimator._compile_with_schema(X, y, None), most)

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
            The table of a `CRFClassifier` has its labels as columns.
        title : str
        data_name : str
            Name of the training file in the lines that repeat the fit.
        extra : {title: {name of a feature: value}}
            Further columns of the tables of features, such as selection frequencies. A feature has a name such as
            ``"rain=1 & wet=1"``; `sparsefield.analysis.feature_sentences.list_features` lists all names.
        intervals : `ConfidenceIntervals`, or {name of a feature: (lower end, upper end)}
            Intervals of weights, which are drawn as whiskers.
        """
        from sparsefield.analysis.centrality import find_centrality
        from sparsefield.analysis.network import Network
        from sparsefield.analysis.predictability import find_predictability
        from sparsefield.app.pages.report.report_page import make_report

        check_is_fitted(self)
        scored = None if data is None else self._score_rows(data)
        fitted = self._as_fitted(data_name, () if scored is None else scored.unknown_columns)
        title = title or f"What this {type(self).__name__} has learned"
        network = Network(self.field_)
        found = cast("WeightIntervals | None", getattr(intervals, "by_feature", intervals))
        page = make_report(
            fitted,
            title=title,
            scored=scored,
            extra=extra,
            intervals=found,
            centrality=find_centrality(network, "auto", paths=network.n_variables <= MOST_WITH_PATHS),
            predictability=None if scored is None else find_predictability(self.field_, scored),
        )
        write_atomically(Path(path), page.encode())

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
        from sparsefield.app.pages.report.report_page import make_card

        return make_card(self._as_fitted())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**kwargs)  # pyright: ignore[reportAttributeAccessIssue]
        return {**bundle, "text/html": self._repr_html_inner()} if "text/html" in bundle else bundle

    def _as_fitted(self, data_name: str | None = None, left_out: tuple[str, ...] = ()) -> FitDescription:
        estimator: Any = self
        return FitDescription(
            type(self).__name__,
            self.field_,
            estimator.get_params() | {"solver": estimator._solver_to_save()},
            type(self)().get_params(),  # pyright: ignore[reportAttributeAccessIssue]
            data_name or ("schema.toml" if hasattr(self, "templates") else "data.csv"),
            left_out,
        )

    def _score_rows(self, data: Any) -> ScoredRows:
        """Return rows with their posterior under the field; evenly spaced rows of a large table."""
        from sparsefield.app.pages.report.data_sections import ScoredRows

        estimator: Any = self
        learned = self.field_.record.is_learned
        if hasattr(self, "templates"):
            sample = estimator._compile(data)
            sources = {name: data.select_variables(name) for name in sample.layout.tables}
            has_value = {name: _has_value(source, source.names) for name, source in sources.items()}
            pairs = zip(sample.layout.tables, sample.layout.schemas, strict=True)
            numbers = {name: _numbers(sources[name], schema) for name, schema in pairs}
            return ScoredRows(
                sample, estimator._infer(sample), sample.n_rows, has_value, numbers=numbers, known_shares=learned
            )
        if isinstance(data, Relational):
            raise DataError(f"The data are linked tables, but a {type(self).__name__} is over one table.")
        schema = self.field_.schema
        source = estimator._with_learned_names(as_source(data, what="data"))
        most = max(1, MOST_CELLS // max(schema.n_columns, 1))
        n_rows = source.n_rows
        if n_rows > most:
            source = estimator._with_learned_names(as_source(_some_rows(data, source, most), what="data"))
        sample = DenseDataset.single(compile_table(source, schema))
        unknown = tuple(name for name in source.names if name not in schema.index_of_name)
        known = [] if source.kind == "sparse" else [name for name in source.names if name in schema.index_of_name]
        has_value, numbers = {"": _has_value(source, known)}, {"": _numbers(source, schema)}
        return ScoredRows(sample, estimator._infer(sample), n_rows, has_value, unknown, numbers, learned)


def _has_value(source: Any, names: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(source.column(name).present) for name in names}


def _numbers(source: Any, schema: Any) -> dict[str, np.ndarray]:
    """Return {numeric target: (rows,) numbers, NaN where one is missing}."""
    found = {}
    # A schema of a million binary columns keeps no list of variables.
    for variable in () if isinstance(schema, BinarySchema) else schema.targets:
        if variable.numeric and variable.role == "target":
            column = source.column(variable.name)
            found[variable.name] = np.full(source.n_rows, np.nan)
            found[variable.name][column.present] = as_numbers(column)
    return found


def _some_rows(data: Any, source: Source, most: int) -> Any:
    rows = np.unique(np.linspace(0, source.n_rows - 1, most).astype(np.int64))
    if sp.issparse(data):
        return data.tocsr()[rows]
    if source.kind == "array":
        return np.asarray(data)[rows]
    import narwhals as nw

    return nw.from_native(data)[rows.tolist()].to_native()

"""This module tells how central the columns of a field are, and how well each is predicted from all others."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsefield.data import make_frame
from sparsefield.frame_protocol import Frame
from sparsefield.model import Field

if TYPE_CHECKING:
    from sparsefield.analysis.centrality import Communities
    from sparsefield.analysis.predictability import Predictability


class CentralityMethods:
    """Methods that return a row for each column of the field."""

    field_: Field
    kind_: str

    def centrality(self, table: Any = None, communities: Communities = None, *, standardized: bool = False) -> Frame:
        """Return how central each column is in the network.

        The strength of an edge is the norm of its weights, as in ``edges_``; its sign is that of weights between scores
        and binary columns, while states of other nominal columns have no order, and their edges no sign. The distance
        of two adjacent columns is 1 / strength.

        Parameters
        ----------
        table : table, or `Relational` for a field over linked tables
            Rows for the columns of `predictability`, which are added to the frame.
        communities : {column: community}, "auto" or None
            For bridge centrality: a community for every column, None for a column in none; or "auto", which finds
            communities by greedy modularity (the Louvain method) and calls them 1, 2, ..., the largest first.
        standardized : bool
            Whether measures are in standard deviations from their means over columns.

        Returns
        -------
        frame
            A row for each column, in the order of the input: column (for linked tables "table.column"); community, if
            there are any; degree, the number of adjacent columns; unsigned_edges, the number of those without a sign;
            strength, the sum of the strengths of the edges; expected_influence, that of sign times strength, NaN where
            no edge has a sign; closeness; betweenness; and with communities the measures ``bridge_...``, which count
            edges and paths between different communities only. Paths in connected components of more than 2,000 columns
            begin at up to 1,000 of them, so that closeness and betweenness are estimates there, with a warning.

        Examples
        --------
        >>> from sparsefield.app.datasets import make_markov_field
        >>> field = make_markov_field(3, 1, neighbors=1.0, burn_in=1, seed=1).field
        >>> found = field.centrality()
        >>> list(found["column"]), list(found["degree"])
        (['x0', 'x1', 'x2'], [1, 0, 1])
        """
        from sparsefield.analysis.centrality import EXACT_NODES, SOURCES, find_centrality
        from sparsefield.analysis.network import Network

        check_is_fitted(self)
        estimator: Any = self
        found = find_centrality(Network(self.field_), communities, n_jobs=estimator.n_jobs)
        if found.sampled:
            warnings.warn(
                f"A connected component has more than {EXACT_NODES:,} columns: closeness and betweenness are estimated "
                f"from the paths of up to {SOURCES:,} of them.",
                UserWarning,
                stacklevel=2,
            )
        columns = (found.standardize() if standardized else found).as_columns()
        if table is not None:
            columns |= _rows_of(self._find_predictability(table), found.names)
        return make_frame(columns, self.kind_)

    def predictability(self, table: Any) -> Frame:
        """Return how well each column is predicted from all others, as in a mixed graphical model (mgm).

        Each known value is predicted from all other known values of its row, as if it were missing. Rows that were not
        used in training tell how well new rows are predicted. A warning says if there are exactly as many rows as in
        training, since they then are probably the same, which makes the figures too high.

        Parameters
        ----------
        table : table, or `Relational` for a field over linked tables
            The table of a `CRFClassifier` has its labels as columns. Of a table with more than ten million cells,
            evenly spaced rows are used. Every row counts once, also if the fit had weights.

        Returns
        -------
        frame
            A row for each column that is predicted and has values: column, kind, cells (the number of values);
            r_squared, the share of the variance of a numeric column that predicted means explain; accuracy of the most
            probable state of other columns, and normalized_accuracy, (accuracy - that of the most frequent state of
            training) / (1 - the latter); gain, the mean log-likelihood (natural log) of a value minus that of the
            frequencies in training, and gain_error, its standard error. R^2, normalized accuracy and gain are about 0
            for predictions that ignore all other columns, and negative for worse ones. predictability is R^2 or
            normalized accuracy, and 0 where that is negative or not defined.

        Examples
        --------
        >>> import numpy as np
        >>> from sparsefield import MarkovField
        >>> rain, dice = np.random.default_rng(0).integers(0, 2, (2, 500))
        >>> X = np.column_stack([rain, rain, dice])
        >>> found = MarkovField(l1=5.0).fit(X[:400]).predictability(X[400:])
        >>> list(found["accuracy"][:2])
        [1.0, 1.0]
        """
        check_is_fitted(self)
        return make_frame(self._find_predictability(table).as_columns(), self.kind_)

    def _find_predictability(self, table: Any) -> Predictability:
        from sparsefield.analysis.predictability import describe_training_rows, find_predictability
        from sparsefield.analysis.scored_rows import score_rows

        scored = score_rows(self, table)
        record = self.field_.record
        if record.is_learned and scored.n_rows == record.n_rows:
            warnings.warn(describe_training_rows(scored.n_rows), UserWarning, stacklevel=3)
        return find_predictability(self.field_, scored)


def _rows_of(found: Predictability, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Return the columns of predictability for all columns of the field; NaN, and 0 cells, for those without."""
    place = {name: k for k, name in enumerate(names)}
    rows, columns = [place[name] for name in found.names], {}
    for name, values in found.as_columns().items():
        if name not in ("column", "kind"):
            columns[name] = np.zeros(len(names), np.int64) if name == "cells" else np.full(len(names), np.nan)
            columns[name][rows] = values
    return columns

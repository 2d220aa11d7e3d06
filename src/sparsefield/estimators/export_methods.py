"""This module exports a fitted estimator to other programs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from sparsefield import io
from sparsefield.data import Label
from sparsefield.model import Field

if TYPE_CHECKING:
    import networkx
    from pgmpy.models import DiscreteMarkovNetwork  # pyright: ignore[reportMissingImports]

__all__ = ["ExportMethods"]


class ExportMethods:
    """Methods that export the field; `sparsefield.io` has them for a `Field`."""

    field_: Field

    def to_networkx(self, *, flat: bool = False) -> networkx.Graph:
        """Return the field as a networkx graph: a node per variable, an edge per pair of variables that share features.

        See `sparsefield.io.to_networkx` for the attributes. Linked tables make a MultiGraph.
        """
        check_is_fitted(self)
        return io.to_networkx(self.field_, flat=flat)

    def to_graphml(self, path: str | os.PathLike[str]) -> None:
        """Write the graph of `to_networkx` as GraphML, for Gephi, Cytoscape, yEd or igraph."""
        check_is_fitted(self)
        io.write_graphml(self.field_, path)

    def to_pgmpy(self, *, given: Mapping[str, Any] | None = None) -> DiscreteMarkovNetwork:
        """Return the distribution as a ``DiscreteMarkovNetwork`` of pgmpy.

        ``given`` has the values of observed columns, and of others that are known; the network is conditioned on them.
        """
        check_is_fitted(self)
        return io.to_pgmpy(self.field_, given=given)

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
        return io.write_uai(self.field_, path, given=given, names=names)

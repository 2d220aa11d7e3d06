"""A fitted estimator's way to other programs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from sklearn.utils.validation import check_is_fitted

from sparsefield import io
from sparsefield.data import Label
from sparsefield.model import Field

__all__ = ["ExchangeMethods"]


class ExchangeMethods:
    """Methods that hand the field on; `sparsefield.io` has them for a `Field`."""

    field_: Field

    def to_networkx(self, *, flat: bool = False) -> Any:
        """The field as a networkx graph: a node for each variable, an edge for each two that share features.

        See `sparsefield.io.to_networkx` for the attributes. Linked tables make a MultiGraph.
        """
        check_is_fitted(self)
        return io.to_networkx(self.field_, flat=flat)

    def to_graphml(self, path: str | os.PathLike[str]) -> None:
        """Write that graph as GraphML, for Gephi, Cytoscape, yEd or igraph."""
        check_is_fitted(self)
        io.write_graphml(self.field_, path)

    def to_pgmpy(self, *, given: Mapping[str, Any] | None = None) -> Any:
        """The same distribution as a ``DiscreteMarkovNetwork`` of pgmpy.

        ``given`` has the values of observed columns, and of any others that are known; they are folded in.
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
        """Write the same distribution as a UAI file, and return {column: states} in the order of its numbers.

        ``given`` has the values of observed columns, and of any others that are known; they are folded in. ``names`` is
        where that mapping is written as JSON, since the format has no names.
        """
        check_is_fitted(self)
        return io.write_uai(self.field_, path, given=given, names=names)

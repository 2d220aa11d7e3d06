"""This module exports a field as a Markov network of pgmpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparsefield.errors import DataError
from sparsefield.io.field_factors import to_factors
from sparsefield.model.field import Field


def to_pgmpy(field: Field, *, given: Mapping[str, Any] | None = None) -> Any:
    """Return the distribution as a ``pgmpy.models.DiscreteMarkovNetwork`` with the names of columns and states.

    This needs pgmpy: ``pip install 'sparsefield[pgmpy]'``. The largest entry of every factor is 1, so that products of
    many factors do not overflow. pgmpy's ``VariableElimination`` returns unnormalized results for a Markov network: use
    ``query(...).normalize(inplace=False)``.

    Parameters
    ----------
    field : Field
        A field over one table.
    given : {column: state or number}
        Values of observed columns, and optionally of others; the distribution is conditioned on them.

    Examples
    --------
    >>> from sparsefield.datasets import make_markov_field
    >>> field = make_markov_field(3, 1, states=3, neighbors=2.0, burn_in=1).field.field_
    >>> network = to_pgmpy(field, given={"x0": 2})  # doctest: +SKIP
    >>> sorted(network.nodes())  # doctest: +SKIP
    ['x1', 'x2']
    """
    try:
        from pgmpy.factors.discrete import DiscreteFactor  # pyright: ignore[reportMissingImports]
        from pgmpy.models import DiscreteMarkovNetwork  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise DataError("pgmpy is not installed: pip install 'sparsefield[pgmpy]'.") from None
    found = to_factors(field, given)
    names = [variable.name for variable in found.variables]
    network = DiscreteMarkovNetwork()
    network.add_nodes_from(names)
    factors = []
    for factor in found.factors:
        scope = [names[k] for k in factor.scope]
        network.add_edges_from((a, b) for k, a in enumerate(scope) for b in scope[k + 1 :])
        states = {names[k]: list(found.variables[k].states) for k in factor.scope}
        factors.append(DiscreteFactor(scope, factor.logs.shape, np.exp(factor.logs - factor.logs.max()), states))
    network.add_factors(*factors)
    return network

"""sparsefield learns the structure of conditional random fields from data.

>>> from sparsefield import MarkovField, CRFClassifier, RelationalField, Relational, load
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sparsefield.data import ForeignKey, OffsetLink, Relational, Template
    from sparsefield.estimators import CRFClassifier, MarkovField, RelationalField, load
    from sparsefield.induction import CFI, FixedGraph, FullL1, Grafting, IdealParent, PaperCFI
    from sparsefield.induction.higher_order import HigherOrder
    from sparsefield.inference import BeliefPropagation, ExactInference, Gibbs, MeanField
    from sparsefield.io import read_atoms, read_database, read_schema, read_triples
    from sparsefield.solver import EBIC, FitCallbacks, HeldOut, Solver

__all__ = [
    "CFI",
    "EBIC",
    "BeliefPropagation",
    "CRFClassifier",
    "ExactInference",
    "FitCallbacks",
    "FixedGraph",
    "ForeignKey",
    "FullL1",
    "Gibbs",
    "Grafting",
    "HeldOut",
    "HigherOrder",
    "IdealParent",
    "MarkovField",
    "MeanField",
    "OffsetLink",
    "PaperCFI",
    "Relational",
    "RelationalField",
    "Solver",
    "Template",
    "__version__",
    "load",
    "read_atoms",
    "read_database",
    "read_schema",
    "read_triples",
]

_HOMES = {
    "MarkovField": "sparsefield.estimators",
    "CRFClassifier": "sparsefield.estimators",
    "RelationalField": "sparsefield.estimators",
    "load": "sparsefield.estimators",
    "ForeignKey": "sparsefield.data",
    "Relational": "sparsefield.data",
    "OffsetLink": "sparsefield.data",
    "Template": "sparsefield.data",
    "CFI": "sparsefield.induction",
    "PaperCFI": "sparsefield.induction",
    "Grafting": "sparsefield.induction",
    "IdealParent": "sparsefield.induction",
    "FullL1": "sparsefield.induction",
    "FixedGraph": "sparsefield.induction",
    "HigherOrder": "sparsefield.induction.higher_order",
    "Solver": "sparsefield.solver",
    "HeldOut": "sparsefield.solver",
    "EBIC": "sparsefield.solver",
    "FitCallbacks": "sparsefield.solver",
    "MeanField": "sparsefield.inference",
    "BeliefPropagation": "sparsefield.inference",
    "ExactInference": "sparsefield.inference",
    "Gibbs": "sparsefield.inference",
    "read_atoms": "sparsefield.io",
    "read_database": "sparsefield.io",
    "read_schema": "sparsefield.io",
    "read_triples": "sparsefield.io",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that ``import sparsefield`` is fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'sparsefield' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value

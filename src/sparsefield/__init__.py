"""sparsefield learns the structure of conditional random fields from data.

>>> from sparsefield import MarkovField, CRFClassifier, RelationalField, Relational, load
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sparsefield.data import ForeignKey, OffsetLink, Relational, Template
    from sparsefield.data.calendar_parts import calendar_parts
    from sparsefield.estimators import CRFClassifier, MarkovField, RelationalField, load
    from sparsefield.induction import CFI, FixedGraph, FullL1, Grafting, IdealParent, PaperCFI
    from sparsefield.induction.higher_order import HigherOrder
    from sparsefield.inference import AutomaticInference, BeliefPropagation, ExactInference, Gibbs, MeanField
    from sparsefield.io import Baskets, read_atoms, read_baskets, read_database, read_schema, read_triples
    from sparsefield.objectives import EM
    from sparsefield.solver import EBIC, FitCallbacks, HeldOut, Solver

__all__ = [
    "CFI",
    "EBIC",
    "EM",
    "AutomaticInference",
    "Baskets",
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
    "calendar_parts",
    "load",
    "read_atoms",
    "read_baskets",
    "read_database",
    "read_schema",
    "read_triples",
]

_NAMES_OF_MODULE = {
    "sparsefield.data": ("ForeignKey", "OffsetLink", "Relational", "Template"),
    "sparsefield.data.calendar_parts": ("calendar_parts",),
    "sparsefield.estimators": ("CRFClassifier", "MarkovField", "RelationalField", "load"),
    "sparsefield.induction": ("CFI", "FixedGraph", "FullL1", "Grafting", "IdealParent", "PaperCFI"),
    "sparsefield.induction.higher_order": ("HigherOrder",),
    "sparsefield.inference": ("AutomaticInference", "BeliefPropagation", "ExactInference", "Gibbs", "MeanField"),
    "sparsefield.io": ("Baskets", "read_atoms", "read_baskets", "read_database", "read_schema", "read_triples"),
    "sparsefield.objectives": ("EM",),
    "sparsefield.solver": ("EBIC", "FitCallbacks", "HeldOut", "Solver"),
}
_MODULE_OF_NAME = {name: module for module, names in _NAMES_OF_MODULE.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that ``import sparsefield`` is fast."""
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module 'sparsefield' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_MODULE_OF_NAME[name]), name)
    globals()[name] = value
    return value

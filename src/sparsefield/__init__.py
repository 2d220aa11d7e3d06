"""sparsefield learns the structure of conditional random fields from data.

>>> from sparsefield import MarkovField, CRFClassifier, RelationalField, Relational, load
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparsefield.lazy_imports import lazy_names

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sparsefield.analysis.comparison import GroupComparison, compare
    from sparsefield.analysis.imputations import Imputations
    from sparsefield.analysis.pooling import PooledEstimates, pool
    from sparsefield.app.tables.atoms import read_atoms
    from sparsefield.app.tables.baskets import Baskets, read_baskets
    from sparsefield.app.tables.codebook import Codebook, inspect
    from sparsefield.app.tables.database import read_database
    from sparsefield.app.tables.schema_file import read_schema
    from sparsefield.app.tables.triples import read_triples
    from sparsefield.chain.conll import read_conll
    from sparsefield.chain.crf import ChainCRF
    from sparsefield.data import ForeignKey, OffsetLink, Relational, Template
    from sparsefield.data.calendar_parts import calendar_parts
    from sparsefield.estimators import CRFClassifier, MarkovField, RelationalField, load
    from sparsefield.induction import CFI, FixedGraph, FullL1, Grafting, IdealParent, PaperCFI
    from sparsefield.induction.higher_order import HigherOrder
    from sparsefield.inference import AIS, AutomaticInference, BeliefPropagation, ExactInference, Gibbs, MeanField
    from sparsefield.objectives import EM
    from sparsefield.solver import EBIC, FitCallbacks, HeldOut, Solver

__all__ = [
    "AIS",
    "CFI",
    "EBIC",
    "EM",
    "AutomaticInference",
    "Baskets",
    "BeliefPropagation",
    "CRFClassifier",
    "ChainCRF",
    "Codebook",
    "ExactInference",
    "FitCallbacks",
    "FixedGraph",
    "ForeignKey",
    "FullL1",
    "Gibbs",
    "Grafting",
    "GroupComparison",
    "HeldOut",
    "HigherOrder",
    "IdealParent",
    "Imputations",
    "MarkovField",
    "MeanField",
    "OffsetLink",
    "PaperCFI",
    "PooledEstimates",
    "Relational",
    "RelationalField",
    "Solver",
    "Template",
    "__version__",
    "calendar_parts",
    "compare",
    "inspect",
    "load",
    "pool",
    "read_atoms",
    "read_baskets",
    "read_conll",
    "read_database",
    "read_schema",
    "read_triples",
]

_NAMES_OF_MODULE = {
    "analysis.imputations": ("Imputations",),
    "analysis.pooling": ("PooledEstimates", "pool"),
    "app.tables.codebook": ("Codebook", "inspect"),
    "chain.crf": ("ChainCRF",),
    "data": ("ForeignKey", "OffsetLink", "Relational", "Template"),
    "data.calendar_parts": ("calendar_parts",),
    "estimators": ("CRFClassifier", "MarkovField", "RelationalField", "load"),
    "analysis.comparison": ("GroupComparison", "compare"),
    "induction": ("CFI", "FixedGraph", "FullL1", "Grafting", "IdealParent", "PaperCFI"),
    "induction.higher_order": ("HigherOrder",),
    "inference": ("AIS", "AutomaticInference", "BeliefPropagation", "ExactInference", "Gibbs", "MeanField"),
    "app.tables.atoms": ("read_atoms",),
    "app.tables.baskets": ("Baskets", "read_baskets"),
    "app.tables.database": ("read_database",),
    "app.tables.schema_file": ("read_schema",),
    "app.tables.triples": ("read_triples",),
    "chain.conll": ("read_conll",),
    "objectives": ("EM",),
    "solver": ("EBIC", "FitCallbacks", "HeldOut", "Solver"),
}

__getattr__ = lazy_names("sparsefield", _NAMES_OF_MODULE)

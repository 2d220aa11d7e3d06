"""sparsefield learns the structure of conditional random fields from data.

>>> from sparsefield import MarkovField, CRFClassifier, RelationalField, Relational, load
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from sparsefield.analysis.centrality import centrality, centrality_stability
    from sparsefield.analysis.comparison import GroupComparison, compare
    from sparsefield.analysis.confidence_intervals import confidence_intervals
    from sparsefield.analysis.contacts import contacts, read_alignment, sequence_weights
    from sparsefield.analysis.imputation import Imputations, PooledEstimates, impute, pool
    from sparsefield.analysis.predictability import predictability
    from sparsefield.analysis.stability import regularization_path, stability
    from sparsefield.app.cli.console import show_progress
    from sparsefield.app.pages.figure import plot_network
    from sparsefield.app.pages.findings import findings
    from sparsefield.app.pages.page import write_report
    from sparsefield.app.tables.codebook import Codebook, inspect
    from sparsefield.app.tables.export import to_networkx
    from sparsefield.app.tables.linked import read_database, read_triples
    from sparsefield.app.tables.schema_file import read_schema
    from sparsefield.chain.crf import ChainCRF
    from sparsefield.chain.reading import read_conll
    from sparsefield.data import ForeignKey, OffsetLink, Relational, Template
    from sparsefield.estimators import CRFClassifier, MarkovField, RelationalField, load
    from sparsefield.induction import CFI, FixedGraph, FullL1, Grafting, IdealParent, PaperCFI
    from sparsefield.inference import AIS, AutomaticInference, BeliefPropagation, ExactInference, Gibbs, MeanField
    from sparsefield.objectives import EM
    from sparsefield.solver import EBIC, Features, FitCallbacks, HeldOut, Solver

__all__ = [
    "AIS", "CFI", "EBIC", "EM", "AutomaticInference", "BeliefPropagation", "CRFClassifier", "ChainCRF", "Codebook",
    "ExactInference", "Features", "FitCallbacks", "FixedGraph", "ForeignKey", "FullL1", "Gibbs", "Grafting",
    "GroupComparison", "HeldOut", "IdealParent", "Imputations", "MarkovField", "MeanField", "OffsetLink", "PaperCFI",
    "PooledEstimates", "Relational", "RelationalField", "Solver", "Template", "__version__", "centrality",
    "centrality_stability", "compare", "confidence_intervals", "contacts", "findings",
    "impute", "inspect", "load", "plot_network", "pool", "predictability", "read_alignment", "read_conll",
    "read_database", "read_schema", "read_triples", "regularization_path", "sequence_weights", "show_progress",
    "stability", "to_networkx", "write_report",
]  # fmt: skip

_NAMES_OF_MODULE = {
    "analysis.centrality": "centrality centrality_stability",
    "analysis.comparison": "GroupComparison compare",
    "analysis.confidence_intervals": "confidence_intervals",
    "analysis.contacts": "contacts read_alignment sequence_weights",
    "analysis.imputation": "Imputations PooledEstimates impute pool",
    "analysis.predictability": "predictability",
    "analysis.stability": "regularization_path stability",
    "app.cli.console": "show_progress",
    "app.pages.figure": "plot_network",
    "app.pages.findings": "findings",
    "app.pages.page": "write_report",
    "app.tables.codebook": "Codebook inspect",
    "app.tables.export": "to_networkx",
    "app.tables.linked": "read_database read_triples",
    "app.tables.schema_file": "read_schema",
    "chain.crf": "ChainCRF",
    "chain.reading": "read_conll",
    "data": "ForeignKey OffsetLink Relational Template",
    "estimators": "CRFClassifier MarkovField RelationalField load",
    "induction": "CFI FixedGraph FullL1 Grafting IdealParent PaperCFI",
    "inference": "AIS AutomaticInference BeliefPropagation ExactInference Gibbs MeanField",
    "objectives": "EM",
    "solver": "EBIC Features FitCallbacks HeldOut Solver",
}
_MODULE_OF_NAME = {name: module for module, names in _NAMES_OF_MODULE.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import a public name from its module when it is first used."""
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module 'sparsefield' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"sparsefield.{_MODULE_OF_NAME[name]}"), name)
    return value

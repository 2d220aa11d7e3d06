"""Fields to and from other programs: graphs, GraphML, pgmpy and UAI files.

It stands below the estimators, whose methods call it, so everything here takes and gives a `Field`.
"""

from sparsefield.exchange.evidence import read_evidence, write_evidence
from sparsefield.exchange.expansion import expand
from sparsefield.exchange.factors import Factor, Factors, factors_of
from sparsefield.exchange.graph import to_networkx
from sparsefield.exchange.graphml import write_graphml
from sparsefield.exchange.markov_network import to_pgmpy
from sparsefield.exchange.uai import LOG_ZERO, read_uai, write_uai

__all__ = [
    "LOG_ZERO",
    "Factor",
    "Factors",
    "expand",
    "factors_of",
    "read_evidence",
    "read_uai",
    "to_networkx",
    "to_pgmpy",
    "write_evidence",
    "write_graphml",
    "write_uai",
]

"""Who joins next. A new rule is a file here and a line in the registry."""

from sparsefield.induction.candidates import Scored, all_pairs, merge, select
from sparsefield.induction.cfi import ContrastiveInduction, PrintedInduction
from sparsefield.induction.fixed_graph import GivenGraph
from sparsefield.induction.full import Full
from sparsefield.induction.grafting import Grafting
from sparsefield.induction.higher_order import Proposals, all_lifts, choose_proposals, combine, score_lifts
from sparsefield.induction.ideal_parent import IdealParent
from sparsefield.induction.rule import InductionRule

RULES: dict[str, type[InductionRule]] = {
    rule.name: rule for rule in (ContrastiveInduction, PrintedInduction, Grafting, IdealParent, Full, GivenGraph)
}

__all__ = [
    "RULES",
    "ContrastiveInduction",
    "Full",
    "GivenGraph",
    "Grafting",
    "IdealParent",
    "InductionRule",
    "PrintedInduction",
    "Proposals",
    "Scored",
    "all_lifts",
    "all_pairs",
    "choose_proposals",
    "combine",
    "merge",
    "score_lifts",
    "select",
]

"""Who joins next. A new rule is a file here and a line in the registry."""

from sparsefield.induction.candidates import Scored, all_pairs, merge, select
from sparsefield.induction.cfi import CFI, PaperCFI
from sparsefield.induction.fixed_graph import FixedGraph
from sparsefield.induction.full import Full
from sparsefield.induction.grafting import Grafting
from sparsefield.induction.higher_order import Proposals, all_expandable, choose_proposals, combine, score_expansions
from sparsefield.induction.ideal_parent import IdealParent
from sparsefield.induction.rule import InductionRule

RULES: dict[str, type[InductionRule]] = {
    rule.name: rule for rule in (CFI, PaperCFI, Grafting, IdealParent, Full, FixedGraph)
}

__all__ = [
    "CFI",
    "RULES",
    "FixedGraph",
    "Full",
    "Grafting",
    "IdealParent",
    "InductionRule",
    "PaperCFI",
    "Proposals",
    "Scored",
    "all_expandable",
    "all_pairs",
    "choose_proposals",
    "combine",
    "merge",
    "score_expansions",
    "select",
]

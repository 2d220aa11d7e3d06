"""The rules that choose features to add. A new rule is a file here and a line in `RULES`."""

from sparsefield.induction.dense_scores import Proposals, all_pairs, best_proposals, concatenate_proposals
from sparsefield.induction.fixed_graph import FixedGraph
from sparsefield.induction.higher_order import all_expandable, score_expansions
from sparsefield.induction.rules import CFI, FullL1, Grafting, IdealParent, InductionRule, PaperCFI

RULES: dict[str, type[InductionRule]] = {
    rule.name: rule for rule in (CFI, PaperCFI, Grafting, IdealParent, FullL1, FixedGraph)
}
"""Option objects of induction rules by the strings that abbreviate them."""

__all__ = [
    "CFI", "RULES", "FixedGraph", "FullL1", "Grafting", "IdealParent", "InductionRule", "PaperCFI", "Proposals",
    "all_expandable", "all_pairs", "best_proposals", "concatenate_proposals", "score_expansions",
]  # fmt: skip

"""Induction rules with a fixed kind of matrix product."""

from __future__ import annotations

from sparsefield.induction import CFI


def cfi_with(product: str, threshold: float | tuple[float, float] = 0.0, rule: type[CFI] = CFI) -> CFI:
    """Return the rule with that product, where users get the one with less work."""
    return type(rule.__name__, (rule,), {"product": product})(threshold)

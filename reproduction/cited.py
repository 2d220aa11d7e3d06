"""This module quotes results of others as they report them; nothing in it was measured by this library.

Sources
-------
Lao and Zhu, "Contrastive Feature Induction for Efficient Structure Learning of Conditional Random Fields": Table 1 and
section 4.2. Areas and errors stand there in percent, here as fractions. MSL, IRM and MRC are cited there from its [10]:
Kok and Domingos, "Statistical Predicate Invention", ICML 2007.

Saad and Mansinghka, "Hierarchical Infinite Relational Model", UAI 2021: HIRM, and the plain IRM within it, of the C++
program github.com/probcomp/hierarchical-irm, run apart from this library.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CANDIDATES", "CITED", "CLAIMS", "LAO_ZHU", "Cited", "agrees"]

KOK_DOMINGOS = "Kok, Domingos (2007)"
LAO_ZHU = "the paper"
SAAD_MANSINGHKA = "probcomp/hierarchical-irm"


@dataclass(frozen=True)
class Cited:
    """A cited result is a line of a published table; None where nothing is reported.

    Attributes
    ----------
    data, method, source : str
    ap, cll, error_rate, ap_positive : (mean, standard deviation), either None
        The measures of `sparsefield.analysis.metrics.Scores`.
    time : str
        In the unit of the source.
    """

    data: str
    method: str
    source: str
    ap: tuple[float, float | None] | None = None
    cll: tuple[float, float | None] | None = None
    error_rate: tuple[float, float | None] | None = None
    ap_positive: tuple[float, float | None] | None = None
    time: str = ""


CITED = (
    Cited("animals", "MSL", KOK_DOMINGOS, (0.68, 0.04), (-0.54, 0.04), time="< 24 h"),
    Cited("animals", "IRM", KOK_DOMINGOS, (0.79, 0.08), (-0.43, 0.06), time="10 h"),
    Cited("animals", "MRC", KOK_DOMINGOS, (0.80, 0.04), (-0.43, 0.04), time="10 h"),
    Cited("animals", "Full-L1", LAO_ZHU, (0.928, 0.01), (-0.337, 0.02), (0.143, 0.01), time="0.17 min"),
    Cited("animals", "Grafting", LAO_ZHU, (0.916, 0.01), (-0.361, 0.03), (0.149, 0.01), time="0.19 min"),
    Cited("animals", "CFI", LAO_ZHU, (0.921, 0.01), (-0.355, 0.04), (0.149, 0.01), time="0.16 min"),
    Cited("animals", "HIRM", SAAD_MANSINGHKA, cll=(-0.406, None), ap_positive=(0.83, None), time="5 s"),
    Cited("animals", "IRM (C++)", SAAD_MANSINGHKA, cll=(-0.42, None), ap_positive=(0.80, None)),
    Cited("nations", "MSL", KOK_DOMINGOS, (0.77, 0.04), (-0.33, 0.04), time="24 h"),
    Cited("nations", "IRM", KOK_DOMINGOS, (0.75, 0.03), (-0.32, 0.02), time="10 h"),
    Cited("nations", "MRC", KOK_DOMINGOS, (0.75, 0.03), (-0.31, 0.02), time="10 h"),
    Cited("nations", "Full-L1", LAO_ZHU, (0.888, 0.01), (-0.41, 0.02), (0.160, 0.01), time="6.5 min"),
    Cited("nations", "Grafting", LAO_ZHU, (0.902, 0.01), (-0.37, 0.04), (0.117, 0.02), time="4.2 min"),
    Cited("nations", "CFI", LAO_ZHU, (0.936, 0.01), (-0.30, 0.02), (0.112, 0.01), time="0.54 min"),
    Cited("nations", "HIRM", SAAD_MANSINGHKA, cll=(-0.274, None), ap_positive=(0.826, None), time="43 s"),
    Cited("nations", "IRM (C++)", SAAD_MANSINGHKA, cll=(-0.34, None), ap_positive=(0.74, None)),
)

CANDIDATES = {"animals": 3655, "nations": 20244}
"""Candidate features, biases ones included, that the paper counts."""

_NO_BENEFIT = {"ap": "no benefit", "cll": "no benefit", "error_rate": "no benefit"}
_BETTER = {"ap": "better", "cll": "better", "error_rate": "better"}
CLAIMS = {
    ("animals", "CFI", "Grafting"): {},
    ("animals", "CFI", "Full-L1"): _NO_BENEFIT,
    ("animals", "Grafting", "Full-L1"): _NO_BENEFIT,
    ("nations", "CFI", "Grafting"): {**_BETTER, "error_rate": "no difference"},
    ("nations", "CFI", "Full-L1"): _BETTER,
    ("nations", "Grafting", "Full-L1"): _BETTER,
}
"""What section 4.2 says of a method beside another, per measure.

Animal: "selectively adding features (Grafting and CFI) does not benefit learning speed or prediction accuracy". Nation:
"For CLL and AUC, CFI performs significantly better than Grafting, which is significantly better than Full-L1. For error
rate, CFI and Grafting are not significantly different, but both are significantly better than Full-L1."
"""


def agrees(claim: str, verdict: str) -> bool:
    """Return whether a verdict (better, worse, no difference) is what was claimed.

    Examples
    --------
    >>> agrees("no benefit", "worse"), agrees("better", "no difference")
    (True, False)
    """
    return verdict != "better" if claim == "no benefit" else verdict == claim

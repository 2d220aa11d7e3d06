"""This module writes the findings of `judge` as plain records and as a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.csv_text import as_csv
from reproduction.claims import Finding, verdict_of
from sparsefield.atomic_write import write_atomically

__all__ = ["as_records", "write_claims"]


def as_records(found: Mapping[float, Sequence[Finding]]) -> list[dict[str, Any]]:
    """Return a flat record for each comparison.

    Parameters
    ----------
    found : {tolerance: findings}
        The tolerance is that of fits as printed, and 0 for fits to convergence.

    Returns
    -------
    list of dict
        ``claim_verdict`` belongs to the whole claim with its objective.
    """
    return [record for tolerance, findings in found.items() for record in _records(tolerance, findings)]


def _records(tolerance: float, found: Sequence[Finding]) -> list[dict[str, Any]]:
    whole = {
        (claim, objective): verdict_of([f for f in found if (f.claim, f.objective) == (claim, objective)])
        for claim, objective in {(f.claim, f.objective) for f in found}
    }
    printed = {"tolerance": tolerance} if tolerance else {}
    return [
        printed
        | {
            "claim": finding.claim,
            "compared": finding.part.words,
            "measure": finding.part.measure,
            "scale": finding.part.scale,
            "said": finding.part.relation,
            "objective": finding.objective,
            "difference": finding.interval.mean,
            "low": finding.interval.low,
            "high": finding.interval.high,
            "values": finding.count,
            "verdict": finding.verdict,
            "claim_verdict": whole[finding.claim, finding.objective],
        }
        for finding in found
    ]


def write_claims(found: Mapping[float, Sequence[Finding]], folder: Path, name: str = "claims.csv") -> Path:
    """Write `as_records` as CSV, atomically; differences of times and counts are differences of logarithms."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / name, as_csv(as_records(found)).encode("utf-8"))
    return folder / name

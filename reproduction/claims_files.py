"""This module writes the findings of `judge` as plain records and as a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.csv_text import as_csv
from reproduction.claims import Finding, verdict_of
from sparsefield.io.atomic_write import write_atomically

__all__ = ["as_records", "write_claims"]


def as_records(found: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return a flat record for each comparison; ``claim_verdict`` belongs to the whole claim with its objective."""
    whole = {
        (claim, objective): verdict_of([f for f in found if (f.claim, f.objective) == (claim, objective)])
        for claim, objective in {(f.claim, f.objective) for f in found}
    }
    return [
        {
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


def write_claims(found: Sequence[Finding], folder: Path) -> Path:
    """Write claims.csv atomically; differences of times and counts are differences of logarithms."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "claims.csv", as_csv(as_records(found)).encode("utf-8"))
    return folder / "claims.csv"

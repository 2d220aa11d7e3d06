"""This module counts the cases of each campaign in a file, so that the next run continues where this one ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fuzz.recipes import Verdict


@dataclass
class Tally:
    """The cases of a campaign with one variant of the child process."""

    next_number: int = 0
    fine: int = 0
    refused: int = 0
    failed: list[int] = field(default_factory=list)
    """Numbers of the cases that failed."""

    @property
    def cases(self) -> int:
        return self.fine + self.refused + len(self.failed)

    def add(self, number: int, verdict: Verdict) -> None:
        """Count a case."""
        self.next_number = number + 1
        if verdict == "failure":
            self.failed.append(number)
        elif verdict == "refused":
            self.refused += 1
        else:
            self.fine += 1


def read_tallies(path: Path, seed: int) -> dict[str, Tally]:
    """Return {"campaign/variant": tally} of a seed."""
    if not path.is_file():
        return {}
    found = json.loads(path.read_text(encoding="utf-8")).get(str(seed), {})
    return {name: Tally(**values) for name, values in found.items()}


def write_tallies(path: Path, seed: int, tallies: Mapping[str, Tally]) -> None:
    """Replace the tallies of a seed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    found[str(seed)] = {name: asdict(tally) for name, tally in tallies.items()}
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(found, indent=1), encoding="utf-8")
    partial.replace(path)


def markdown_table(tallies: Mapping[str, Tally]) -> str:
    """Return a row per campaign and variant, and one of all."""
    lines = ["| campaign | variant | cases | fine | refused | failures |", "| --- | --- | --- | --- | --- | --- |"]
    for name, tally in sorted(tallies.items()):
        campaign, _, variant = name.partition("/")
        lines.append(_row(campaign, variant, [tally]))
    return "\n".join([*lines, _row("all", "", list(tallies.values()))])


def _row(campaign: str, variant: str, tallies: list[Tally]) -> str:
    counts = [(tally.cases, tally.fine, tally.refused, len(tally.failed)) for tally in tallies]
    sums = [sum(column) for column in zip(*counts, strict=True)] if counts else [0] * 4
    return f"| {campaign} | {variant} | " + " | ".join(f"{count:,}" for count in sums) + " |"

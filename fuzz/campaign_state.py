"""This module counts the cases of each campaign in a file, so that the next run continues where this one ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fuzz.recipes import Verdict
from sparsefield.errors import DataError

STATE_NAME = "state.json"
"""Name of the file with the counts of all seeds, in the folder of a run."""


@dataclass
class Tally:
    """The cases of a campaign with one variant of the child process."""

    next_number: int = 0
    """The smallest number that was never taken."""
    unfinished: list[int] = field(default_factory=list)
    """Numbers that were taken and have no verdict yet."""
    fine: int = 0
    refused: int = 0
    not_built: int = 0
    """Cases that another library refused to build, or that need one that is missing."""
    failed: list[int] = field(default_factory=list)
    """Numbers of the cases that failed."""

    @property
    def cases(self) -> int:
        return self.fine + self.refused + len(self.failed)

    def take_new(self, count: int) -> list[int]:
        """Return numbers of new cases, which are unfinished from now on."""
        numbers = list(range(self.next_number, self.next_number + count))
        self.next_number += count
        self.unfinished += numbers
        return numbers

    def add(self, number: int, verdict: Verdict) -> None:
        """Count an unfinished case."""
        self.unfinished.remove(number)
        if verdict == "failure":
            self.failed.append(number)
        elif verdict == "refused":
            self.refused += 1
        elif verdict == "not built":
            self.not_built += 1
        else:
            self.fine += 1


Tallies = dict[str, Tally]
"""A tally for each "campaign/variant"."""


def read_states(folder: Path) -> dict[int, Tallies]:
    """Return the tallies of each seed in the folder of a run."""
    path = folder / STATE_NAME
    if not path.is_file():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    return {int(seed): {name: Tally(**values) for name, values in tallies.items()} for seed, tallies in found.items()}


def write_tallies(folder: Path, seed: int, tallies: Mapping[str, Tally]) -> None:
    """Replace the tallies of a seed."""
    folder.mkdir(parents=True, exist_ok=True)
    states = {**read_states(folder), seed: tallies}
    content = {one: {name: asdict(tally) for name, tally in found.items()} for one, found in states.items()}
    partial = folder / f"{STATE_NAME}.partial"
    partial.write_text(json.dumps(content, indent=1), encoding="utf-8")
    partial.replace(folder / STATE_NAME)


def merge_folders(folders: Sequence[Path], seed: int | None = None) -> list[Tallies]:
    """Return the tallies of each seed, or of one, in folders of several runs, whose seeds must differ."""
    found: dict[int, tuple[Path, Tallies]] = {}
    for folder in folders:
        for one, tallies in read_states(folder).items():
            if one in found:
                raise DataError(
                    f"{found[one][0]} and {folder} both have cases of seed {one}, which are the same cases: "
                    "leave one of them out, and run each part of a campaign with its own seed."
                )
            found[one] = (folder, tallies)
    return [tallies for one, (_, tallies) in found.items() if seed in (None, one)]


def markdown_table(states: Sequence[Mapping[str, Tally]]) -> str:
    """Return a row per campaign and variant, summed over seeds, and one of all."""
    lines = [
        "| campaign | variant | cases | fine | refused | failures | not built |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in sorted({name for tallies in states for name in tallies}):
        campaign, _, variant = name.partition("/")
        lines.append(_row(campaign, variant, [tallies[name] for tallies in states if name in tallies]))
    return "\n".join([*lines, _row("all", "", [tally for tallies in states for tally in tallies.values()])])


def _row(campaign: str, variant: str, tallies: list[Tally]) -> str:
    counts = [(one.cases, one.fine, one.refused, len(one.failed), one.not_built) for one in tallies]
    sums = [sum(column) for column in zip(*counts, strict=True)] if counts else [0] * 5
    return f"| {campaign} | {variant} | " + " | ".join(f"{count:,}" for count in sums) + " |"

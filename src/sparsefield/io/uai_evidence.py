"""Evidence files of the UAI format: which states some variables are known to have."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from sparsefield.data.schema import Label
from sparsefield.errors import DataError
from sparsefield.io.atomic_write import write_atomically
from sparsefield.io.uai_tokens import TokenReader

__all__ = ["read_evidence", "write_evidence"]

Names = Mapping[str, Sequence[Label]]
Named = list[tuple[str, Sequence[Label]]]


def read_evidence(path: str | os.PathLike[str], *, names: Names | None = None) -> list[dict[str, Label]]:
    """What an evidence file knows: for each sample, the states of some columns.

    A sample is the number of variables that are known, and then each of them with its state. Files of 2010 and earlier
    begin with the number of samples, later ones have one sample and no such number. Both are read; where numbers could
    be either, lines decide.

    Parameters
    ----------
    path : of the file
    names : {column: states}
        What `write_uai` returned, or ``states_`` of a field. None calls columns x0, x1, ... and states 0, 1, ..., and
        cannot tell whether the network has them.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_evidence([{"wet": "yes"}, {}], folder + "/e", names={"cold": [0, 1], "wet": ["no", "yes"]})
    ...     read_evidence(folder + "/e")
    [{'x1': 1}, {}]
    """
    words = TokenReader(path)
    known = None if names is None else list(names.items())
    samples = []
    for numbers in _samples(words):
        sample: dict[str, Label] = {}
        for variable, state in zip(numbers[::2], numbers[1::2], strict=True):
            name, label = _named(words, known, variable, state)
            if sample.setdefault(name, label) != label:
                raise words.wrong(f"variable {variable} has two different states in one sample")
        samples.append(sample)
    return samples


def write_evidence(samples: Sequence[Mapping[str, Label]], path: str | os.PathLike[str], *, names: Names) -> None:
    """Write an evidence file: one sample as solvers since 2014 read it, several with their number before them.

    Parameters
    ----------
    samples : one or more of {column: state}
    path : of the file
    names : {column: states}
        What `write_uai` returned, or ``states_`` of a field.
    """
    if isinstance(samples, Mapping) or not len(samples):
        raise DataError("samples must be a list of one or more {column: state}.")
    places = {name: (k, {state: s for s, state in enumerate(states)}) for k, (name, states) in enumerate(names.items())}
    lines = [] if len(samples) == 1 else [str(len(samples))]
    for sample in samples:
        numbers = [len(sample)]
        for name, state in sample.items():
            if name not in places or state not in places[name][1]:
                raise DataError(f"The network has no column {name!r} with a state {state!r}.")
            numbers += [places[name][0], places[name][1][state]]
        lines.append(" ".join(map(str, numbers)))
    write_atomically(path, ("\n".join(lines) + "\n").encode("ascii"))


def _samples(words: TokenReader) -> list[list[int]]:
    """Variables and states of each sample, by turns."""
    lines = [line for line in words.lines if line]
    numbers = words.wholes(words.left, "evidence")
    if not numbers:
        raise words.wrong("the file is empty; evidence about nothing is the number 0")
    if lines[0] == [str(len(lines) - 1)] and all(len(line) == 1 + 2 * int(line[0]) for line in lines[1:]):
        return [[int(word) for word in line[1:]] for line in lines[1:]] or [[]]
    if len(numbers) == 1 + 2 * numbers[0]:
        return [numbers[1:]]
    samples, place = [], 1
    while place < len(numbers) and len(samples) < numbers[0]:
        end = place + 1 + 2 * numbers[place]
        samples.append(numbers[place + 1 : end])
        place = end
    if place != len(numbers) or len(samples) != numbers[0]:
        raise words.wrong(
            f"{len(numbers):,} numbers are neither one sample nor {numbers[0]:,} of them: a sample is a number of "
            "variables, and then each variable with its state"
        )
    return samples


def _named(words: TokenReader, known: Named | None, variable: int, state: int) -> tuple[str, Label]:
    if known is None:
        return f"x{variable}", state
    if variable >= len(known):
        raise words.wrong(f"evidence about variable {variable}; there are {len(known)}, counted from 0")
    name, states = known[variable]
    if state >= len(states):
        raise words.wrong(f"state {state} of variable {variable} ({name}), which has {len(states)}, counted from 0")
    return name, states[state]

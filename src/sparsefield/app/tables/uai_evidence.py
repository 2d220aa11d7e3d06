"""This module reads and writes UAI evidence files, which give the states of some variables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from sparsefield.app.tables.uai import TokenReader
from sparsefield.data.schema import Label
from sparsefield.errors import DataError
from sparsefield.model.atomic_write import write_atomically

Names = Mapping[str, Sequence[Label]]


def read_evidence(path: str | os.PathLike[str], *, names: Names | None = None) -> list[dict[str, Label]]:
    """Read an evidence file: for each sample, the states of some columns.

    A sample is the number of observed variables, followed by each variable and its state. Files of 2010 and earlier
    begin with the number of samples; later files have one sample and no such number. Both are read; line breaks resolve
    ambiguous files.

    Parameters
    ----------
    path : path of the file
    names : {column: states}
        The result of `write_uai`, or ``states_`` of a field. With None, columns are x0, x1, ..., states are 0, 1, ...,
        and their existence is not checked.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_evidence([{"wet": "yes"}, {}], folder + "/e", names={"cold": [0, 1], "wet": ["no", "yes"]})
    ...     read_evidence(folder + "/e")
    [{'x1': 1}, {}]
    """
    tokens = TokenReader(path)
    known = None if names is None else list(names.items())
    samples = []
    for numbers in _samples(tokens):
        sample: dict[str, Label] = {}
        for variable, state in zip(numbers[::2], numbers[1::2], strict=True):
            name, label = _named(tokens, known, variable, state)
            if sample.setdefault(name, label) != label:
                raise tokens.error(f"variable {variable} has two states in one sample")
        samples.append(sample)
    return samples


def write_evidence(samples: Sequence[Mapping[str, Label]], path: str | os.PathLike[str], *, names: Names) -> None:
    """Write an evidence file: one sample in the format since 2014, or several preceded by their number.

    Parameters
    ----------
    samples : one or more of {column: state}
    path : path of the file
    names : {column: states}
        The result of `write_uai`, or ``states_`` of a field.
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


def _samples(tokens: TokenReader) -> list[list[int]]:
    """Return the alternating variables and states of each sample."""
    lines = [line for line in tokens.lines if line]
    numbers = tokens.integers(tokens.remaining, "evidence")
    if not numbers:
        raise tokens.error("the file is empty; a sample without evidence is the number 0")
    if lines[0] == [str(len(lines) - 1)] and all(len(line) == 1 + 2 * int(line[0]) for line in lines[1:]):
        return [[int(word) for word in line[1:]] for line in lines[1:]] or [[]]
    if len(numbers) == 1 + 2 * numbers[0]:
        return [numbers[1:]]
    samples, position = [], 1
    while position < len(numbers) and len(samples) < numbers[0]:
        end = position + 1 + 2 * numbers[position]
        samples.append(numbers[position + 1 : end])
        position = end
    if position != len(numbers) or len(samples) != numbers[0]:
        raise tokens.error(
            f"{len(numbers):,} numbers are neither one sample nor {numbers[0]:,} samples: a sample is a number of "
            "variables, followed by each variable and its state"
        )
    return samples


def _named(
    tokens: TokenReader, known: list[tuple[str, Sequence[Label]]] | None, variable: int, state: int
) -> tuple[str, Label]:
    if known is None:
        return f"x{variable}", state
    if variable >= len(known):
        raise tokens.error(f"evidence for variable {variable}, but there are {len(known)}, counted from 0")
    name, states = known[variable]
    if state >= len(states):
        raise tokens.error(f"state {state} of variable {variable} ({name}), which has {len(states)}, counted from 0")
    return name, states[state]

"""Sequences of a protein with known contacts, drawn from a Potts model."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsefield import MarkovField
from sparsefield.app.datasets import SyntheticField
from sparsefield.data import Layout, Schema
from sparsefield.model import Field

__all__ = ["make_potts"]

Array = np.ndarray[Any, np.dtype[Any]]


def make_potts(
    positions: int = 75,
    rows: int = 3000,
    *,
    contacts: float = 1.5,
    strength: float = 0.4,
    sweeps: int = 50,
    seed: int = 0,
) -> SyntheticField:
    """Make sequences of a protein with known contacts: a field over positions of 21 states, and rows drawn from it.

    The positions lie on a folded chain in space, and those that are close there, but not along the chain, are in
    contact: their 20 residues are coupled at random. Some residues are frequent at a position, gaps are rare.

    Parameters
    ----------
    positions, rows : int
        Columns x0, x1, ... of letters and "-", and sequences.
    contacts : float
        Number of contacts for each position.
    strength : float
        Standard deviation of the couplings.
    sweeps : int
        Gibbs sweeps of each sequence.
    seed : int
        The same seed gives the same field and the same rows.

    Examples
    --------
    >>> made = make_potts(30, 5, sweeps=5)
    >>> made.samples.shape, len(made.edges)
    ((5, 30), 45)
    """
    rng, width = np.random.default_rng(seed), 20
    # The places of a chain that bends at random, and is pulled back to its middle, so that it folds.
    places, direction = np.zeros((positions, 3)), rng.normal(size=3)
    for k in range(1, positions):
        direction = 0.6 * direction + rng.normal(size=3) - 0.3 * places[k - 1] / positions ** (1 / 3)
        places[k] = places[k - 1] + direction / np.linalg.norm(direction)
    first, second = np.triu_indices(positions, 5)
    distances = np.linalg.norm(places[first] - places[second], axis=1)
    nearest = np.sort(np.argsort(distances, kind="stable")[: round(contacts * positions)])
    ends = np.column_stack([first, second])[nearest].tolist()
    couplings = rng.normal(scale=strength, size=(len(ends), width, width))
    biases = rng.normal(2.0, 1.0, size=(positions, width))
    of_states = [(np.pad(biases[k], (1, 0)), list[tuple[int, Array]]()) for k in range(positions)]
    for (a, b), coupling in zip(ends, np.pad(couplings, ((0, 0), (1, 0), (1, 0))), strict=True):
        of_states[a][1].append((b, coupling.T))
        of_states[b][1].append((a, coupling))
    codes = rng.integers(0, width + 1, (positions, rows))
    for k in [k for _ in range(sweeps) for k in range(positions)]:
        bias, neighbors = of_states[k]
        logits = sum((coupling[codes[b]] for b, coupling in neighbors), np.broadcast_to(bias, (rows, width + 1)))
        shares = np.cumsum(np.exp(logits), axis=1)
        codes[k] = (shares < rng.random((rows, 1)) * shares[:, -1:]).sum(axis=1)
    letters = np.array(list("-ACDEFGHIKLMNPQRSTVWY"))
    schema = Schema.uniform({f"x{k}": letters.tolist() for k in range(positions)})
    states = np.indices((width, width)).reshape(2, -1).T
    pairs = (width * np.array(ends, dtype=np.int64).reshape(-1, 1, 2) + states).reshape(-1, 2)
    field = MarkovField.from_field(Field(Layout.single(schema), biases.ravel(), pairs, couplings.ravel()))
    return SyntheticField(field, letters[codes.T], [(f"x{a}", f"x{b}") for a, b in ends])

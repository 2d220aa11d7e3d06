"""Interface of inference methods, their application to blocks of rows, and mean field (Eq. 2-4)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Block, Dataset, update_neighbor_sums
from sparsefield.inference.missing_problem import MissingProblem, compile_problem, independent_groups, one_hot_states
from sparsefield.kernels.missing_cells import mean_field
from sparsefield.model import Adjacency, Field
from sparsefield.options import OptionObject


class InferenceMethod(OptionObject, ABC):
    """A method that estimates the marginals of missing cells given the observed ones."""

    name: ClassVar[str]
    advice: ClassVar[str] = "Raise the caps of the inference method"
    """Advice for the warning about rows that did not converge, without a full stop."""

    def __post_init__(self) -> None:
        self.check()

    @abstractmethod
    def fill(self, problem: MissingProblem, theta: np.ndarray) -> FillResult:
        """Update the missing cells of a problem.

        Their ``probabilities`` are set, and ``beliefs`` to the columns that they imply.
        """


class FillResult(NamedTuple):
    """The outcome of inference for the missing cells of one problem."""

    unconverged: int
    """Number of entities whose inference did not converge."""
    methods: frozenset[str]
    """Names of the methods that computed the marginals: "exact", "bp", "gibbs", "mean-field"."""


class Marginals(NamedTuple):
    """The probabilities of target cells given the observed ones."""

    values: Sequence[np.ndarray]
    """(states, rows) of each block, or of each table: marginals of missing cells, 1 for observed states."""
    unconverged: int
    """Number of rows whose inference did not converge."""
    methods: frozenset[str]
    """As in `FillResult`; empty where no cell is missing."""


def fill_blocks(
    dataset: Dataset,
    blocks: Sequence[Sequence[Block]],
    inference: InferenceMethod,
    graphs: Sequence[Adjacency],
    theta: np.ndarray,
    engine: Engine,
) -> Marginals:
    """Update the beliefs of all missing cells in ``blocks`` (table by table), and return their probabilities in order.

    Neighbor sums are not updated: see `update_neighbor_sums`.
    """

    def fill_group(members: Sequence[tuple[int, Block]]) -> Marginals:
        compiled = compile_problem(dataset, graphs, members, theta)
        result = inference.fill(compiled.problem, theta)
        compiled.write_beliefs()
        return Marginals(compiled.state_probabilities(), result.unconverged, result.methods)

    groups = independent_groups(dataset, blocks)
    parts = engine.map(fill_group, groups)
    of_block = {
        (t, block.start): probabilities
        for members, filled in zip(groups, parts, strict=True)
        for (t, block), probabilities in zip(members, filled.values, strict=True)
    }
    for t, part in enumerate(blocks):
        for block in part:  # blocks without missing cells
            of_block.setdefault((t, block.start), one_hot_states(dataset.layout.schemas[t].coding, block.codes))
    methods = frozenset().union(*(filled.methods for filled in parts))
    ordered = [of_block[t, block.start] for t, part in enumerate(blocks) for block in part]
    return Marginals(ordered, sum(filled.unconverged for filled in parts), methods)


PATH_TOLERANCE = 1e-3
"""Largest change of a belief at which numbers of paths are those expected, and tolerance of mean field before."""

MAX_ROUNDS = 10
"""How often numbers of paths follow the beliefs of missing cells, at most."""


def settle_paths(field: Field, dataset: Dataset, engine: Engine) -> Dataset:
    """Return linked tables whose numbers of paths and sums along links are expected ones, by mean field.

    Inference of any kind then takes these numbers as known.
    """
    if not (dataset.has_expected_sums and dataset.has_missing):
        return dataset
    blocks = [tuple(b._replace(beliefs=b.beliefs.copy()) for b in table.blocks) for table in dataset.tables]
    dataset = replace(dataset, tables=tuple(replace(t, blocks=b) for t, b in zip(dataset.tables, blocks, strict=True)))
    method = MeanField(tolerance=PATH_TOLERANCE)
    for _ in range(MAX_ROUNDS):
        before = [block.beliefs[: block.n_target_columns].copy() for part in blocks for block in part]
        fill_blocks(dataset, blocks, method, field.graphs, field.theta, engine)
        update_neighbor_sums(dataset, blocks, engine.map)
        after = (block.beliefs[: block.n_target_columns] for part in blocks for block in part)
        if max(np.abs(a - b).max(initial=0.0) for a, b in zip(after, before, strict=True)) <= PATH_TOLERANCE:
            break
    return dataset


@dataclass(frozen=True)
class MeanField(InferenceMethod):
    """Mean field: the closest fully factorized distribution, by updates of one cell after another.

    Each update lowers the free energy, so that the updates converge.

    Parameters
    ----------
    tolerance : float
        A row has converged when no belief changes by more in one sweep; linked rows converge together.
    max_sweeps : int
        Maximum number of sweeps.
    """

    tolerance: float = 1e-6
    max_sweeps: int = 500
    name = "mean-field"
    advice = "Raise max_sweeps: inference=MeanField(max_sweeps=...)"

    def fill(self, problem: MissingProblem, theta: np.ndarray) -> FillResult:
        unconverged = mean_field(problem, theta, self.tolerance, self.max_sweeps)
        return FillResult(int(unconverged), frozenset({self.name}))

"""This module defines the interface of inference methods, and applies them to blocks of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Block, Dataset
from sparsefield.inference.missing_problem import (
    MissingProblem,
    compile_problem,
    independent_groups,
    one_hot_states,
)
from sparsefield.model import Adjacency
from sparsefield.options import OptionObject


class InferenceMethod(OptionObject, ABC):
    """An inference method estimates the marginals of missing cells given the observed ones."""

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


class Filled(NamedTuple):
    """The probabilities of the target cells of some blocks, after inference."""

    unconverged: int
    """Number of rows whose inference did not converge."""
    probabilities: list[np.ndarray]
    """(states, rows) of each block: marginals of missing cells, 1 for observed states."""
    methods: frozenset[str]
    """As in `FillResult`; empty where no cell is missing."""


def fill_blocks(
    sample: Dataset,
    blocks: Sequence[Sequence[Block]],
    inference: InferenceMethod,
    graphs: Sequence[Adjacency],
    theta: np.ndarray,
    engine: Engine,
) -> Filled:
    """Update the beliefs of all missing cells in ``blocks`` (table by table), and return their probabilities in order.

    Neighbor sums are not updated: see `update_neighbor_sums`.
    """
    groups = independent_groups(sample, blocks)
    found = engine.map(lambda members: fill_group(sample, members, inference, graphs, theta), groups)
    of_block = {
        (t, block.start): part
        for members, filled in zip(groups, found, strict=True)
        for (t, block), part in zip(members, filled.probabilities, strict=True)
    }
    probabilities = [
        of_block[t, block.start]
        if (t, block.start) in of_block
        else one_hot_states(sample.layout.schemas[t].coding, block.codes)
        for t, part in enumerate(blocks)
        for block in part
    ]
    methods = frozenset().union(*(filled.methods for filled in found))
    return Filled(sum(filled.unconverged for filled in found), probabilities, methods)


def fill_group(
    sample: Dataset,
    members: Sequence[tuple[int, Block]],
    inference: InferenceMethod,
    graphs: Sequence[Adjacency],
    theta: np.ndarray,
) -> Filled:
    """Update the beliefs of the missing cells of one independent group, and return their probabilities."""
    compiled = compile_problem(sample, graphs, members)
    result = inference.fill(compiled.problem, theta)
    compiled.write_beliefs()
    return Filled(result.unconverged, compiled.state_probabilities(), result.methods)

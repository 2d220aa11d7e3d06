"""This module defines the interface of inference methods, and applies them to blocks of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Block, DenseDataset
from sparsefield.inference.missing_problem import MissingProblem, compile_problem, independent_groups
from sparsefield.model import Adjacency


class InferenceMethod(ABC):
    """An inference method estimates the marginals of missing cells given the observed ones."""

    name: ClassVar[str]
    advice: ClassVar[str] = "Raise the caps of the inference method"
    """Advice for the warning about rows that did not converge, without a full stop."""

    @abstractmethod
    def fill(self, problem: MissingProblem, theta: np.ndarray) -> int:
        """Update ``problem.beliefs`` in its missing cells and return the number of entities that did not converge."""


def fill_blocks(
    sample: DenseDataset,
    blocks: Sequence[Sequence[Block]],
    inference: InferenceMethod,
    graphs: Sequence[Adjacency],
    theta: np.ndarray,
    engine: Engine,
) -> int:
    """Update the beliefs of all missing cells in ``blocks`` (table by table); return how many rows did not converge.

    Neighbor sums are not updated: see `update_neighbor_sums`.
    """
    groups = independent_groups(sample, blocks)
    return sum(engine.map(lambda members: fill_group(sample, members, inference, graphs, theta), groups))


def fill_group(
    sample: DenseDataset,
    members: Sequence[tuple[int, Block]],
    inference: InferenceMethod,
    graphs: Sequence[Adjacency],
    theta: np.ndarray,
) -> int:
    """Update the beliefs of the missing cells of one independent group; return how many rows did not converge."""
    compiled = compile_problem(sample, graphs, members)
    unconverged = inference.fill(compiled.problem, theta)
    compiled.write_back()
    return unconverged

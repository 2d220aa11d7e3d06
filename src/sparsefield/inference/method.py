"""Interface of inference methods, their application to blocks of rows, and mean field (Eq. 2-4)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import xlogy

from sparsefield.compute import Engine
from sparsefield.data import Block, Coding, Dataset
from sparsefield.inference.missing_problem import MissingProblem, compile_problem, independent_groups, one_hot_states
from sparsefield.kernels.missing_cells import mean_field
from sparsefield.model import Adjacency
from sparsefield.model.field import LatentSplit
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


class Filled(NamedTuple):
    """The probabilities of the target cells of some blocks, after inference."""

    unconverged: int
    """Number of rows whose inference did not converge."""
    probabilities: list[np.ndarray]
    """(states, rows) of each block: marginals of missing cells, 1 for observed states."""
    methods: frozenset[str]
    """As in `FillResult`; empty where no cell is missing."""


def fill_blocks(
    dataset: Dataset,
    blocks: Sequence[Sequence[Block]],
    inference: InferenceMethod,
    graphs: Sequence[Adjacency],
    theta: np.ndarray,
    engine: Engine,
) -> Filled:
    """Update the beliefs of all missing cells in ``blocks`` (table by table), and return their probabilities in order.

    Neighbor sums are not updated: see `update_neighbor_sums`.
    """
    groups = independent_groups(dataset, blocks)
    parts = engine.map(lambda members: fill_group(dataset, members, inference, graphs, theta), groups)
    of_block = {
        (t, block.start): probabilities
        for members, filled in zip(groups, parts, strict=True)
        for (t, block), probabilities in zip(members, filled.probabilities, strict=True)
    }
    for t, part in enumerate(blocks):
        for block in part:  # blocks without missing cells
            of_block.setdefault((t, block.start), one_hot_states(dataset.layout.schemas[t].coding, block.codes))
    methods = frozenset().union(*(filled.methods for filled in parts))
    ordered = [of_block[t, block.start] for t, part in enumerate(blocks) for block in part]
    return Filled(sum(filled.unconverged for filled in parts), ordered, methods)


def fill_group(
    dataset: Dataset,
    members: Sequence[tuple[int, Block]],
    inference: InferenceMethod,
    graphs: Sequence[Adjacency],
    theta: np.ndarray,
) -> Filled:
    """Update the beliefs of the missing cells of one independent group, and return their probabilities."""
    compiled = compile_problem(dataset, graphs, members)
    result = inference.fill(compiled.problem, theta)
    compiled.write_beliefs()
    return Filled(result.unconverged, compiled.state_probabilities(), result.methods)


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


def impute_for_each_latent_state(
    dataset: Dataset,
    blocks: Sequence[Block],
    parts: LatentSplit,
    inference: InferenceMethod,
    theta: np.ndarray,
    engine: Engine,
) -> Filled:
    """Infer missing cells for each joint state of the latent variables, and mix the results.

    One mean-field solution would be far too confident about cells that agree within each latent state and differ
    between them. The weight of a joint state is its free energy, which is exact where columns depend on each other only
    through latent variables.
    """
    first, n_columns = parts.first, blocks[0].n_own_columns
    shift, level = parts.joint_state_logits(theta, n_columns)
    last, coding = blocks[0].n_target_columns, parts.visible.coding
    to_targets, to_covariates = _weight_matrices(parts, theta, last, n_columns - last)
    n_visible = int(np.searchsorted(parts.visible.target_offsets, first))
    visible = int(coding.state_offsets[n_visible])
    filled, found, energies, unconverged, methods = [], [], [], 0, frozenset[str]()
    for k in range(len(level)):
        shifted = theta.copy()
        shifted[:first] += shift[:first, k]
        copies = [block._replace(beliefs=block.beliefs.copy()) for block in blocks]
        inferred = fill_blocks(dataset, [copies], inference, (parts.visible,), shifted, engine)
        unconverged, methods = max(unconverged, inferred.unconverged), methods | inferred.methods
        filled.append([block.beliefs[:first] for block in copies])
        found.append([states[:visible] for states in inferred.probabilities])
        by_block = []
        for block, states in zip(copies, found[-1], strict=True):
            q, covariates = block.beliefs[:first], block.beliefs[last:n_columns]
            fields = shifted[:first, None] + 0.5 * (to_targets @ q) + to_covariates @ covariates
            energy = level[k] + shift[last:, k] @ covariates + (q * fields).sum(axis=0)
            by_block.append(energy + coding.log_base[:visible] @ states - xlogy(states, states).sum(axis=0))
        energies.append(by_block)
    probabilities = []
    for b, block in enumerate(blocks):
        energy = np.array([part[b] for part in energies])
        share = np.exp(energy - energy.max(axis=0))
        share /= share.sum(axis=0)
        block.beliefs[:first] = sum(part[b] * share[k] for k, part in enumerate(filled))
        block.beliefs[first:last] = parts.members @ share
        mixed = sum(part[b] * share[k] for k, part in enumerate(found))
        latent = reference_states(coding, n_visible, parts.visible.target_offsets - first, block.beliefs[first:last])
        probabilities.append(np.concatenate([mixed, latent]))
    return Filled(unconverged, probabilities, methods)


def reference_states(coding: Coding, target: int, offsets: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the probabilities (states, rows) of targets from number ``target`` on, which have a reference state each.

    ``columns`` are those of their other states, and begin at ``offsets`` (targets + 1,).
    """
    parts = [np.empty((0, columns.shape[1]))]
    for v in range(target, len(coding.has_reference)):
        others = columns[offsets[v] : offsets[v + 1]]
        parts += [np.clip(1.0 - others.sum(axis=0, keepdims=True), 0.0, 1.0), others]
    return np.concatenate(parts)


def _weight_matrices(
    parts: LatentSplit, theta: np.ndarray, last: int, n_covariates: int
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Return the weights between visible columns: (states, states) and (states, covariates)."""
    graph, first = parts.visible, parts.first
    target = np.repeat(np.arange(len(graph.arc_offsets) - 1), np.diff(graph.arc_offsets))
    weight, is_covariate = theta[graph.arc_feature], graph.arc_source >= last

    def matrix(which: np.ndarray, start: int, columns: int) -> sp.csr_matrix:
        positions = target[which], graph.arc_source[which] - start
        return sp.csr_matrix((weight[which], positions), shape=(first, columns))

    return matrix(~is_covariate, 0, first), matrix(is_covariate, last, n_covariates)

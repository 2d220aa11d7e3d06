"""This module samples the infinite relational model of Kemp et al., "Learning Systems of Concepts with an Infinite
Relational Model" (AAAI 2006): entities of each type have clusters, and a cell depends on the clusters of its ends only.

Clusters have a Chinese restaurant process as their prior, one per type. The cells of a block, that is of one relation
and one cluster per end, are 1 with a common probability, which has a Beta(b, b) prior, one b per relation, and is
integrated out. Missing cells are left out of all counts. Clusters are drawn by Gibbs sampling, one entity at a time;
concentrations and b are drawn from their conditional distributions on grids, with equal prior probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

__all__ = ["CONCENTRATIONS", "STRENGTHS", "Chain", "Problem", "Relation", "State", "compile_problem", "sample_chain"]

Array = np.ndarray[Any, np.dtype[Any]]

ENDS = 3
"""The largest number of ends of a relation; unused ends are of a type with a single entity."""
CONCENTRATIONS = tuple(2.0**k for k in range(-3, 6))
"""Grid of the concentrations of the Chinese restaurant processes."""
STRENGTHS = tuple(2.0**k for k in range(-6, 3))
"""Grid of b."""


@dataclass(frozen=True)
class Relation:
    """The observed cells of one binary relation.

    Attributes
    ----------
    types : the type of entity at each end, a number from 0
    ends : (cells, ends) numbers of the entities
    values : (cells,) 0 or 1
    """

    types: tuple[int, ...]
    ends: Array
    values: Array


class Problem(NamedTuple):
    """Observed cells of all relations, as arrays for the kernels."""

    n_entities: Array
    """(types + 1,): the last type has the single entity of unused ends."""
    end_types: Array
    """(relations, ENDS)"""
    block_offsets: Array
    """(relations + 1,): where the blocks of each relation start."""
    relation: Array
    """(cells,)"""
    ends: Array
    """(cells, ENDS)"""
    values: Array
    """(cells,)"""
    cell_offsets: Array
    """(types, most entities + 1): where the cells of each entity start in ``entity_cells``."""
    entity_cells: Array


class State(NamedTuple):
    """One state of the chain."""

    clusters: Array
    """(types + 1, most entities): cluster of each entity."""
    members: Array
    """(types + 1, most entities): number of entities in each cluster."""
    counts: Array
    """(blocks, 2): observed cells that are 0 and that are 1."""
    concentration: Array
    """(types,): place in the grid."""
    strength: Array
    """(relations,): place of b in its grid."""


class Grids(NamedTuple):
    """Values of the hyperparameters, all with the same prior probability."""

    concentrations: Array
    strengths: Array
    log_gamma: Array
    """(strengths, 2, cells + 1): log gamma of b, and of 2 b, plus the number of cells."""


class Parts(NamedTuple):
    """Memory for the cells of one entity, summed by block; see `gather_parts`."""

    found: Array
    """(sets of ends, blocks): the part, or -1."""
    where: Array
    """(parts,): the ends that the entity is at, as bits."""
    block: Array
    """(parts,): block for cluster 0."""
    step: Array
    """(parts,): distance between the blocks of one cluster and the next."""
    relation: Array
    counts: Array
    """(parts, 2)"""


@dataclass(frozen=True)
class Chain:
    """What is kept of a chain: probabilities of asked cells, averaged over samples, and the log joint of each sweep."""

    probabilities: Array
    log_joint: Array
    state: State


def compile_problem(n_entities: Sequence[int], relations: Sequence[Relation]) -> Problem:
    """Return the arrays of the observed cells of all relations; ``n_entities`` has the size of each type."""
    unused = len(n_entities)
    sizes = np.array([*n_entities, 1])
    end_types = np.array([[*one.types, *[unused] * (ENDS - len(one.types))] for one in relations])
    blocks = np.prod(sizes[end_types], axis=1)
    relation = np.concatenate([np.full(len(one.values), r) for r, one in enumerate(relations)])
    ends = np.concatenate([pad_ends(one.ends) for one in relations])
    values = np.concatenate([one.values for one in relations]).astype(np.int64)
    offsets, of_entities = np.zeros((unused, sizes.max() + 1), dtype=np.int64), []
    start = 0
    for kind in range(unused):
        at = end_types[relation] == kind
        for entity in range(sizes[kind]):
            cells = np.flatnonzero((at & (ends == entity)).any(axis=1))
            offsets[kind, entity], offsets[kind, entity + 1] = start, start + len(cells)
            of_entities.append(cells)
            start += len(cells)
    starts = np.concatenate([[0], np.cumsum(blocks)])
    return Problem(sizes, end_types, starts, relation, ends, values, offsets, np.concatenate(of_entities))


def pad_ends(ends: Array) -> Array:
    """Return (cells, ENDS) ends, where those that a relation does not have are entity 0."""
    return np.pad(ends, ((0, 0), (0, ENDS - ends.shape[1]))).astype(np.int64)


def sample_chain(
    problem: Problem, asked: tuple[Array, Array], sweeps: int, burn_in: int, rng: np.random.Generator
) -> Chain:
    """Run a chain of ``sweeps`` sweeps over all entities from a draw of the prior of the clusters.

    Parameters
    ----------
    problem : the observed cells
    asked : (cells,) relations and (cells, ENDS) ends of the cells whose probability to be 1 is wanted
    sweeps, burn_in : number of sweeps, and how many of the first are not averaged over
    rng : all that is random is drawn from it
    """
    state = _initial_state(problem, rng)
    total, trace = np.zeros(len(asked[0])), np.zeros(sweeps)
    _run(problem, state, make_grids(problem), make_parts(problem), rng, burn_in, asked, total, trace)
    return Chain(total / max(sweeps - burn_in, 1), trace, state)


def make_grids(problem: Problem) -> Grids:
    """Return the grids of the hyperparameters with their tables."""
    from scipy.special import gammaln

    counts = np.arange(len(problem.values) + 1)
    tables = [[gammaln(counts + b), gammaln(counts + 2.0 * b)] for b in STRENGTHS]
    return Grids(np.array(CONCENTRATIONS), np.array(STRENGTHS), np.array(tables))


def make_parts(problem: Problem) -> Parts:
    """Return memory for the cells of any entity."""
    found = np.full((1 << ENDS, problem.block_offsets[-1]), -1)
    sizes = [np.diff(problem.cell_offsets[t, : n + 1]) for t, n in enumerate(problem.n_entities[:-1])]
    most = max(int(part.max(initial=1)) for part in sizes)  # entities may have no attributes
    where, block, step, relation = np.zeros((4, most), dtype=np.int64)
    return Parts(found, where, block, step, relation, np.zeros((most, 2), dtype=np.int64))


def _initial_state(problem: Problem, rng: np.random.Generator) -> State:
    shape = len(problem.n_entities), problem.n_entities.max()
    state = State(
        np.zeros(shape, dtype=np.int64),
        np.zeros(shape, dtype=np.int64),
        np.zeros((problem.block_offsets[-1], 2), dtype=np.int64),
        np.full(shape[0] - 1, CONCENTRATIONS.index(1.0)),
        np.full(len(problem.end_types), STRENGTHS.index(1.0)),
    )
    for kind, size in enumerate(problem.n_entities):
        for entity in range(size):
            weights = state.members[kind].astype(float)
            weights[np.flatnonzero(weights == 0.0)[0]] = 1.0
            cluster = rng.choice(len(weights), p=weights / weights.sum())
            state.clusters[kind, entity] = cluster
            state.members[kind, cluster] += 1
    for cell in range(len(problem.values)):
        state.counts[block_of(problem, state.clusters, problem.relation[cell], problem.ends, cell)][
            problem.values[cell]
        ] += 1
    return state


@njit(nogil=True, cache=True)
def block_of(problem, clusters, relation, ends, cell):
    """Return the number of the block of a cell."""
    block = 0
    for end in range(ENDS):
        kind = problem.end_types[relation, end]
        block = block * problem.n_entities[kind] + clusters[kind, ends[cell, end]]
    return problem.block_offsets[relation] + block


@njit(nogil=True, cache=True)
def place(problem, state, kind, entity, sign):
    """Add an entity to its cluster, and its cells to their blocks, or remove them if ``sign`` is -1."""
    state.members[kind, state.clusters[kind, entity]] += sign
    for k in range(problem.cell_offsets[kind, entity], problem.cell_offsets[kind, entity + 1]):
        cell = problem.entity_cells[k]
        block = block_of(problem, state.clusters, problem.relation[cell], problem.ends, cell)
        state.counts[block, problem.values[cell]] += sign


@njit(nogil=True, cache=True)
def gather_parts(problem, state, kind, entity, parts):
    """Sum the cells of an entity by the block that they have when the entity is in cluster 0; return how many sums.

    Cells in which the entity is at different ends are kept apart: with its cluster they move to different blocks.
    """
    n = 0
    for k in range(problem.cell_offsets[kind, entity], problem.cell_offsets[kind, entity + 1]):
        cell = problem.entity_cells[k]
        relation = problem.relation[cell]
        block, step, where = 0, 0, 0
        for end in range(ENDS):
            of_end = problem.end_types[relation, end]
            size, other = problem.n_entities[of_end], problem.ends[cell, end]
            block, step = block * size, step * size
            if of_end == kind and other == entity:
                step += 1
                where += 1 << end
            else:
                block += state.clusters[of_end, other]
        block += problem.block_offsets[relation]
        part = parts.found[where, block]
        if part < 0:
            part = n
            parts.found[where, block] = part
            parts.where[part], parts.block[part], parts.step[part], parts.relation[part] = where, block, step, relation
            parts.counts[part, 0] = parts.counts[part, 1] = 0
            n += 1
        parts.counts[part, problem.values[cell]] += 1
    for part in range(n):
        parts.found[parts.where[part], parts.block[part]] = -1
    return n


@njit(nogil=True, cache=True)
def _log_likelihood_of_parts(state, grids, parts, n, cluster):
    """Return the log probability of the cells of an entity in a cluster given all other cells.

    Parts are added to their blocks one by one, as several may be of the same block, and removed at the end.
    """
    found = 0.0
    counts, added, log_gamma = state.counts, parts.counts, grids.log_gamma
    for part in range(n):
        block, g = parts.block[part] + cluster * parts.step[part], state.strength[parts.relation[part]]
        n0, n1 = counts[block, 0], counts[block, 1]
        m0, m1 = n0 + added[part, 0], n1 + added[part, 1]
        found += log_gamma[g, 0, m0] - log_gamma[g, 0, n0] + log_gamma[g, 0, m1] - log_gamma[g, 0, n1]
        found -= log_gamma[g, 1, m0 + m1] - log_gamma[g, 1, n0 + n1]
        counts[block, 0], counts[block, 1] = m0, m1
    for part in range(n):
        block = parts.block[part] + cluster * parts.step[part]
        counts[block, 0] -= added[part, 0]
        counts[block, 1] -= added[part, 1]
    return found


@njit(nogil=True, cache=True)
def reassignment_scores(problem, state, grids, kind, entity, parts, scores):
    """Set ``scores`` to the log probability, up to a constant, of each cluster for an entity that has been removed.

    One empty cluster stands for a new one; other empty ones have the score -inf.
    """
    n = gather_parts(problem, state, kind, entity, parts)
    new_one = True
    for cluster in range(problem.n_entities[kind]):
        scores[cluster] = -np.inf
        size = state.members[kind, cluster]
        if size or new_one:
            prior = math.log(size) if size else math.log(grids.concentrations[state.concentration[kind]])
            scores[cluster] = prior + _log_likelihood_of_parts(state, grids, parts, n, cluster)
        new_one = new_one and size > 0


@njit(nogil=True, cache=True)
def _draw(scores, n, rng):
    """Return a number below n, drawn with probabilities proportional to the exponentials of the scores."""
    top = scores[:n].max()
    total = 0.0
    for k in range(n):
        total += math.exp(scores[k] - top)
    left = rng.random() * total
    last = 0
    for k in range(n):
        weight = math.exp(scores[k] - top)
        if weight > 0.0:
            last = k
            left -= weight
            if left < 0.0:
                break
    return last


@njit(nogil=True, cache=True)
def log_prior_of_clusters(members, size, concentration):
    """Return the log probability of the clusters of one type under the Chinese restaurant process."""
    found = math.lgamma(concentration) - math.lgamma(concentration + size)
    for k in range(size):
        if members[k]:
            found += math.log(concentration) + math.lgamma(members[k])
    return found


@njit(nogil=True, cache=True)
def log_marginal_likelihood(counts, single, double):
    """Return the log probability of the cells of blocks, (blocks, 2), whose Beta(b, b) is integrated out.

    ``single`` and ``double`` are log gamma of b and of 2 b plus 0, 1, 2 and so on.
    """
    found = 0.0
    for block in range(len(counts)):
        n0, n1 = counts[block, 0], counts[block, 1]
        if n0 + n1:
            found += single[n0] + single[n1] - 2.0 * single[0] - double[n0 + n1] + double[0]
    return found


@njit(nogil=True, cache=True)
def _draw_hyperparameters(problem, state, grids, rng, scores):
    """Draw each concentration and each b given all clusters; return the log joint probability."""
    joint = 0.0
    for kind in range(len(state.concentration)):
        for k in range(len(grids.concentrations)):
            members, size = state.members[kind], problem.n_entities[kind]
            scores[k] = log_prior_of_clusters(members, size, grids.concentrations[k])
        state.concentration[kind] = _draw(scores, len(grids.concentrations), rng)
        joint += scores[state.concentration[kind]]
    for relation in range(len(state.strength)):
        counts = state.counts[problem.block_offsets[relation] : problem.block_offsets[relation + 1]]
        for k in range(len(grids.strengths)):
            scores[k] = log_marginal_likelihood(counts, grids.log_gamma[k, 0], grids.log_gamma[k, 1])
        state.strength[relation] = _draw(scores, len(grids.strengths), rng)
        joint += scores[state.strength[relation]]
    return joint


@njit(nogil=True, cache=True)
def _run(problem, state, grids, parts, rng, burn_in, asked, total, trace):
    """Run all sweeps; add the probabilities of the asked cells after each that is not burn-in."""
    scores = np.empty(max(state.members.shape[1], len(grids.concentrations), len(grids.strengths)))
    for sweep in range(len(trace)):
        trace[sweep] = _draw_hyperparameters(problem, state, grids, rng, scores)
        for kind in range(len(state.concentration)):
            for entity in range(problem.n_entities[kind]):
                place(problem, state, kind, entity, -1)
                reassignment_scores(problem, state, grids, kind, entity, parts, scores)
                state.clusters[kind, entity] = _draw(scores, problem.n_entities[kind], rng)
                place(problem, state, kind, entity, 1)
        if sweep >= burn_in:
            for k in range(len(total)):
                relation = asked[0][k]
                block = block_of(problem, state.clusters, relation, asked[1], k)
                n0, n1 = state.counts[block, 0], state.counts[block, 1]
                b = grids.strengths[state.strength[relation]]
                total[k] += (n1 + b) / (n0 + n1 + 2.0 * b)

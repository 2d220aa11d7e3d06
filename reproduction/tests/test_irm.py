"""The infinite relational model: its scores against closed forms, its samples against all partitions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import betaln, gammaln

from reproduction import irm
from reproduction.irm import CONCENTRATIONS, STRENGTHS, Relation, State, compile_problem, pad_ends, sample_chain
from reproduction.irm_estimator import InfiniteRelationalModel
from sparsefield import MarkovField, RelationalField, Solver
from sparsefield.analysis.hold_out import evaluate
from sparsefield.data import Relational
from sparsefield.errors import DataError

Clusters = tuple[tuple[int, ...], ...]


def partitions(n: int) -> Iterator[tuple[int, ...]]:
    """All partitions of n entities, each once: a cluster is numbered when it first occurs."""
    if n == 0:
        yield ()
        return
    for first in partitions(n - 1):
        for last in range(max(first, default=-1) + 2):
            yield (*first, last)


def log_joint(relations: list[Relation], clusters: Clusters, concentrations: Any, strengths: Any) -> float:
    """Log probability of clusters and observed cells, from the formulas of the paper."""
    found = 0.0
    for of_type, alpha in zip(clusters, concentrations, strict=True):
        sizes = np.unique(of_type, return_counts=True)[1]
        found += gammaln(alpha) - gammaln(alpha + len(of_type)) + np.sum(np.log(alpha) + gammaln(sizes))
    for one, b in zip(relations, strengths, strict=True):
        for n0, n1 in blocks(one, clusters).values():
            found += betaln(n0 + b, n1 + b) - betaln(b, b)
    return float(found)


def blocks(relation: Relation, clusters: Clusters) -> dict[tuple[int, ...], list[int]]:
    found: dict[tuple[int, ...], list[int]] = {}
    for ends, value in zip(relation.ends, relation.values, strict=True):
        counts = found.setdefault(block(relation, clusters, ends), [0, 0])
        counts[int(value)] += 1
    return found


def block(relation: Relation, clusters: Clusters, ends: Any) -> tuple[int, ...]:
    return tuple(clusters[kind][end] for kind, end in zip(relation.types, ends, strict=True))


def small_world(seed: int) -> tuple[list[int], list[Relation], list[tuple[int, list[int]]]]:
    """Three nations with two attributes and two relations; some cells are missing, and asked for."""
    rng = np.random.default_rng(seed)
    relations, asked = [], []
    for r, (types, sizes) in enumerate((((0, 1), (3, 2)), ((0, 0, 2), (3, 3, 2)))):
        ends = np.array(list(product(*map(range, sizes))))
        missing = rng.random(len(ends)) < 0.2
        relations.append(Relation(types, ends[~missing], rng.integers(0, 2, np.count_nonzero(~missing))))
        asked += [(r, list(one)) for one in ends[missing]]
    return [3, 2, 2], relations, asked


def exact_probabilities(n_entities: list[int], relations: list[Relation], asked: list[tuple[int, list[int]]]) -> Any:
    """The posterior predictive probabilities, summed over all partitions and all hyperparameters of the grids."""
    weights, values = [], []
    for clusters in product(*(list(partitions(n)) for n in n_entities)):
        for alpha in product(irm.CONCENTRATIONS, repeat=len(n_entities)):
            for b in product(irm.STRENGTHS, repeat=len(relations)):
                weights.append(log_joint(relations, clusters, alpha, b))
                counts = [blocks(one, clusters) for one in relations]
                of_asked = [counts[r].get(block(relations[r], clusters, ends), [0, 0]) for r, ends in asked]
                values.append([(n1 + b[r]) / (n0 + n1 + 2 * b[r]) for (n0, n1), (r, _) in zip(of_asked, asked)])  # noqa: B905
    shares = np.exp(np.array(weights) - max(weights))
    return shares @ np.array(values) / shares.sum()


def compiled(asked: list[tuple[int, list[int]]]) -> tuple[Any, Any]:
    ends = np.concatenate([pad_ends(np.array([one])) for _, one in asked])
    return np.array([r for r, _ in asked]), ends


def as_clusters(state: State, n_entities: list[int]) -> Clusters:
    return tuple(tuple(map(int, state.clusters[kind, :n])) for kind, n in enumerate(n_entities))


def test_there_are_as_many_partitions_as_bell_counted() -> None:
    assert [len(set(partitions(n))) for n in range(6)] == [1, 1, 2, 5, 15, 52]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_samples_predict_as_the_sum_over_all_partitions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(irm, "CONCENTRATIONS", (0.5, 1.0, 4.0))
    monkeypatch.setattr(irm, "STRENGTHS", (0.1, 1.0))
    n_entities, relations, asked = small_world(seed)
    exact = exact_probabilities(n_entities, relations, asked)
    problem = compile_problem(n_entities, relations)
    found = sample_chain(problem, compiled(asked), 40_000, 100, np.random.default_rng(seed)).probabilities
    assert np.ptp(exact) > 0.1
    np.testing.assert_allclose(found, exact, atol=0.006)


def test_scores_of_clusters_are_differences_of_closed_forms() -> None:
    """An entity is at one end of a cell, at another, or at both."""
    for seed in range(3):
        n_entities, relations, asked = small_world(seed)
        problem = compile_problem(n_entities, relations)
        state = sample_chain(problem, compiled(asked), 5, 0, np.random.default_rng(seed)).state
        grids, parts, scores = irm.make_grids(problem), irm.make_parts(problem), np.empty(9)
        alpha = [CONCENTRATIONS[k] for k in state.concentration]
        b = [STRENGTHS[k] for k in state.strength]
        for kind, size in enumerate(n_entities):
            for entity in range(size):
                irm.place(problem, state, kind, entity, -1)
                irm.reassignment_scores(problem, state, grids, kind, entity, parts, scores)
                own = int(state.clusters[kind, entity])
                irm.place(problem, state, kind, entity, 1)
                closed = []
                for cluster in np.flatnonzero(np.isfinite(scores[:size])):
                    clusters = [list(one) for one in as_clusters(state, n_entities)]
                    clusters[kind][entity] = int(cluster)
                    moved = tuple(tuple(one) for one in clusters)
                    closed.append(scores[cluster] - log_joint(relations, moved, alpha, b))
                assert own < size
                assert np.ptp(closed) == pytest.approx(0.0, abs=1e-9)


def test_the_log_joint_of_a_chain_is_the_closed_form() -> None:
    n_entities, relations, asked = small_world(0)
    problem = compile_problem(n_entities, relations)
    rng = np.random.default_rng(3)
    before = sample_chain(problem, compiled(asked), 4, 0, rng).state
    grids = irm.make_grids(problem)
    clusters = as_clusters(before, n_entities)
    alpha = [CONCENTRATIONS[k] for k in before.concentration]
    b = [STRENGTHS[k] for k in before.strength]
    found = sum(irm.log_prior_of_clusters(before.members[kind], n, alpha[kind]) for kind, n in enumerate(n_entities))
    for r, g in enumerate(before.strength):
        counts = before.counts[problem.block_offsets[r] : problem.block_offsets[r + 1]]
        found += irm.log_marginal_likelihood(counts, *grids.log_gamma[g])
    assert found == pytest.approx(log_joint(relations, clusters, alpha, b))


def test_the_marginal_likelihood_is_the_product_of_predictive_probabilities() -> None:
    values, b = [1, 0, 1, 1, 0, 1], 0.3
    n, product_of_all = [0, 0], 1.0
    for value in values:
        product_of_all *= (n[value] + b) / (sum(n) + 2 * b)
        n[value] += 1
    tables = gammaln(np.arange(9) + b), gammaln(np.arange(9) + 2 * b)
    assert irm.log_marginal_likelihood(np.array([n]), *tables) == pytest.approx(np.log(product_of_all))


# -- the estimator ---------------------------------------------------------------------------------------------------


@pytest.fixture
def two_kinds() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    cells = (np.arange(16)[:, None] % 2 == np.arange(8) % 2) ^ (rng.random((16, 8)) < 0.05)
    return pl.DataFrame({f"b{k}": cells[:, k].astype(int) for k in range(8)})


@pytest.fixture
def villages() -> Relational:
    rng = np.random.default_rng(0)
    warlike = np.arange(8) % 2
    village = pl.DataFrame({"name": [f"v{k}" for k in range(8)], "walls": warlike, "altar": rng.integers(0, 2, 8)})
    ends = [(a, b) for a in range(8) for b in range(8)]
    pair = pl.DataFrame(
        {
            "who": [f"v{a}" for a, _ in ends],
            "whom": [f"v{b}" for _, b in ends],
            "fights": [int(warlike[a] > warlike[b]) for a, b in ends],
            "trades": [int(warlike[a] == warlike[b]) for a, b in ends],
        }
    )
    links = {end: ("pair", end, "village") for end in ("who", "whom")}
    return Relational({"village": village, "pair": pair}, keys={"village": "name"}, links=links)


@pytest.mark.slow
def test_the_folds_are_those_of_a_field(two_kinds: pl.DataFrame, villages: Relational) -> None:
    brief = Solver(max_iter=1, certify=False)
    for data, field in ((two_kinds, MarkovField), (villages, RelationalField)):
        tables: list[list[Any]] = [[], []]
        for seen, estimator in zip(tables, (field(l1=1.0, solver=brief), InfiniteRelationalModel(1, 2)), strict=True):
            evaluate(data, estimator, folds=3, on_fit=lambda _, incomplete, seen=seen: seen.append(incomplete))
        for one, other in zip(*tables, strict=True):
            for a, b in zip(frames(one), frames(other), strict=True):
                assert a.equals(b)


def frames(data: Any) -> list[pl.DataFrame]:
    return list(data.tables.values()) if isinstance(data, Relational) else [data]


def test_clusters_predict_held_out_cells(two_kinds: pl.DataFrame, villages: Relational) -> None:
    for data in (two_kinds, villages):
        found = evaluate(data, InfiniteRelationalModel(chains=3, sweeps=100), folds=4)
        assert found.spread("cll").mean > found.spread("frequency_cll").mean + 0.15
        assert found.spread("error_rate").mean < 0.2


def test_held_out_cells_never_enter_the_counts(villages: Relational) -> None:
    """The same predictions follow whatever the held-out cells are."""
    answers = []
    for value in (0, 1):
        pair = villages.tables["pair"].with_columns(fights=pl.Series([value, *villages.tables["pair"]["fights"][1:]]))
        told: list[Any] = []
        changed = villages.with_tables({"pair": pair})
        evaluate(
            changed,
            InfiniteRelationalModel(chains=1, sweeps=20),
            folds=3,
            on_fit=lambda model, X, told=told: told.append((X.tables["pair"]["fights"][0], model.infer(X))),
        )
        [of_fold] = [found for cell, found in told if cell is None]
        answers.append(of_fold["pair"].of_one)
    np.testing.assert_array_equal(*answers)


def test_a_seed_fixes_everything(two_kinds: pl.DataFrame) -> None:
    table = two_kinds.with_columns(b0=pl.Series([None, *two_kinds["b0"][1:]]))
    first, same, other = (
        InfiniteRelationalModel(2, 30, random_state=seed).fit(table).infer(table).of_one[0, 0] for seed in (1, 1, 2)
    )
    assert first == same
    assert first != other


def test_a_state_that_is_the_only_one_is_certain(two_kinds: pl.DataFrame) -> None:
    table = two_kinds.with_columns(b0=pl.Series([None] + [1] * 15))
    found = InfiniteRelationalModel(1, 4).fit(table).infer(table)
    np.testing.assert_array_equal(found.state_probabilities("b0"), np.ones((16, 1)))
    assert found.state_probabilities("b1").shape == (16, 2)


def test_what_cannot_be_modeled_is_refused(two_kinds: pl.DataFrame) -> None:
    with pytest.raises(DataError, match="column 'b1' has others"):
        InfiniteRelationalModel(1, 2).fit(two_kinds.with_columns(b1=pl.lit("x")))
    model = InfiniteRelationalModel(1, 2).fit(two_kinds)
    with pytest.raises(DataError, match="that it was fitted to"):
        model.infer(two_kinds.with_columns(b0=pl.Series([None, *two_kinds["b0"][1:]])))

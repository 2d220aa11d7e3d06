"""A group penalty: its subgradients, its optimum by another algorithm, whole edges, and its certificate."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from oracle import SlowField, candidate_pairs, rows_of
from scipy.special import expit

from sparsefield import Features, MarkovField, Solver
from sparsefield.data import as_source, compile_table
from sparsefield.solver.owlqn import NonsmoothPenalty, OrthantLBFGS, Point

GROUPS = np.array([0, 1, 1, 1, 2, 2, 3])
STRENGTHS = np.array([0.0, 2.0, 2.0, 8.0, 3.0, 3.0, 1.5])


def logistic(seed: int):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, len(GROUPS))) * np.array([1.0, 1.0, 2.0, 3.0, 0.1, 0.2, 1.0])
    y = rng.integers(0, 2, 80)
    return lambda theta: (float(np.logaddexp(0, X @ theta).sum() - y @ (X @ theta)), X.T @ (expit(X @ theta) - y))


def test_gradient_and_curvature_are_those_of_finite_differences() -> None:
    penalty = NonsmoothPenalty(STRENGTHS, GROUPS)
    theta = np.random.default_rng(0).normal(size=len(GROUPS))
    for k in range(len(theta)):
        step = np.zeros(len(theta))
        step[k] = 1e-5
        slope = (penalty.value(theta + step) - penalty.value(theta - step)) / 2e-5
        bend = (penalty.gradient(theta + step) - penalty.gradient(theta - step))[k] / 2e-5
        assert penalty.gradient(theta)[k] == pytest.approx(slope, abs=1e-8)
        assert penalty.curvature(theta)[k] == pytest.approx(bend, abs=1e-6)


def test_groups_of_one_parameter_are_l1() -> None:
    rng = np.random.default_rng(1)
    strengths, theta, gradient = rng.uniform(0, 2, 9), rng.normal(size=9), rng.normal(size=9) * 2
    theta[:4] = 0.0
    one, other = NonsmoothPenalty(strengths), NonsmoothPenalty(strengths, np.arange(9))
    assert other.value(theta) == pytest.approx(one.value(theta))
    np.testing.assert_allclose(other.pseudo_gradient(theta, gradient), one.pseudo_gradient(theta, gradient), atol=1e-12)
    np.testing.assert_allclose(other.curvature(theta), 0.0, atol=1e-12)


def test_the_optimum_is_that_of_proximal_gradient_steps() -> None:
    smooth, penalty = logistic(0), NonsmoothPenalty(STRENGTHS, GROUPS)

    def evaluate(theta):
        value, gradient = smooth(theta)
        return value + penalty.value(theta), gradient

    point, optimizer = Point(np.zeros(len(GROUPS)), *evaluate(np.zeros(len(GROUPS)))), OrthantLBFGS()
    for _ in range(2000):
        found = optimizer.step(point, penalty, lambda g: 0.01 * g, evaluate)
        if found is None:
            break
        assert found.value <= point.value
        point = found
    slow = np.zeros(len(GROUPS))  # in coordinates in which every group has one strength
    for _ in range(20000):
        slow = slow - 1e-3 * smooth(slow)[1] / np.maximum(STRENGTHS, 1.0) ** 2
        norms = penalty.sum_groups(np.square(STRENGTHS * slow)) ** 0.5
        slow *= np.where(STRENGTHS > 0, np.maximum(1 - 1e-3 / np.maximum(norms, 1e-300), 0.0), 1.0)
    np.testing.assert_allclose(point.coordinates, slow, atol=2e-4)
    assert np.array_equal(point.coordinates == 0.0, slow == 0.0)


def mixed_frame(n_rows: int, seed: int, *, numbers: bool = True) -> pl.DataFrame:
    """A table of all kinds, in which some columns depend on each other."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=n_rows)
    columns: dict[str, np.ndarray] = {
        "color": np.array(["red", "green", "blue"])[np.digitize(hidden + rng.normal(size=n_rows), [-0.5, 0.7])],
        "town": np.array(["A", "B", "C"])[rng.integers(0, 3, n_rows)],
        "answer": np.digitize(hidden + rng.normal(size=n_rows), [-1, 0, 1]) + 1,
        "member": np.where(hidden + rng.normal(size=n_rows) > 0, "yes", "no"),
    }
    if numbers:
        columns["size"] = hidden + 0.5 * rng.normal(size=n_rows)
    return pl.DataFrame(columns)


def test_an_edge_has_all_its_weights_or_none_and_every_edge_is_optimal() -> None:
    frame, l1, l2 = mixed_frame(120, seed=3, numbers=False), 7.0, 1.0
    field = MarkovField(penalty="group", l1=l1, l2=l2, solver=Solver(kkt_tol=1e-4)).fit(frame).field_
    assert field.record is not None
    assert field.record.converged
    slow = SlowField(field.schema, field.biases, field.pairs, field.weights)
    candidates = np.array(candidate_pairs(field.schema))
    gradient = slow.pl_gradient(rows_of(compile_table(as_source(frame), field.schema)), candidates)[
        slow.n_target_columns :
    ]
    weights = dict(zip(map(tuple, field.pairs.tolist()), field.weights, strict=True))
    owner, kinds = field.schema.variable_of_column, [variable.kind for variable in field.schema.variables]
    free = [1 if variable.kind == "ordinal" else len(variable.states) - 1 for variable in field.schema.variables]
    edges: dict[tuple[int, int], list[tuple[float, float, float]]] = {}
    for (a, b), slope in zip(candidates.tolist(), gradient, strict=True):
        ends = int(owner[a]), int(owner[b])
        scores = [a == field.schema.target_offsets[ends[0]] and kinds[ends[0]] == "ordinal"]
        scores += [b == field.schema.target_offsets[ends[1]] and kinds[ends[1]] == "ordinal"]
        with_levels = any(kinds[end] == "ordinal" and not score for end, score in zip(ends, scores, strict=True))
        factor = (4.0 if with_levels else 2.0 ** sum(scores)) * np.sqrt(free[ends[0]] * free[ends[1]])
        weight = weights.get((a, b), 0.0)
        edges.setdefault(ends, []).append((weight, slope + l2 * weight, l1 * factor))
    selected = 0
    for parts in edges.values():
        weight, slope, strength = (np.array(part) for part in zip(*parts, strict=True))
        if weight.any():
            selected += 1
            assert weight.all()
            np.testing.assert_allclose(slope, -(strength**2) * weight / np.linalg.norm(strength * weight), atol=0.01)
        else:
            assert np.linalg.norm(slope / strength) <= 1.001
    assert 0 < selected < len(edges)


def test_binary_columns_have_the_weights_of_l1() -> None:
    rng = np.random.default_rng(0)
    X = (rng.random((400, 8)) < 0.4).astype(int)
    X[:, 1] = np.where(rng.random(400) < 0.8, X[:, 0], X[:, 1])
    one, other = (MarkovField(l1=8.0, penalty=penalty).fit(X).field_ for penalty in ("l1", "group"))
    np.testing.assert_array_equal(one.pairs, other.pairs)
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-3)


def test_threads_change_nothing() -> None:
    frame = mixed_frame(900, seed=4)
    one, other = (MarkovField(penalty="group", l1=30.0, n_jobs=jobs).fit(frame).field_ for jobs in (1, 2))
    np.testing.assert_array_equal(one.pairs, other.pairs)
    np.testing.assert_array_equal(one.weights, other.weights)


@pytest.mark.parametrize(
    "params",
    [{"features": Features(3)}, {"induction": "ideal-parent"}, {"penalty": "groups"}],
    ids=lambda p: next(iter(p)),
)
def test_what_cannot_be_grouped_is_refused(params) -> None:
    with pytest.raises(ValueError, match="penalty"):
        MarkovField(**{"penalty": "group", "l1": 5.0, **params}).fit(pl.DataFrame({"a": ["x", "y"], "b": ["u", "v"]}))


def test_a_refit_keeps_the_edge_that_ebic_selects() -> None:
    rng = np.random.default_rng(0)
    g = rng.integers(0, 3, 1000)
    table = pl.DataFrame(
        {
            "g": np.array(["u", "v", "w"])[g],
            "h": 5 * (g == 0) + rng.normal(0, 3, 1000),
            "m": rng.integers(0, 3, 1000).astype(str),
        }
    )
    field = MarkovField(penalty="group", selection="ebic", refit=True).fit(table)
    assert [row[:2] for row in field.edges_.rows()] == [("g", "h")]

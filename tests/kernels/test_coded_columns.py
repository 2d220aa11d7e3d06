"""Every kernel agrees with enumeration, for columns of any kind."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import Row, SlowField, candidate_pairs, column_values, rows_of
from plain import evaluated

from sparsefield.compute import Threads
from sparsefield.data import Block, Dataset, Layout, Schema, Table, Variable
from sparsefield.data.number_levels import standardize
from sparsefield.data.table import cut_into_blocks
from sparsefield.inference import INFERENCE, infer, predict_observed
from sparsefield.inference.method import Marginals, fill_blocks
from sparsefield.kernels import row_draws
from sparsefield.kernels.mean_field_sweep import bias_hessian
from sparsefield.model import Field
from sparsefield.objectives import OBJECTIVES, DenseEvaluator, LatentEvaluator
from sparsefield.objectives.contrastive_divergence import ContrastiveDivergence
from sparsefield.objectives.pseudo_likelihood import PseudoLikelihood


def nominal(name: str, count: int, *, symmetric: bool = True, role: str = "target") -> Variable:
    return Variable(name, role, tuple(range(count)), 0, (1 / count,) * count, symmetric=symmetric)


def ordinal(name: str, frequencies: tuple[float, ...], role: str = "target") -> Variable:
    count = len(frequencies)
    scores = standardize(np.arange(count, dtype=float), np.array(frequencies))
    return Variable(name, role, tuple(range(count)), 0, frequencies, kind="ordinal", scores=tuple(scores.tolist()))


def numeric(
    name: str, values: tuple[float, ...], frequencies: tuple[float, ...], bins: tuple[int, ...], role: str = "target"
) -> Variable:
    numbers, shares = np.array(values), np.array(frequencies)
    center = float(shares @ numbers)
    return Variable(
        name,
        role,
        values,
        0,
        frequencies,
        center=center,
        scale=float(np.sqrt(shares @ (numbers - center) ** 2)),
        kind="numeric",
        scores=tuple(standardize(numbers, shares).tolist()),
        cuts=tuple(((numbers[1:] + numbers[:-1]) / 2).tolist()),
        bins=bins,
    )


FIVE = (-2.0, -0.5, 0.0, 1.0, 4.0), (0.1, 0.3, 0.25, 0.25, 0.1)
TARGETS = {
    "ordinal": (ordinal("a", (0.2, 0.5, 0.3)), ordinal("b", (0.4, 0.1, 0.1, 0.4)), nominal("c", 2)),
    "symmetric": (nominal("a", 3), nominal("b", 4), nominal("c", 2)),
    "numeric": (numeric("a", *FIVE, (0, 0, 1, 1, 2)), numeric("b", *FIVE, (0, 1, 2, 3, 4)), nominal("c", 2)),
    "all": (
        nominal("a", 3, symmetric=False),
        nominal("b", 1),
        numeric("c", *FIVE, (0, 0, 1, 1, 2)),
        ordinal("d", (0.2, 0.5, 0.3)),
        nominal("e", 3),
    ),
}
COVARIATES = (ordinal("y", (0.3, 0.3, 0.4), "observed"), numeric("z", *FIVE, (0, 0, 0, 1, 1), "observed"))


@dataclass(frozen=True)
class Problem:
    """A field over columns of some kinds, and rows of a table; beliefs of missing cells are random."""

    field: Field
    block: Block
    slow: SlowField

    @property
    def schema(self) -> Schema:
        return self.field.schema

    @property
    def table(self) -> Table:
        return Table(self.schema, (self.block,), self.block.n_rows)

    @property
    def rows(self) -> list[Row]:
        return rows_of(self.table)

    def given(self, row: int) -> list[float]:
        return self.block.covariates[:, row].tolist()

    def states(self, v: int) -> slice:
        offsets = self.schema.coding.state_offsets
        return slice(offsets[v], offsets[v + 1])

    def missing_cells(self):
        """Yield (target, row) of the missing cells."""
        for v, row in zip(*np.nonzero(self.block.codes < 0), strict=True):
            yield int(v), int(row)

    def fill(self, name: str, **options) -> tuple[Block, Marginals]:
        block = self.block._replace(beliefs=self.block.beliefs.copy())
        with Threads(1) as engine:
            sample = Dataset.single(self.table)
            graphs, theta = self.field.graphs, self.field.theta
            return block, fill_blocks(sample, [[block]], INFERENCE[name](**options), graphs, theta, engine)


def make(
    kind: str,
    seed: int = 0,
    *,
    n_rows: int = 10,
    missing: float = 0.3,
    size: float = 0.7,
    most: int | None = None,
    latent: tuple[int, ...] = (),
    triples: int = 0,
) -> Problem:
    """Make a random field with all candidates; a row has at most ``most`` missing cells."""
    rng = np.random.default_rng(seed)
    hidden = tuple(nominal(f"h{k}", count, symmetric=False, role="latent") for k, count in enumerate(latent))
    targets = TARGETS[kind]
    variables = (*targets, *hidden, *COVARIATES)
    names = tuple(v.name for v in (*targets, *COVARIATES, *hidden))
    schema = Schema(variables, names)
    pairs = np.array(candidate_pairs(schema))
    members = [schema.target_offsets[:-1][np.diff(schema.target_offsets) > 0][:3]] if triples else []
    conjunctions = np.array(members, dtype=np.int64).reshape(-1, 3)
    field = Field(
        Layout.single(schema),
        rng.normal(scale=size, size=schema.n_target_columns),
        pairs,
        rng.normal(scale=size, size=len(pairs)),
        conjunctions,
        rng.normal(scale=size, size=len(conjunctions)),
    )
    codes = np.array([rng.integers(0, len(v.states), n_rows) for v in targets]).astype(np.int32)
    for row in range(n_rows):
        holes = np.flatnonzero(rng.random(len(targets)) < missing)
        codes[rng.permutation(holes)[:most], row] = -1
    codes = np.vstack([codes, np.full((len(hidden), n_rows), -1, dtype=np.int32)])
    levels = rng.integers(0, 3, n_rows)
    given = np.vstack([COVARIATES[0].coded[levels].T, COVARIATES[1].values_of(rng.normal(size=n_rows))])
    weight = rng.uniform(0.3, 2.0, n_rows)
    (block,) = cut_into_blocks(schema, codes, given, weight, schema.n_columns, size=n_rows)
    for v, variable in enumerate(schema.targets):
        columns = slice(schema.target_offsets[v], schema.target_offsets[v + 1])
        for row in np.flatnonzero(codes[v] < 0):
            block.beliefs[columns, row] = rng.dirichlet(np.ones(len(variable.states))) @ variable.coded
    features = field.pairs, field.weights, field.conjunctions, field.conjunction_weights
    return Problem(field, block, SlowField(schema, field.biases, *features))


@pytest.mark.parametrize("kind", TARGETS)
def test_columns_are_those_of_the_oracle(kind) -> None:
    for variable in TARGETS[kind]:
        wanted = np.array([column_values(variable, code) for code in range(len(variable.states))])
        np.testing.assert_allclose(variable.coded, wanted.reshape(variable.coded.shape), rtol=0, atol=1e-15)
        assert len(variable.column_labels) == len(variable.column_classes) == variable.width
    problem = make(kind, missing=0.0)
    for i, row in enumerate(problem.rows):
        assert problem.slow.one_hot(row.codes, problem.given(i)) == pytest.approx(row.q, abs=1e-15)


@pytest.mark.parametrize("missing", [0.0, 0.4], ids=["complete", "incomplete"])
@pytest.mark.parametrize("kind", TARGETS)
def test_loss_and_gradient_of_pl_are_those_of_the_oracle(kind, missing, engine) -> None:
    problem = make(kind, 1, missing=missing, triples=1)
    field, rows = problem.field, problem.rows
    evaluator = DenseEvaluator(Dataset.single(problem.table), PseudoLikelihood(), engine)
    loss, gradient = evaluator.evaluate(field.graphs, field.theta)
    assert loss == pytest.approx(problem.slow.pl_loss(rows), rel=1e-12)
    features = [*field.pairs.tolist(), *field.conjunctions.tolist()]
    np.testing.assert_allclose(gradient, problem.slow.pl_gradient(rows, features), rtol=0, atol=1e-11)


@pytest.mark.parametrize("kind", TARGETS)
def test_the_gradient_of_cd_is_that_of_the_oracle(kind, engine) -> None:
    problem = make(kind, 3)
    field = problem.field
    evaluator = DenseEvaluator(Dataset.single(problem.table), ContrastiveDivergence(), engine)
    _, gradient = evaluator.evaluate(field.graphs, field.theta)
    np.testing.assert_allclose(
        gradient, problem.slow.cd_gradient(problem.rows, field.pairs.tolist()), rtol=0, atol=1e-11
    )


@pytest.mark.parametrize("name", ["exact", "bp", "gibbs"])
@pytest.mark.parametrize("kind", TARGETS)
def test_missing_cells_get_the_marginals_of_enumeration(kind, name) -> None:
    """A row with two missing cells is a tree, on which belief propagation is exact."""
    most = 2 if name == "bp" else None
    problem = make(kind, 5, missing=0.7, most=most, triples=0 if name == "bp" else 1)
    options = {"chains": 8, "burn_in": 50, "sweeps": 1500} if name == "gibbs" else {}
    block, filled = problem.fill(name, **options)
    assert filled.unconverged == 0
    (found,) = filled.values
    cells = list(problem.missing_cells())
    assert max(np.bincount([row for _, row in cells])) >= 2
    for v, row in cells:
        exact = problem.slow.marginals(problem.block.codes[:, row].tolist(), problem.given(row))[v]
        assert found[problem.states(v), row] == pytest.approx(exact, abs=0.04 if name == "gibbs" else 1e-8)
    assert_beliefs_follow(problem, block, found)


def assert_beliefs_follow(problem: Problem, block: Block, probabilities: np.ndarray) -> None:
    """Beliefs are the expected columns, and observed cells have the probability 1."""
    offsets = problem.schema.target_offsets
    for v, variable in enumerate(problem.schema.targets):
        expected = variable.coded.T @ probabilities[problem.states(v)]
        np.testing.assert_allclose(block.beliefs[offsets[v] : offsets[v + 1]], expected, rtol=0, atol=1e-9)
        observed = np.flatnonzero(block.codes[v] >= 0)
        one_hot = np.arange(len(variable.states))[:, None] == block.codes[v, observed]
        assert np.array_equal(probabilities[problem.states(v)][:, observed], one_hot.astype(float))


@pytest.mark.parametrize("kind", TARGETS)
def test_mean_field_reaches_the_fixed_point_of_the_oracle(kind) -> None:
    problem = make(kind, 6, missing=0.6, size=0.4, triples=1)
    block, filled = problem.fill("mean-field", tolerance=1e-11, max_sweeps=5000)
    assert filled.unconverged == 0
    for i, row in enumerate(problem.rows):
        assert block.beliefs[:, i] == pytest.approx(problem.slow.mean_field(row, 100), abs=1e-8)
    assert_beliefs_follow(problem, block, filled.values[0])


@pytest.mark.parametrize("kind", TARGETS)
def test_observed_cells_are_predicted_with_missing_ones_summed_out(kind) -> None:
    problem = make(kind, 7, missing=0.5)
    with Threads(1) as engine:
        found = predict_observed(problem.field, Dataset.single(problem.table), engine)
    total = 0.0
    for row in range(problem.block.n_rows):
        codes = problem.block.codes[:, row].tolist()
        for v, code in enumerate(codes):
            if code >= 0:
                exact = problem.slow.conditional(v, codes, problem.given(row))
                assert found.values[0][problem.states(v), row] == pytest.approx(exact, abs=1e-8)
                total += problem.block.weight[row] * math.log(exact[code])
    assert found.log_likelihood == pytest.approx(total, rel=1e-8)


@pytest.mark.parametrize("kind", TARGETS)
def test_drawn_rows_have_the_joint_distribution_of_enumeration(kind) -> None:
    n, copies = 500, 16
    problem = make(kind, 8, n_rows=1, missing=0.0, triples=1)
    codes = np.repeat(problem.block.codes, n, axis=1)
    missing = [0, len(codes) - 1]
    codes[missing] = -1
    given = np.repeat(problem.block.covariates, n, axis=1)
    (block,) = cut_into_blocks(problem.schema, codes, given, np.ones(n), problem.schema.n_columns, size=n)
    drawn = np.zeros((len(block.missing_rows), copies), dtype=np.int32)
    columns = np.repeat(block.beliefs, copies, axis=1)
    keys = row_draws.row_keys(0, 0, np.zeros(n, dtype=np.int64), np.arange(n))
    graph, where = problem.field.graphs[0], (block.cell_offsets, block.missing_rows)
    variables = np.repeat(missing, n)
    row_draws.draw_frequencies(problem.schema.coding, variables, block.missing_rows, keys, drawn)
    row_draws.draw_rows(graph, problem.field.theta, *where, keys, 12, columns, drawn)
    found = drawn.reshape(2, n, copies)
    joint = problem.slow.joint(codes[:, 0].tolist(), problem.given(0))
    for assignment, p in joint.items():
        hits = (found[0] == assignment[0]) & (found[1] == assignment[-1])
        error = hits.mean(axis=1).std() / np.sqrt(n)
        assert abs(hits.mean() - p) < 4.5 * error + 0.002
    # The columns of all copies are those of what was drawn.
    for row in (0, n - 1):
        for copy in (0, copies - 1):
            whole = [*codes[:, row].tolist()]
            whole[0], whole[-1] = found[0, row, copy], found[1, row, copy]
            wanted = problem.slow.one_hot(whole, problem.given(0))
            assert columns[:, row * copies + copy] == pytest.approx(wanted, abs=1e-15)


# -- latent variables -------------------------------------------------------------------------------------------------


def latent_conditional(problem: Problem, v: int, row: int) -> list[float]:
    """Return p(v | all other cells but those of latent variables) by enumeration."""
    return problem.slow.conditional(v, problem.block.codes[:, row].tolist(), problem.given(row))


@pytest.mark.parametrize("kind", TARGETS)
def test_latent_variables_are_summed_out_as_enumeration_does(kind, engine) -> None:
    problem = make(kind, 9, missing=0.0, latent=(2, 3))
    field, codes = problem.field, problem.block.codes
    n_visible = len(TARGETS[kind])
    wanted = 0.0
    for v, row in itertools.product(range(n_visible), range(problem.block.n_rows)):
        wanted -= problem.block.weight[row] * math.log(latent_conditional(problem, v, row)[codes[v, row]])
    sample = Dataset.single(problem.table)
    evaluator = LatentEvaluator(sample, PseudoLikelihood(), engine)
    loss, _ = evaluator.evaluate(evaluator.compile(sample.layout.arcs(field.pairs)), field.theta)
    assert loss == pytest.approx(wanted, rel=1e-10)
    found = predict_observed(field, sample, engine)
    assert found.log_likelihood == pytest.approx(-wanted, rel=1e-10)
    for row in range(problem.block.n_rows):
        for v in range(n_visible):
            exact = latent_conditional(problem, v, row)
            assert found.values[0][problem.states(v), row] == pytest.approx(exact, abs=1e-9)
        marginals = problem.slow.marginals(codes[:, row].tolist(), problem.given(row))
        for v in range(n_visible, len(codes)):
            assert found.values[0][problem.states(v), row] == pytest.approx(marginals[v], abs=1e-9)


@pytest.mark.parametrize("kind", TARGETS)
def test_the_gradient_with_latent_variables_is_the_derivative_of_the_loss(kind, engine) -> None:
    problem = make(kind, 10, missing=0.3 if kind == "all" else 0.0, latent=(3,))
    field, sample = problem.field, Dataset.single(problem.table)
    evaluator = LatentEvaluator(sample, PseudoLikelihood(), engine)
    graphs = evaluator.compile(sample.layout.arcs(field.pairs))
    _, gradient = evaluator.evaluate(graphs, field.theta)
    errors, expectations = evaluated(evaluator.gradient_factors())
    n, first = problem.schema.n_target_columns, problem.schema.target_offsets[-2]
    for k, (a, b) in enumerate(field.pairs):  # of visible columns: what induction and certificate rely on
        if kind != "all" and not (first <= a < n or first <= b < n):
            expected = errors[a] @ expectations[b] + (errors[b] @ expectations[a] if b < n else 0.0)
            assert gradient[n + k] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    for k in range(len(field.theta)):
        step = np.zeros(len(field.theta))
        step[k] = 1e-5
        there, back = (evaluator.evaluate(graphs, field.theta + sign * step)[0] for sign in (1, -1))
        assert gradient[k] == pytest.approx((there - back) / 2e-5, rel=1e-5, abs=1e-6)
    loss, gradient = evaluator.evaluate(graphs, 1e4 * field.theta)
    assert np.isfinite([loss, *gradient]).all()


@pytest.mark.parametrize("kind", ["all", "numeric"])
def test_missing_cells_beside_latent_variables(kind, engine) -> None:
    problem = make(kind, 11, missing=0.6, latent=(3,))
    field = problem.field
    slow = SlowField(problem.schema, field.biases, field.pairs, field.weights)
    (found,) = infer(field, Dataset.single(problem.table), INFERENCE["auto"](), engine).marginals
    for v, row in problem.missing_cells():
        exact = slow.marginals(problem.block.codes[:, row].tolist(), problem.given(row))[v]
        assert found[problem.states(v), row] == pytest.approx(exact, abs=1e-6)


# -- schemas that are learned -----------------------------------------------------------------------------------------


def part(block, rows: slice):
    codes = np.ascontiguousarray(block.codes[:, rows])
    cell_variable, missing_rows = np.nonzero(codes < 0)
    return block._replace(
        start=rows.start,
        codes=codes,
        beliefs=np.ascontiguousarray(block.beliefs[:, rows]),
        weight=np.ascontiguousarray(block.weight[rows]),
        cell_offsets=np.searchsorted(cell_variable, np.arange(len(codes) + 1)),
        missing_rows=np.ascontiguousarray(missing_rows),  # as tables have it: others would be compiled for once more
    )


@pytest.mark.parametrize("name", ["pl", "cd"])
@given(seed=st.integers(0, 2**32 - 1), cuts=st.lists(st.integers(1, 19), max_size=5, unique=True))
def test_splitting_into_blocks_changes_nothing_but_rounding(make_problem, name, seed, cuts) -> None:
    problem = make_problem(seed, n_rows=20)
    edges = [0, *sorted(cuts), 20]
    blocks = [part(problem.table.blocks[0], slice(i, j)) for i, j in pairwise(edges)]
    table = Table(problem.schema, tuple(blocks), 20)
    graphs = problem.graphs
    with Threads(1) as engine:
        whole = DenseEvaluator(problem.sample, OBJECTIVES[name](), engine)
        split = DenseEvaluator(Dataset.single(table), OBJECTIVES[name](), engine)
        one, other = whole.evaluate(graphs, problem.theta), split.evaluate(graphs, problem.theta)
        assert one[0] == pytest.approx(other[0], rel=1e-12)
        np.testing.assert_allclose(one[1], other[1], rtol=0, atol=1e-11)
        np.testing.assert_allclose(
            whole.gradient_factors().means[0], split.gradient_factors().means[0], rtol=0, atol=1e-13
        )
        np.testing.assert_allclose(whole.moments(), split.moments(), rtol=0, atol=1e-13)
    errors, expected = evaluated(split.gradient_factors())[0], evaluated(whole.gradient_factors())[0]
    np.testing.assert_allclose(errors, expected, rtol=0, atol=1e-13)


def test_the_hessian_of_biases_is_p_times_1_minus_p_over_observed_cells(make_problem, engine) -> None:
    problem = make_problem(3, missing=0.2)
    evaluator = DenseEvaluator(problem.sample, OBJECTIVES["pl"](), engine)
    evaluator.evaluate(problem.graphs, problem.theta)
    expected = np.zeros(problem.schema.n_target_columns)
    for row in problem.rows:
        for v, code in enumerate(row.codes):
            if code >= 0:
                for s, p in zip(problem.slow.columns(v), problem.slow.update(v, row.q)[1:], strict=True):
                    expected[s] += row.weight * p * (1 - p)
    np.testing.assert_allclose(evaluator.bias_hessian(), expected, rtol=0, atol=1e-11)
    out = np.empty(2)
    bias_hessian(np.array([[0.0, 0.5], [0.0, 0.0]]), np.array([0.0, 2.0]), np.zeros(2, dtype=bool), out)
    assert out.tolist() == [0.375, 0.0]

"""A fit on a sparse table ends where one on the dense table ends, certified; and what it learned can be kept."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
from safetensors import safe_open
from safetensors.numpy import save_file
from sparse_tables import switches

from sparsefield import FixedGraph, MarkovField, config, load
from sparsefield.data import BinarySchema
from sparsefield.errors import ModelFileError
from sparsefield.objectives import DenseEvaluator, SparseEvaluator
from sparsefield.solver import FitResult, Trainer

pytestmark = pytest.mark.grid(keep=2)

L1 = 1.5


def fit(X, *, sparse: bool = True, observed=None, sample_weight=None, **options) -> MarkovField:
    """By the one path or by the other; and by no other."""
    kinds = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "SPARSE_DENSITY", 1.0 if sparse else 0.0)
        patch.setattr(config, "CELLS_OF_SPARSE_BLOCK", 60)
        begin = Trainer._initialize
        patch.setattr(Trainer, "_initialize", lambda self: (kinds.append(type(self.evaluator)), begin(self))[1])
        field = MarkovField(l1=2.0).set_params(**{"n_jobs": 1, "l1": L1, **options})
        field.fit(X, observed=observed, sample_weight=sample_weight)
    assert kinds == [SparseEvaluator if sparse else DenseEvaluator]
    return field


def weights(field: MarkovField) -> dict[tuple, float]:
    return dict(zip(map(tuple, field.field_.pairs.tolist()), field.field_.weights.tolist(), strict=True))


def assert_same_optimum(one: MarkovField, other: MarkovField, tiny: float = 0.02) -> None:
    assert one.converged_
    assert other.converged_
    for field in (one, other):
        assert field.kkt_violation_ <= field.get_params()["solver__kkt_tol"] * field.l1
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-5)
    mine, theirs = weights(one), weights(other)
    for pair in set(mine) | set(theirs):
        assert mine.get(pair, 0.0) == pytest.approx(theirs.get(pair, 0.0), abs=tiny)


@pytest.mark.parametrize(
    "options",
    [
        {"induction": "grafting"},
        {"induction": "cfi"},
        {"induction": "cfi", "induction__threshold": 0.0},
        {"induction": "full"},
        {"induction": FixedGraph(edges=[(k, k + 1) for k in range(24)] + [(3, 9)])},
        {"penalize_biases": True},
        {"penalize_biases": True, "l2": 0.0},
        {"l2": 0.0},
        {"l2": 5.0, "l1": 0.5},
        {"solver__stages": 2},
        {"induction__batch_size": 3},
        {"induction__steps_per_batch": 2},
        {"induction__steps_per_batch": "converge"},
    ],
    ids=str,
)
def test_both_paths_end_at_the_same_certified_optimum(options) -> None:
    X = switches(0)
    one, other = fit(X, **options), fit(X, sparse=False, **options)
    assert len(one.field_.weights) > 10
    assert_same_optimum(one, other)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("l1", [0.3, 3.0])
def test_other_tables_too(seed, l1) -> None:
    X = switches(10 + seed, n_rows=150, n_columns=15, density=0.1)
    assert_same_optimum(fit(X, l1=l1), fit(X, sparse=False, l1=l1), tiny=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("sparse", [True, False])
def test_small_batches_end_with_a_certificate_too(sparse) -> None:
    rng = np.random.default_rng(0)
    on = rng.random((3000, 150)) < 0.004
    for k in range(1, 150):
        on[:, k] |= on[:, k - 1] & (rng.random(3000) < 0.7)
    field = fit(sp.csr_matrix(on.astype(np.int8)), sparse=sparse, l1=0.3, induction__batch_size=100)
    assert field.n_iter_ < field.get_params()["solver__max_iter"]
    assert field.converged_
    assert field.objective_ == pytest.approx(9702.5277, rel=1e-5)  # where batch_size="auto" ends, certified


def test_observed_columns_and_weights() -> None:
    X, weight = switches(1), np.random.default_rng(0).uniform(0.0, 3.0, 300)
    given = {"observed": ["x3", "x10"], "sample_weight": weight}
    one, other = fit(X, **given), fit(X, sparse=False, **given)
    assert_same_optimum(one, other)
    assert one.states_ == other.states_
    assert "x3" not in one.states_


def test_the_objective_is_that_of_the_field() -> None:
    """Loss by the dense answers, and the penalty of its weights."""
    X = switches(2)
    field = fit(X, l2=0.5)
    w = field.field_.weights
    penalty = L1 * np.abs(w).sum() + 0.25 * np.square(w).sum()
    assert -field.score(X) * X.shape[0] + penalty == pytest.approx(field.objective_, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("induction", ["grafting", "cfi", "full"])
def test_without_a_certificate_the_violation_is_reported_all_the_same(induction) -> None:
    X = switches(3)
    field = fit(X, induction=induction, solver__certify=False)
    certified = fit(X, induction=induction)
    assert np.isfinite(field.kkt_violation_)
    assert field.kkt_violation_ >= 0.0
    assert certified.objective_ <= field.objective_ + 1e-3
    assert field.objective_ == pytest.approx(certified.objective_, rel=0.02)


def test_the_certificate_is_that_of_the_dense_path() -> None:
    """The violation that a sparse fit reports, recomputed from all candidates by plain NumPy."""
    X = switches(4)
    field = fit(X, l2=1.0, solver__certify=False, solver__max_iter=15)
    on = X.toarray().astype(float)
    learned = field.field_
    n = learned.schema.n_target_columns
    assert n == on.shape[1]
    W = np.zeros((n, n))
    W[tuple(learned.pairs.T)] = learned.weights
    W += W.T
    errors = 1 / (1 + np.exp(-(learned.biases + on @ W))) - on
    gradient = errors.T @ on
    gradient = gradient + gradient.T + W
    outside = np.maximum(np.abs(gradient) - L1, 0.0)
    inside = np.abs(gradient + L1 * np.sign(W))
    violation = np.where(W != 0.0, inside, outside)[np.triu_indices(n, 1)]
    worst = max(violation.max(), np.abs(errors.sum(axis=0)).max())
    assert field.kkt_violation_ == pytest.approx(worst, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("options", [{}, {"penalize_biases": True}, {"induction": "grafting"}], ids=str)
def test_rows_of_weight_2_are_rows_twice(options) -> None:
    X = switches(5)
    often = np.random.default_rng(1).integers(0, 3, X.shape[0])
    often[:20] = 2
    repeated = X[np.repeat(np.arange(X.shape[0]), often)]
    options = {"solver__kkt_tol": 1e-6, "solver__tol": 1e-12, **options}
    one, other = fit(X, sample_weight=often, **options), fit(repeated, **options)
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-9)
    np.testing.assert_allclose(one.field_.biases, other.field_.biases, atol=1e-6)
    mine, theirs = weights(one), weights(other)
    for pair in set(mine) | set(theirs):
        assert mine.get(pair, 0.0) == pytest.approx(theirs.get(pair, 0.0), abs=1e-6)


def with_constants(X: sp.csr_matrix) -> sp.csr_matrix:
    on = X.toarray()
    on[:, [0, 7, 24]] = 0
    on[:, 4] = 1
    return sp.csr_matrix(on)


@pytest.mark.parametrize("observed", [None, ["x4", "x7", "x9"]])
def test_empty_and_full_columns_carry_nothing(observed) -> None:
    X = with_constants(switches(6))
    one, other = fit(X, observed=observed), fit(X, sparse=False, observed=observed)
    assert_same_optimum(one, other)
    assert one.states_.get("x0") == [0]
    assert one.field_.schema.n_columns == 21
    without = fit(sp.csr_matrix(np.delete(X.toarray(), [0, 4, 7, 24], axis=1)), observed=observed and ["x6"])
    assert without.objective_ == pytest.approx(one.objective_, rel=1e-9)


def test_columns_that_are_all_empty_leave_nothing_to_learn() -> None:
    field = fit(sp.csr_matrix((10, 4), dtype=np.int8))
    assert field.converged_
    assert field.objective_ == 0.0
    assert len(field.features_) == 0
    assert field.predict_proba(sp.csr_matrix((3, 4), dtype=np.int8))["x2"].tolist() == [[1.0]] * 3


@pytest.mark.slow
@pytest.mark.parametrize("induction", ["cfi", "grafting", "full"])
def test_any_number_of_threads_gives_the_same_file(tmp_path, induction) -> None:
    files = set()
    for n_jobs in (1, 2, 3):
        fit(switches(7), n_jobs=n_jobs, induction=induction, solver__max_iter=60, solver__certify=False).save(
            tmp_path / "field"
        )
        files.add((tmp_path / "field").read_bytes())
    assert len(files) == 1


@pytest.mark.slow
def test_fitting_again_gives_the_same_file(tmp_path) -> None:
    files = set()
    for _ in range(2):
        fit(switches(7)).save(tmp_path / "field")
        files.add((tmp_path / "field").read_bytes())
    assert len(files) == 1


# -- what was learned is kept --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "field"
    fit(with_constants(switches(8)), observed=["x4", "x9"]).save(path)
    return path


def test_a_field_comes_back_whole(tmp_path) -> None:
    X = with_constants(switches(8))
    field = fit(X, observed=["x4", "x9"])
    assert isinstance(field.field_.schema, BinarySchema)
    for name in ("one", "other"):
        field.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    again = load(tmp_path / "one")
    assert isinstance(again.field_.schema, BinarySchema)
    assert again.field_.schema == field.field_.schema
    assert again.field_.layout == field.field_.layout
    assert np.array_equal(again.field_.theta, field.field_.theta)
    assert again.states_ == field.states_
    assert again.features_.equals(field.features_)
    assert again.score(X) == field.score(X)
    mine, theirs = field.predict_proba(X), again.predict_proba(X)
    assert list(mine) == list(theirs)
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "one").read_bytes()


def test_a_field_from_a_sparse_table_answers_for_dense_tables_with_missing_cells() -> None:
    X = switches(9)
    field = fit(X)
    incomplete = X.toarray().astype(float)
    incomplete[np.random.default_rng(0).random(incomplete.shape) < 0.1] = np.nan
    filled = field.transform(incomplete)
    assert not np.isnan(filled).any()
    assert np.array_equal(filled[~np.isnan(incomplete)], incomplete[~np.isnan(incomplete)])
    np.testing.assert_allclose(field.score(X), field.score(X.toarray()))
    assert field.sample(5, burn_in=3).shape == (5, 25)


def rewritten(saved, path, tensors=None, document=None) -> None:
    with safe_open(saved, framework="np") as file:
        metadata = dict(file.metadata())
        held = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if tensors is not None:
        tensors(held)
    if document is not None:
        inside = json.loads(held["document"].tobytes())
        document(inside["tables"][0])
        held["document"] = np.frombuffer(json.dumps(inside).encode(), dtype=np.uint8)
    save_file(held, path, metadata)


def change(name: str, how):
    def tensors(held: dict) -> None:
        held[name] = np.ascontiguousarray(how(held[name]))

    return {"tensors": tensors}


def put(array: np.ndarray, value) -> np.ndarray:
    array = array.copy()
    array[0] = value
    return array


def names(how: Callable[[list], None]) -> dict:
    """Damage to the names: those of targets, of observed columns, and all in their order."""

    def damage(held: dict) -> None:
        parts = json.loads(held["names.0"].tobytes())
        how(parts)
        held["names.0"] = np.frombuffer(json.dumps(parts).encode(), dtype=np.uint8)

    return {"tensors": damage}


DAMAGE = {
    "shares cut": change("shares.0", lambda a: a[:-1]),
    "shares in two dimensions": change("shares.0", lambda a: a[:, None]),
    "shares longer": change("shares.0", lambda a: np.append(a, 0.5)),
    "shares in half the digits": change("shares.0", lambda a: a.astype(np.float32)),
    "a share beyond 1": change("shares.0", lambda a: put(a, 1.5)),
    "a share below 0": change("shares.0", lambda a: put(a, -0.1)),
    "a share that is no number": change("shares.0", lambda a: put(a, np.nan)),
    "has_one cut": change("has_one.0", lambda a: a[:3]),
    "has_zero cut": change("has_zero.0", lambda a: a[1:]),
    "seen in numbers": change("has_one.0", lambda a: a.astype(np.int64)),
    "seen all on, so that there are more states": change("has_one.0", np.ones_like),
    "seen neither on nor off": change("has_zero.0", np.zeros_like),
    "no shares": {"tensors": lambda held: held.pop("shares.0")},
    "no has_one": {"tensors": lambda held: held.pop("has_one.0")},
    "a target twice": names(lambda n: n[0].__setitem__(0, n[0][1])),
    "an observed column twice": names(lambda n: n[1].__setitem__(0, n[1][1])),
    "a name in both": names(lambda n: n[1].__setitem__(0, n[0][0])),
    "a name twice in order": names(lambda n: n[2].__setitem__(0, n[2][1])),
    "names in another order": names(lambda n: n[2].reverse()),
    "a name less": names(lambda n: n[0].pop()),
    "a name less in order": names(lambda n: n[2].pop()),
    "two parts": names(lambda n: n.pop()),
    "four parts": names(lambda n: n.append([])),
    "names that are none": names(lambda n: n.__setitem__(0, 3)),
    "no names": {"tensors": lambda held: held.pop("names.0")},
    "no words": change("names.0", lambda a: a[:-1]),
    "neither binary columns nor variables": {"document": lambda t: t.pop("binary")},
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_refused_in_one_line(saved, tmp_path, damage) -> None:
    rewritten(saved, tmp_path / "odd", **DAMAGE[damage])
    with pytest.raises(ModelFileError) as caught:
        load(tmp_path / "odd")
    assert "damaged" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "odd") in str(caught.value)


def test_a_file_that_is_only_rewritten_is_read(saved, tmp_path) -> None:
    rewritten(saved, tmp_path / "same")
    assert np.array_equal(load(tmp_path / "same").field_.theta, load(saved).field_.theta)


def test_features_without_a_weight_are_dropped_while_others_are_optimized() -> None:
    history = fit(switches(0, n_rows=2000, n_columns=80), l1=2.0).history_
    sizes = history.filter(history["phase"] == "optimize")["features"]
    assert sizes.min() < sizes.max()


def test_a_path_keeps_the_candidates_that_it_adds_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[list[tuple[int, int]]] = []
    optimize, step = Trainer.optimize_with, Trainer._step

    def watch_fit(trainer: Trainer, candidates: np.ndarray, min_gradient: float) -> FitResult:
        steps.append([])
        return optimize(trainer, candidates, min_gradient)

    def watch_step(trainer: Trainer, phase: str) -> bool:
        if phase == "path":
            steps[-1].append((len(trainer.problem.working_set), int(trainer.problem.active.sum())))
        return step(trainer, phase)

    monkeypatch.setattr(config, "SPARSE_DENSITY", 1.0)
    monkeypatch.setattr(Trainer, "optimize_with", watch_fit)
    monkeypatch.setattr(Trainer, "_step", watch_step)
    MarkovField(n_jobs=1).fit(switches(0, n_rows=2000, n_columns=80))
    assert all(len({size for size, _ in fit}) <= 1 for fit in steps)
    assert any(active < 0.9 * size for fit in steps for size, active in fit[1:])

"""On a device of torch, loss, gradient, scores and optima are those of the kernels of the CPU."""

from __future__ import annotations

import sys
from functools import partial
from importlib.util import find_spec

import numpy as np
import polars as pl
import pytest
from oracle import candidate_pairs
from random_tables import chain, hide
from sparse_tables import switches

from sparsefield import CRFClassifier, Features, MarkovField, Solver, config
from sparsefield.compute import Threads
from sparsefield.compute.torch_engine import memory_errors, open_device, open_engine
from sparsefield.errors import DataError, DeviceWarning
from sparsefield.induction import CFI, Grafting
from sparsefield.objectives import EM, PseudoLikelihood
from sparsefield.objectives.objective import PairQuery
from sparsefield.solver import evidence

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")

SHAPES = {
    "binary": {"states": (2,) * 6, "observed_states": (), "numbers": 0},
    "many states": {"states": (2, 3, 5, 2, 3), "numbers": 2, "symmetric": True},
    "levels": {"states": (4, 2, 5, 1, 3), "kinds": {"x0": "ordinal", "x2": "ordinal"}, "n_rows": 20},
    "complete": {"states": (2, 4, 2, 3), "missing": 0.0},
}


@pytest.fixture(params=["matrices", "columns", "small tiles"])
def device(request, monkeypatch) -> Threads:
    """The CPU, by products of whole matrices, of single columns, and of parts of matrices."""
    from sparsefield.objectives import torch_evaluator

    monkeypatch.setattr(torch_evaluator, "MATRIX_SHARE", {"matrices": 0.0, "columns": 1.0}.get(request.param, 1.0))
    if request.param == "small tiles":
        monkeypatch.setattr(torch_evaluator, "TILE_NUMBERS", 30)
        monkeypatch.setattr(torch_evaluator, "RUN", 2)
    return open_engine("torch")


@needs_torch
@pytest.mark.parametrize("shape", SHAPES)
def test_an_evaluation_is_that_of_the_cpu(make_problem, device, shape) -> None:
    problem = make_problem(1, **SHAPES[shape])
    problems = [PseudoLikelihood().make_problem(problem.sample, engine) for engine in (Threads(1), device)]
    layout, others = problem.layout, np.array(candidate_pairs(problem.schema))[::2]
    results = []
    for evaluator in problems:
        loss, gradient = evaluator.evaluate(evaluator.compile(layout.arcs(problem.pairs)), problem.theta)
        other = evaluator.gradient(evaluator.compile(layout.arcs(others)), layout.n_target_columns + len(others))
        errors = np.concatenate([part.errors for part in evaluator.evaluated.map(lambda part: part)], axis=1)
        results.append([np.array(loss), gradient, other, evaluator.bias_hessian(), *evaluator.moments(), errors])
    for of_cpu, of_device in zip(*results, strict=True):
        np.testing.assert_allclose(of_device, of_cpu, rtol=1e-12, atol=1e-12)


@needs_torch
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_scores_are_those_of_grafting(make_problem, device, shape, grouped) -> None:
    problem = make_problem(2, **SHAPES[shape])
    layout, known = problem.layout, problem.pairs[::3]
    edges = np.unique(layout.edge_keys(known)) if grouped else None
    proposals = []
    for engine in (Threads(1), device):
        with engine:
            evaluator = PseudoLikelihood().make_problem(problem.sample, engine)
            evaluator.evaluate(evaluator.compile(layout.arcs(problem.pairs)), problem.theta)
            for l1, limit in ((0.0, None), (0.3, None), (0.3, 5)):
                query = PairQuery(l1, np.sort(layout.keys(known)), limit, edges)
                found = evaluator.gradient_factors().propose(Grafting(), query)
                if limit is not None:  # a device may return more than are asked for
                    found = found.take(np.flatnonzero(found.score >= np.sort(found.score)[-limit:].min(initial=np.inf)))
                proposals.append(found.take(np.argsort(layout.keys(found.features))))
    for of_cpu, of_device in zip(proposals[:3], proposals[3:], strict=True):
        np.testing.assert_array_equal(of_device.features, of_cpu.features)
        np.testing.assert_allclose(of_device.gradient, of_cpu.gradient, atol=1e-12)
        np.testing.assert_allclose(of_device.score, of_cpu.score, atol=1e-12)
    rough = evaluator.gradient_factors().propose(CFI(), PairQuery(0.3, np.sort(layout.keys(known))))
    assert grouped or rough.score.sum() == pytest.approx(proposals[1].score.sum(), rel=1e-4)


def _mixed() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 9)) + rng.normal(size=(300, 9))
    letters = np.array(list("abcd"))[np.clip((hidden[:, :3] + 2).astype(int), 0, 3)]
    columns = {f"n{k}": letters[:, k] for k in range(3)} | {f"x{k}": hidden[:, 3 + k] for k in range(2)}
    return pl.DataFrame(columns | {f"b{k}": np.where(hidden[:, 5 + k] > 0, "yes", "no") for k in range(4)})


BINARY = chain(300, 8, flip=0.4)
FITS = {
    "binary": (MarkovField, BINARY, {}, {}),
    "weights": (MarkovField, BINARY, {}, {"sample_weight": np.random.default_rng(0).uniform(0.0, 2.0, 300)}),
    "mixed": (MarkovField, _mixed(), {"l1": 3.0}, {}),
    "observed": (MarkovField, _mixed(), {"l1": 3.0, "observed": ["x1", "b3"]}, {}),
    "groups": (MarkovField, _mixed(), {"l1": 4.0, "penalty": "group"}, {}),
    "full": (MarkovField, _mixed(), {"l1": 3.0, "induction": "full"}, {}),
    "sparse": (MarkovField, switches(0, density=0.02), {"l1": 2.0}, {}),
    "labels": (CRFClassifier, _mixed().drop("b0", "b1"), {}, {"y": _mixed()["b0"]}),
    "missing": (MarkovField, hide(BINARY, 0.2), {"missing": EM(copies=32, max_copies=128)}, {}),
    "clamped": (MarkovField, hide(BINARY, 0.1), {"missing": "mean-field"}, {}),
    "ebic": (MarkovField, BINARY, {"l1": "auto", "selection": "ebic", "refit": True}, {}),
    "held out": (MarkovField, BINARY[:, :5], {"l1": "auto"}, {}),
}


@needs_torch
@pytest.mark.parametrize("case", FITS)
def test_fits_have_the_optimum_of_the_cpu(case) -> None:
    kind, X, params, options = FITS[case]
    draws = case in ("missing", "clamped")  # which continue from weights that differ in their last bits
    solver = partial(Solver, kkt_tol=1e-3 if draws else 1e-5, tol=0.0, max_iter=20_000)
    fields = [
        kind(**{"l1": 4.0, "random_state": 0, "solver": solver(engine=engine), **params}) for engine in (None, "torch")
    ]
    records = [field.fit(X, **options).field_.record for field in fields]
    assert records[1].converged
    assert records[1].l1 == pytest.approx(records[0].l1, rel=1e-6)
    assert records[1].objective == pytest.approx(records[0].objective, rel=1e-3 if draws else 1e-10)
    if not draws:
        of_cpu, of_device = (field.field_ for field in fields)
        np.testing.assert_array_equal(of_device.pairs, of_cpu.pairs)
        np.testing.assert_allclose(of_device.weights, of_cpu.weights, rtol=0, atol=1e-4)
        if records[0].evidence is not None:
            # Weights differ in their last bits, and the steps of a test end where a p-value is plainly large.
            here, there = (np.nan_to_num(record.evidence.p_values, nan=1.0) for record in records)
            assert (np.abs(there - here) <= np.where(here < 0.05, 1e-3 + 0.05 * here, 0.1)).all()


@needs_torch
@pytest.mark.parametrize("added", [1.0, 1e9])
@pytest.mark.parametrize("case", ["binary", "weighted", "mixed"])
def test_edges_have_the_p_values_of_the_cpu(case, added, monkeypatch) -> None:
    monkeypatch.setattr(evidence, "TILE_NUMBERS", 2000)
    monkeypatch.setattr(evidence, "MAX_AT_FIXED_L1", added)  # edges alone, or all columns, are in the regressions
    X, weight = (_mixed() if case == "mixed" else BINARY), None
    if case == "weighted":
        weight = np.random.default_rng(0).uniform(0.0, 2.0, len(X))
    p_values = []
    for engine in (None, "torch"):
        solver = Solver(kkt_tol=1e-6, tol=0.0, max_iter=20_000, engine=engine)
        record = MarkovField(l1=4.0, solver=solver).fit(X, sample_weight=weight).field_.record
        p_values.append(dict(zip(record.evidence.edges, record.evidence.p_values, strict=True)))
    # Newton steps end within a share of a standard error, wherever they began.
    assert p_values[1] == pytest.approx(p_values[0], rel=0.02)


@needs_torch
@pytest.mark.parametrize("case", ["mixed", "groups", "full", "sparse", "clamped"])
def test_rows_beyond_the_memory_of_a_device_are_sent_in_parts(case, monkeypatch) -> None:
    from sparsefield.objectives import torch_evaluator

    for name, value in {"CELLS_OF_SPARSE_BLOCK": 100, "MIN_BLOCK_ROWS": 64}.items():
        monkeypatch.setattr(config, name, value)
    parts, (kind, X, params, options) = set(), FITS[case]
    sends, fields = torch_evaluator.DeviceTable._send_rows, []
    monkeypatch.setattr(
        torch_evaluator.DeviceTable,
        "_send_rows",
        lambda self, blocks: parts.add(len(self._parts)) or sends(self, blocks),
    )
    for memory in (np.inf, 10_000.0):
        parts.clear()
        monkeypatch.setattr(torch_evaluator, "memory_of", lambda device, memory=memory: memory)
        solver = Solver(engine="torch", kkt_tol=1e-5)
        field = kind(**{"l1": 4.0, "random_state": 0, "solver": solver, **params}).fit(X, **options)
        fields.append(field.field_)
        assert (min(parts) > 1) == (memory < np.inf)
    np.testing.assert_array_equal(fields[1].pairs, fields[0].pairs)
    np.testing.assert_allclose(fields[1].theta, fields[0].theta, rtol=0, atol=1e-4)
    assert fields[1].record.objective == pytest.approx(fields[0].record.objective, rel=1e-10)


@needs_torch
@pytest.mark.parametrize("case", ["mixed", "missing"])
def test_the_same_bits_on_every_run(case) -> None:
    fields = [MarkovField(l1=3.0, solver=Solver(engine="torch")).fit(FITS[case][1]).field_ for _ in range(2)]
    np.testing.assert_array_equal(fields[0].theta, fields[1].theta)


@needs_torch
@pytest.mark.parametrize("shape", ["binary", "levels"])
def test_draws_on_a_device_have_the_probabilities_of_all_completions(make_problem, device, shape) -> None:
    problem = make_problem(4, **{**SHAPES[shape], "missing": 0.5})
    evaluator, codes = PseudoLikelihood().make_problem(problem.sample, device, EM()), problem.table.codes()
    graphs, sums, rounds = evaluator.compile(problem.layout.arcs(problem.pairs)), 0.0, 300
    for k in range(rounds + 1):
        copies = 16 if k else 3  # further chains go on from the first ones
        evaluator.draw(graphs, problem.theta, copies)
        (rows,) = evaluator.table.rows()
        if k:
            states = rows.values[: problem.layout.n_target_columns].numpy()
            sums = sums + np.stack([states[s] * states for s in range(len(states))]) / rounds
    incomplete = np.flatnonzero((codes < 0).any(axis=0))
    assert rows.weight.sum().item() == pytest.approx(problem.table.total_weight)
    sums = sums[..., codes.shape[1] - len(incomplete) :].reshape(*sums.shape[:2], -1, 16).mean(axis=3)
    for k, row in enumerate(incomplete):
        joint = problem.slow.joint(codes[:, row].tolist(), problem.table.blocks[0].covariates[:, row].tolist())
        states = np.array([problem.slow.one_hot(completion) for completion in joint])
        expected = np.einsum("c,ca,cb->ab", list(joint.values()), states, states)
        np.testing.assert_allclose(sums[..., k], expected, atol=0.06 * max(1.0, np.abs(states).max() ** 2))


@needs_torch
@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"objective": "cd", "missing": "mean-field"}, "Solver.engine='torch'. .*not for objective='cd'"),
        ({"features": Features(max_order=3)}, "not for max_order=3"),
        ({"latent": {"z": 2}}, "without latent variables"),
    ],
)
def test_what_a_device_does_not_support_is_refused_in_a_sentence(params, words) -> None:
    with pytest.raises(ValueError, match=words):
        MarkovField(l1=4.0, solver=Solver(engine="torch"), **params).fit(BINARY)


@needs_torch
def test_sparse_covariates_are_refused() -> None:
    with pytest.raises(ValueError, match="With a sparse X engine is None"):
        CRFClassifier(l1=4.0, solver=Solver(engine="torch")).fit(
            switches(0)[:, 1:], switches(0)[:, 0].toarray().ravel()
        )


@needs_torch
def test_without_a_gpu_an_error_or_a_warning_says_so() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match=r"engine='cuda:1' cannot be used by torch .*use engine='torch'"):
        MarkovField(l1=4.0, solver=Solver(engine="cuda:1")).fit(BINARY)
    with pytest.warns(DeviceWarning, match="The fit runs on the CPU: engine='cuda' cannot be used"):
        field = MarkovField(l1=4.0, solver=Solver(engine="auto")).fit(BINARY)
    assert field.field_.record.converged


@needs_torch
def test_too_little_memory_is_an_error_with_figures(monkeypatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**30, 2**31))
    with (
        pytest.raises(DataError, match=r"^9 rows take more than 3\.0 GiB on cuda:0, which has 2\.0 GiB: use fewer"),
        memory_errors(torch.device("cuda:0"), 3 * 2**30, "9 rows"),
    ):
        raise torch.OutOfMemoryError

    def refuse(*_: object) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(evidence, "_minimize", refuse)  # in the tests of edges, too
    with pytest.raises(DataError, match=r"rows x \d+ columns take more than .* on cpu"):
        MarkovField(l1=4.0, solver=Solver(engine="torch")).fit(BINARY)


def test_a_device_needs_torch(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ValueError, match=r"pip install 'sparsefield\[gpu\]'"):
        open_device("cuda")
    with pytest.warns(DeviceWarning, match="The fit runs on the CPU: A GPU needs torch"):
        assert open_engine("auto").device is None

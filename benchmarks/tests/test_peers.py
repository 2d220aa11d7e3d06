"""Peers get sparse data in their own form, and what they were not given time for is said to be projected."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks import glmnet, nodewise, peers
from benchmarks.binary_data import DRAW
from benchmarks.planted import draw_planted


def quiet(line: str) -> None:
    """Say nothing."""


def here(function, *args, time_limit: float | None = None):
    """Stands in for a process of its own, which takes seconds to start."""
    return function(*args)


@pytest.mark.parametrize("name", ["skglm", "celer", "liblinear"])
def test_sparse_and_dense_regressions_agree(name: str) -> None:
    solver = nodewise.SOLVERS[name]
    pytest.importorskip(solver.module)
    matrix = draw_planted(30, 1200, on=5.0, seed=2).matrix
    sparse = nodewise.fit_nodewise(matrix, 4.0, solver)
    dense = nodewise.fit_nodewise(matrix.toarray(), 4.0, solver)
    assert np.abs(sparse.weights - dense.weights).max() < 0.05
    assert np.abs(sparse.bias - dense.bias).max() < 0.05
    assert not np.diag(sparse.weights).any()
    assert sparse.weights.any()


@pytest.mark.parametrize("form", [sp.csr_matrix, np.asarray])
def test_some_nodes_are_fitted_as_they_are_among_all(form) -> None:
    samples = form(draw_planted(20, 600, on=4.0, seed=1).matrix.toarray())
    solver = nodewise.SOLVERS["liblinear"]
    everyone = nodewise.fit_nodes(samples, 3.0, solver)
    some = nodewise.fit_nodes(samples, 3.0, solver, [11, 4, 19])
    assert [fit.node for fit in some] == [4, 11, 19]
    for fit in some:
        same = everyone[fit.node]
        assert fit.columns.tolist() == same.columns.tolist()
        assert fit.weights == pytest.approx(same.weights, abs=1e-2)  # liblinear stops early
        assert fit.seconds > 0


def test_a_sparse_node_that_never_changes_gets_a_bias_alone() -> None:
    cells = np.random.default_rng(0).integers(0, 2, (80, 4)).astype(np.int8)
    cells[:, 2] = 0
    found = nodewise.fit_nodewise(sp.csr_matrix(cells), 1.0, nodewise.SOLVERS["liblinear"])
    assert found.bias[2] == pytest.approx(np.log(0.5 / 80.5))
    assert not found.weights[2].any()


def test_both_kinds_of_data_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "in_child", here)
    kinds = ("dense", "sparse")
    table = peers.run_peers(
        (16,), 300, 200, peers=["liblinear"], validation_rows=200, report=quiet, kinds=kinds, repeats=1
    )
    assert [row["status"] for row in table] == ["done"] * 8
    assert [row["data"] for row in table] == ["Ising N=16"] * 4 + ["sparse N=16"] * 4
    for row in table[1:4] + table[5:]:
        assert row["seconds"] > 0
        assert row["projected_seconds"] is None
        assert row["edge_roc"] > 0.7


def test_the_projection_is_for_all_nodes() -> None:
    data = DRAW["sparse"](60, (300, 100, 50), 0)
    method = peers._peer("liblinear")
    best, projected = peers._choose_by_nodes(method, data.train, data.validation, [1.0, 2.0, 4.0], [3, 7, 20])
    assert best in (1.0, 2.0, 4.0)
    fits = method.fit(data.train, best, [3, 7, 20])
    assert len(fits) == 3
    assert projected > 0


def test_unknown_data_are_refused() -> None:
    with pytest.raises(ValueError, match="no data called 'wet'; there are dense, sparse"):
        peers.run_peers((8,), kinds=("wet",), report=quiet)


# -- glmnet, which is R's -------------------------------------------------------------------------------------


def test_glmnet_is_called_with_its_files_and_its_answer_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for Rscript: it checks what it is given and writes what R would."""
    script = tmp_path / "Rscript"
    script.write_text(
        "#!/bin/sh\n"
        'head -1 "$2/samples.mtx" | grep -q "coordinate real general" || exit 1\n'
        '[ "$(tr "\\n" " " < "$2/nodes.txt")" = "1 2 4 " ] || exit 1\n'
        '[ "$4" = sparse ] || exit 1\n'
        'printf "1 0 -1.5\\n1 2 0.25\\n1 4 -0.5\\n2 -1 0\\n4 0 0.5\\n4 -2 0\\n" > "$2/weights.txt"\n'
        'echo 3.5 > "$2/seconds.txt"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    cells = np.random.default_rng(0).integers(0, 2, (40, 4)).astype(np.int8)
    cells[:, 2] = 1
    found = glmnet.fit_glmnet(sp.csr_matrix(cells), 2.0)
    assert found.seconds == 3.5
    assert [fit.converged for fit in found.fits] == [True, False, True, False]
    regressions = nodewise.assemble(found.fits, 4)
    assert regressions.weights[0].tolist() == [0.0, 0.25, 0.0, -0.5]
    assert regressions.bias[[0, 3]].tolist() == [-1.5, 0.5]
    assert regressions.bias[2] == pytest.approx(np.log(40.5 / 0.5))
    assert np.isfinite(regressions.bias[1])


def test_a_failure_of_r_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "Rscript"
    script.write_text("#!/bin/sh\necho 'there is no package called glmnet' >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(RuntimeError, match="there is no package called glmnet"):
        glmnet.fit_glmnet(np.eye(4, dtype=np.int8), 1.0)


def test_glmnet_agrees_with_liblinear() -> None:
    if not glmnet.has_glmnet():
        pytest.skip("no R with glmnet here")
    matrix = draw_planted(12, 800, on=2.5, seed=2).matrix
    found = nodewise.assemble(glmnet.fit_glmnet(matrix, 4.0).fits, 12)
    beside = nodewise.fit_nodewise(matrix, 4.0, nodewise.SOLVERS["liblinear"])
    assert np.abs(found.weights - beside.weights).max() < 0.1


@pytest.mark.usefixtures("matplotlib")
def test_seconds_are_drawn_for_each_kind_of_data_and_projections_are_marked() -> None:
    row = {"kind": "dense", "method": "nodewise celer", "nodes": 12, "seconds": None, "projected_seconds": 1234.0}
    ours = row | {"method": "sparsefield", "seconds": 2.0, "projected_seconds": None}
    charts = peers.draw_peers([row, ours, ours | {"kind": "sparse"}])
    legends = {name: chart.axes[0].get_legend_handles_labels()[1] for name, chart in charts.items()}
    assert legends["peers-dense.svg"] == ["nodewise celer", "sparsefield", "projected, not run"]
    assert legends["peers-sparse.svg"] == ["sparsefield"]

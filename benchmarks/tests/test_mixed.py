"""Columns of several kinds: each part of the benchmark on small data, and R's packages on data with a known answer."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from benchmarks import mixed, mixed_peers
from benchmarks.r_scripts import has_packages


def needs(package: str) -> None:
    if not has_packages(package):
        pytest.skip(f"no R with {package} here")


def people(n_rows: int = 120) -> pl.DataFrame:
    """Return a table in which every column depends on the first."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=n_rows)
    near = [first + 0.3 * rng.normal(size=n_rows) for _ in range(2)]
    return pl.DataFrame(
        {
            "size": first,
            "group": np.where(near[0] > 0, "a", "b"),
            "item": np.clip(near[1].round() + 3, 1, 5).astype(int),
        }
    )


@pytest.fixture
def without_r(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed, "has_packages", lambda *packages: False)


def test_hidden_cells_are_filled_by_every_method(monkeypatch: pytest.MonkeyPatch, without_r: None) -> None:
    monkeypatch.setattr(mixed, "load_mixed", lambda name: people())
    lines: list[str] = []
    rows = mixed.run_imputation(report=lines.append, quick=True)
    errors = {row["method"]: row["error"] for row in rows}
    assert list(errors) == ["sparsefield", "IterativeImputer", "boosting per column", "column means"]
    assert max(error for name, error in errors.items() if name != "column means") < errors["column means"]
    assert "survey: mice (R) skipped: no Rscript with the package mice here" in lines


def test_graphs_are_learned_without_r(without_r: None) -> None:
    lines: list[str] = []
    gaussian = {row["method"]: row["f1"] for row in mixed.run_gaussian(report=lines.append, quick=True)}
    ours = ["sparsefield, EBIC, refit", "sparsefield, EBIC", "sparsefield, edges that hold"]
    assert list(gaussian) == [*ours, "glasso, EBIC", "GraphicalLassoCV"]
    assert gaussian["sparsefield, EBIC, refit"] > 0.8
    planted = {row["method"]: row["f1"] for row in mixed.run_planted(report=lines.append, quick=True)}
    assert planted["sparsefield, EBIC, refit"] > 0.8
    skipped = [line for line in lines if "skipped" in line]
    assert [line.split()[-2] for line in skipped] == ["huge", "qgraph", "glmnet"]


def test_items_have_their_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    trait = rng.normal(size=(1700, 1))
    answers = np.clip(np.round(3.5 + trait + rng.normal(size=(1700, 5))), 1, 6).astype(int)
    table = pl.DataFrame({f"A{k + 1}": answers[:, k] for k in range(5)})
    monkeypatch.setattr(mixed, "load_mixed", lambda name: table)
    rows = mixed.run_bfi(report=lambda line: None, quick=True)
    assert [row["method"] for row in rows] == ["ordinal", "nominal"]
    assert rows[0]["loss"] < rows[1]["loss"]


def test_a_chosen_field_predicts_better_than_chance() -> None:
    (row,) = mixed.run_choice(report=lambda line: None, quick=True)
    assert row["ratio"] == pytest.approx(row["auto"] / row["single"])
    assert 0.0 < row["loss"] < 4.0


def test_mice_takes_means_of_numbers_and_the_most_frequent_state() -> None:
    needs("mice")
    table = people(200)
    hidden = mixed.hide_cells(table, 0.2, 1)
    assert hidden.kinds == ("numeric", "nominal", "ordinal")
    for kinds in (hidden.kinds, ("numeric", "nominal", "levels")):
        found = mixed_peers.impute_with_mice(hidden.shown, kinds)
        known = ~np.isnan(hidden.shown)
        assert found.result[known] == pytest.approx(hidden.shown[known], rel=1e-12)
        assert set(np.unique(found.result[:, 1])) <= {0.0, 1.0}
        assert set(np.unique(found.result[:, 2])) <= {0.0, 1.0, 2.0, 3.0, 4.0}
        assert hidden.error(found.result) < hidden.error(mixed._fill_with_most_frequent(hidden))
        assert found.seconds > 0.0


@pytest.mark.parametrize("package", ["huge", "qgraph"])
def test_the_graphical_lasso_of_r_finds_a_chain(package: str) -> None:
    needs(package)
    rng = np.random.default_rng(0)
    columns = [rng.normal(size=1000)]
    for _ in range(5):
        columns.append(0.6 * columns[-1] + 0.8 * rng.normal(size=1000))
    estimate = {"huge": mixed_peers.estimate_with_huge, "qgraph": mixed_peers.estimate_with_qgraph}[package]
    assert estimate(np.column_stack(columns)).result >= {(k, k + 1) for k in range(5)}


def test_nodewise_regressions_of_r_find_a_mixed_graph() -> None:
    needs("glmnet")
    table, true = mixed.draw_mixed_graph((6, 3, 3), 1500, np.random.default_rng(0))
    assert mixed.edge_scores(mixed._regress_by_glmnet(table).result, true)["f1"] > 0.85

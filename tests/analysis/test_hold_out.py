"""Cross-validation over cells hides, learns, predicts and scores, with weights of rows."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from sparsefield import MarkovField, Relational, RelationalField
from sparsefield.analysis import hold_out as module
from sparsefield.analysis.hold_out import Fold, evaluate, hold_out
from sparsefield.analysis.metrics import UNKNOWN, CellPredictions, evaluate_numbers, evaluate_states, score
from sparsefield.errors import DataError

pytestmark = pytest.mark.grid(keep=2)


def weather(n_rows: int = 120, seed: int = 0) -> np.ndarray:
    """Three 0/1 columns that mostly agree, and one that does not care."""
    rng = np.random.default_rng(seed)
    rain = rng.integers(0, 2, n_rows)
    noisy = [np.where(rng.random(n_rows) < 0.9, rain, 1 - rain) for _ in range(2)]
    return np.column_stack([rain, *noisy, rng.integers(0, 2, n_rows)])


def quality(found: Any) -> list[tuple[float, float, float]]:
    return [(fold.ap, fold.cll, fold.error_rate) for fold in found.folds]


def test_a_field_predicts_hidden_cells_better_than_frequencies() -> None:
    found = evaluate(weather(), MarkovField(l1=2.0), folds=5)
    assert len(found.folds) == 5
    assert sum(fold.cells for fold in found.folds) == 4 * 120
    mean = {field.name: found.spread(field.name).mean for field in fields(Fold)}
    assert mean["ap"] > mean["frequency_ap"]
    assert mean["cll"] > mean["frequency_cll"]
    assert mean["error_rate"] < mean["frequency_error_rate"]
    assert mean["converged"] == 1.0
    assert mean["induced"] >= mean["active"] > 0
    assert all(fold.seconds > 0 and fold.iterations > 0 for fold in found.folds)


def test_the_summary_has_mean_and_sample_deviation() -> None:
    found = evaluate(weather(), MarkovField(l1=2.0), folds=3)
    values = [fold.cll for fold in found.folds]
    assert found.spread("cll").mean == pytest.approx(np.mean(values))
    assert found.spread("cll").sd == pytest.approx(np.std(values, ddof=1))
    plain = json.loads(json.dumps(found.as_dict()))
    assert plain["summary"]["cll"]["mean"] == found.spread("cll").mean
    assert len(plain["folds"]) == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda X: X.astype(object),
        lambda X: pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])], index=[7] * len(X)),
        sp.csr_matrix,
    ],
    ids=["object", "index", "sparse"],
)
def test_every_kind_of_table_gives_the_same_figures(make: Any) -> None:
    X = weather(60)
    estimator = MarkovField(l1=2.0, n_jobs=1)
    np.testing.assert_allclose(
        quality(evaluate(make(X), estimator, folds=2)), quality(evaluate(X, estimator, folds=2)), rtol=1e-9
    )


def test_the_split_depends_on_the_seed_alone() -> None:
    X, estimator = weather(60), MarkovField(l1=2.0)
    assert quality(evaluate(X, estimator, 3, seed=1)) == quality(evaluate(X, estimator, 3, seed=1))
    assert quality(evaluate(X, estimator, 3, seed=1)) != quality(evaluate(X, estimator, 3, seed=2))


def test_gaps_are_not_scored_and_observed_columns_not_hidden() -> None:
    X = weather().astype(float)
    X[:30, 0] = np.nan
    found = evaluate(X, MarkovField(l1=2.0), folds=2, observed=["x3"])
    assert sum(fold.cells for fold in found.folds) == 2 * 120 + 90


def test_a_state_with_one_cell_is_known_to_the_fold_that_hides_it() -> None:
    table = pl.DataFrame({"a": ["x", "y"] * 20, "b": ["u"] * 39 + ["rare"]})
    found = evaluate(table, MarkovField(l1=0.5), folds=4)
    # A state of belief 0 would cost 708 in its cell, and about 35 in the mean over the 20 cells of its fold.
    assert min(fold.cll for fold in found.folds) > -3.0
    assert min(fold.frequency_cll for fold in found.folds) > -3.0


def test_a_column_keeps_a_visible_cell() -> None:
    X = weather(40).astype(float)
    X[1:, 3] = np.nan
    found = evaluate(X, MarkovField(l1=2.0), folds=2)
    assert sum(fold.cells for fold in found.folds) == 3 * 40


def test_declared_states_are_predicted_though_no_row_shows_them() -> None:
    X = weather(60)
    X[:, 3] = 1
    X[:, 2] = 0
    states = {"x2": (0, 1, 2), "x3": (0, 1)}
    fields: list[Any] = []
    found = evaluate(X, MarkovField(l1=2.0), folds=2, states=states, on_fit=lambda field, _: fields.append(field))
    assert sum(fold.cells for fold in found.folds) == 4 * 60
    for field in fields:
        assert {name: tuple(known) for name, known in field.states_.items()} == {"x0": (0, 1), "x1": (0, 1), **states}
    seen = evaluate(X, MarkovField(l1=2.0), folds=2)
    assert found.spread("frequency_cll").mean < seen.spread("frequency_cll").mean  # a count goes to each known state


def test_a_look_at_each_fit_shows_the_table_it_was_fitted_to_and_changes_nothing() -> None:
    X = weather(40)
    seen: list[tuple[Any, Any]] = []
    found = evaluate(X, MarkovField(l1=2.0, n_jobs=1), folds=3, on_fit=lambda *given: seen.append(given))
    assert quality(found) == quality(evaluate(X, MarkovField(l1=2.0, n_jobs=1), folds=3))
    missing = np.array([np.isnan(incomplete) for _, incomplete in seen])
    assert [int(hidden.sum()) for hidden in missing] == [fold.cells for fold in found.folds]
    assert (missing.sum(axis=0) == 1).all()
    for (field, incomplete), fold in zip(seen, found.folds, strict=True):
        assert np.array_equal(incomplete[~np.isnan(incomplete)], X[~np.isnan(incomplete)])
        assert (field.n_iter_, len(field.field_.weights)) == (fold.iterations, fold.active)


def test_folds_and_shares_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match=r"folds must be from 2 to .* 160; got 1"):
        evaluate(weather(40), MarkovField(l1=2.0), folds=1)
    with pytest.raises(ValueError, match="got 161"):
        evaluate(weather(40), MarkovField(l1=2.0), folds=161)
    with pytest.raises(ValueError, match="share must be between"):
        hold_out(weather(40), MarkovField(l1=2.0), share=1.5)
    with pytest.raises(DataError, match="too few"):
        hold_out([[0, 1], [1, 0]], MarkovField(l1=2.0), share=0.1)


# -- scores by column -----------------------------------------------------------------------------------------------


def people(n_rows: int = 100) -> pl.DataFrame:
    """Return a table of every kind of column, some of whose cells are missing."""
    rng = np.random.default_rng(0)
    size = rng.normal(size=n_rows)
    cells = {
        "size": 10.0 + 3.0 * size,
        "few": np.round(size) * 0.5,
        "word": np.where(size + 0.5 * rng.normal(size=n_rows) > 0, "large", rng.choice(["small", "tiny"], n_rows)),
        "level": np.clip(np.round(size + 0.5 * rng.normal(size=n_rows)) + 3, 1, 5).astype(int),
    }
    return pl.DataFrame(cells).with_columns(level=pl.when(pl.int_range(n_rows) % 9 != 2).then("level"))


def test_every_column_has_the_scores_of_a_loop_over_cells() -> None:
    table = people()
    seen: list[tuple[Any, pl.DataFrame]] = []
    found = evaluate(table, MarkovField(l1=3.0), folds=3, on_fit=lambda *given: seen.append(given))
    assert [(column.name, column.kind) for column in found.columns] == [
        ("size", "numeric"), ("few", "numeric"), ("word", "nominal"), ("level", "ordinal"),
    ]  # fmt: skip
    for column in found.columns:
        losses, errors, covered, statements = [], [], [], []
        plain_losses, plain_errors = [], []
        for field, incomplete in seen:
            posterior = field.infer(incomplete)
            variable = next(v for v in field.field_.schema.targets if v.name == column.name)
            visible = incomplete[column.name].drop_nulls().to_list()
            for row, (truth, shown) in enumerate(zip(table[column.name], incomplete[column.name], strict=True)):
                if truth is None or shown is not None:
                    continue
                p = posterior.state_probabilities(column.name)[row]
                if column.kind == "numeric":
                    place = sum(truth > cut for cut in variable.cuts)
                    width = 1.0
                    if variable.limits:
                        ends = [variable.limits[0], *variable.cuts, variable.limits[1]]
                        width = (ends[place + 1] - ends[place]) / variable.scale
                    losses.append(-np.log(p[place] / width))
                    plain_losses.append(-np.log(variable.frequencies[place] / width))
                    errors.append((posterior.mean[column.name][row] - truth) ** 2)
                    plain_errors.append((np.mean(visible) - truth) ** 2)
                    ends = [posterior.quantile(q)[column.name][row] for q in (0.05, 0.95)]
                    covered.append(ends[0] <= truth <= ends[1])
                    continue
                place = variable.states.index(truth)
                shares = np.array([visible.count(state) + 1 for state in variable.states], dtype=float)
                shares /= shares.sum()
                losses.append(-np.log(p[place]))
                plain_losses.append(-np.log(shares[place]))
                for guess, into in ((p, errors), (shares, plain_errors)):
                    median = next(k for k in range(len(guess)) if guess[: k + 1].sum() >= 0.5)
                    into.append(abs(median - place) if column.kind == "ordinal" else guess.argmax() != place)
                statements += [(belief, k == place) for k, belief in enumerate(p)]
        assert column.cells == len(losses) == table[column.name].count()
        assert column.loss == pytest.approx(np.mean(losses))
        assert column.baseline_loss == pytest.approx(np.mean(plain_losses))
        power = 0.5 if column.kind == "numeric" else 1.0
        assert column.error == pytest.approx(np.mean(errors) ** power)
        assert column.baseline_error == pytest.approx(np.mean(plain_errors) ** power)
        assert column.loss < column.baseline_loss
        assert column.error < column.baseline_error
        if column.kind == "numeric":
            assert column.coverage == pytest.approx(np.mean(covered))
            assert column.calibration is None
        else:
            assert np.isnan(column.coverage)
            bins = [[s for s in statements if min(int(s[0] * 10), 9) == k] for k in range(10)]
            off = sum(abs(sum(true for _, true in some) - sum(belief for belief, _ in some)) for some in bins)
            assert column.as_dict()["calibration_error"] == pytest.approx(off / len(statements))


def test_relative_errors_of_a_fold_are_those_of_its_numeric_columns() -> None:
    table = people()
    (found,) = hold_out(table, MarkovField(l1=3.0), 0.2).folds
    assert found.rmse < found.frequency_rmse < 1.3
    assert np.isnan(hold_out(table.select("word", "level"), MarkovField(l1=3.0), 0.2).folds[0].rmse)
    assert np.isnan(hold_out(table.select("size", "few"), MarkovField(l1=3.0), 0.2).folds[0].cll)


def test_columns_of_linked_tables_have_the_names_of_their_tables() -> None:
    rng = np.random.default_rng(0)
    town = pl.DataFrame({"name": range(30), "rich": rng.integers(0, 2, 30)})
    home = rng.integers(0, 30, 90)
    wage = town["rich"].to_numpy()[home] + 0.3 * rng.normal(size=90)
    person = pl.DataFrame({"home": home, "wage": wage})
    data = Relational(
        {"town": town, "person": person}, keys={"town": "name"}, links={"home": ("person", "home", "town")}
    )
    found = evaluate(data, RelationalField(l1=2.0), folds=2)
    assert [(column.name, column.kind, column.cells) for column in found.columns] == [
        ("town.rich", "nominal", 30), ("person.wage", "numeric", 90),
    ]  # fmt: skip
    assert all(column.loss < column.baseline_loss for column in found.columns)


def test_dates_have_the_scores_of_their_numbers() -> None:
    rng = np.random.default_rng(0)
    days = rng.integers(0, 90, 200)
    late = np.where(rng.random(200) < 0.9, days > 45, days <= 45)
    dates = np.datetime64("2020-01-01") + days * np.timedelta64(1, "D")
    numbers = pl.DataFrame({"day": days.astype(float), "late": late})
    dated = pl.DataFrame({"day": pl.Series(dates), "late": late})
    options = MarkovField(l1=2.0, kinds={"day": "numeric"})
    found, wanted = (hold_out(table, options, 0.2).folds[0] for table in (dated, numbers))
    assert found.rmse == pytest.approx(wanted.rmse, rel=0.01)  # means of dates are whole days
    assert found.rmse < found.frequency_rmse


def test_progress_hears_of_every_fold_and_the_estimator_stays_unfitted() -> None:
    heard: list[Fold] = []
    estimator = MarkovField(l1=2.0)
    found = evaluate(weather(40), estimator, folds=3, progress=heard.append)
    assert tuple(heard) == found.folds
    assert not hasattr(estimator, "field_")


COSTS = ("seconds", "cpu_seconds", "cells")
"""Entries of a fold that are not scores."""


def mixed(n_rows: int = 60) -> tuple[pl.DataFrame, np.ndarray]:
    rng = np.random.default_rng(1)
    rain = rng.integers(0, 2, n_rows)
    level = np.clip(rain + rng.integers(0, 2, n_rows), 0, 2)
    frame = pl.DataFrame({"rain": rain, "level": level, "heat": np.round(rng.normal(20 - 3 * rain, 2.0), 1)})
    return frame, rng.integers(0, 4, n_rows)


def same(one: float, two: float) -> bool:
    return one == pytest.approx(two, rel=1e-5, abs=1e-7, nan_ok=True)


def test_scores_of_weighted_cells_are_those_of_repeated_cells() -> None:
    rng = np.random.default_rng(0)
    found, truth = rng.dirichlet([1.0, 1.0], 30), rng.integers(0, 2, 30)
    truth[:2] = UNKNOWN
    weight = rng.integers(0, 4, 30)
    weighted = CellPredictions(found, truth, weight.astype(float), 1)
    repeated = CellPredictions(np.repeat(found, weight, axis=0), np.repeat(truth, weight), np.ones(weight.sum()), 1)
    one, two = score([weighted]), score([repeated])
    assert all(same(getattr(one, field.name), getattr(two, field.name)) for field in fields(one))


@pytest.mark.parametrize("kind", ["nominal", "ordinal"])
def test_columns_of_states_have_weighted_means(kind) -> None:
    rng = np.random.default_rng(2)
    found, truth, weight = rng.dirichlet([1.0] * 3, 40), rng.integers(0, 3, 40), rng.integers(1, 4, 40)
    base = np.tile([0.2, 0.3, 0.5], (40, 1))
    one, two = (
        evaluate_states("a", kind, CellPredictions(p, truth, w), CellPredictions(b, t, w))
        for p, truth, b, t, w in (
            (found, truth, base, truth, weight.astype(float)),
            (*(np.repeat(part, weight, axis=0) for part in (found, truth, base, truth)), np.ones(weight.sum())),
        )
    )
    for name in ("loss", "baseline_loss", "error", "baseline_error", "weight"):
        assert same(getattr(one, name), getattr(two, name)), name
    assert one.calibration == pytest.approx(two.calibration)
    # Repeated rows would be taken for independent ones; weights are not, whatever their unit is.
    assert one.cells == 40
    assert one.gain.error > two.gain.error


def test_numbers_have_weighted_means() -> None:
    frame, weight = mixed()
    weight = weight + 1
    variable = MarkovField(l1=5.0).fit(frame).field_.schema.variables[2]
    assert variable.name == "heat"
    rng = np.random.default_rng(3)
    truth = frame["heat"].to_numpy()
    probabilities = rng.dirichlet(np.ones(len(variable.states)), 60)
    answers = [truth + 1.0, truth - 0.5, truth + rng.normal(size=60)]
    both, ones = {"visible_mean": 20.0, "scale": 2.0}, np.ones(weight.sum())
    one = evaluate_numbers("heat", variable, truth, probabilities, answers, weights=weight.astype(float), **both)
    rows = np.repeat(np.arange(60), weight)
    again = [answer[rows] for answer in answers]
    two = evaluate_numbers("heat", variable, truth[rows], probabilities[rows], again, weights=ones, **both)
    assert same(one.gain.value, two.gain.value)
    for name in ("loss", "baseline_loss", "error", "baseline_error", "coverage"):
        assert same(getattr(one, name), getattr(two, name)), name


def test_a_fold_of_weighted_rows_is_that_of_repeated_rows() -> None:
    """The copies of a row are held out together, and beliefs about missing cells need no draws."""
    frame, weight = mixed()
    field = MarkovField(l1=4.0, missing="mean-field").set_params(solver__tol=1e-12, solver__kkt_tol=1e-4)
    weighted = module.TargetCells.of(frame, field, None, sample_weight=weight)
    rows = np.repeat(np.arange(frame.height), weight)
    repeated = module.TargetCells.of(frame[rows], field, None)
    (mask,) = next(module.split_cells(weighted, 5, 0))
    assert not mask[weight == 0].any()
    one, columns = module._run_fold(weighted, field, [mask])
    two, others = module._run_fold(repeated, field, [mask[rows]])
    scores = [item.name for item in fields(one) if item.name not in (*COSTS, "iterations", "induced")]
    for name in scores:
        assert getattr(one, name) == pytest.approx(getattr(two, name), rel=1e-3, abs=1e-4, nan_ok=True), name
    for a, b in zip(columns, others, strict=True):
        assert (a.weight, a.loss, a.error) == pytest.approx((b.weight, b.loss, b.error), rel=1e-3)


def test_linked_tables_have_no_weights() -> None:
    data = Relational({"a": pl.DataFrame({"x": [0, 1, 0, 1], "y": [0, 1, 1, 1]})})
    with pytest.raises(DataError, match="sample_weight"):
        evaluate(data, RelationalField(l1=1.0), folds=2, sample_weight=np.ones(4))


def test_the_score_of_a_field_is_a_weighted_mean() -> None:
    frame, weight = mixed()
    field = MarkovField(l1=4.0).fit(frame, sample_weight=weight)
    repeated = frame[np.repeat(np.arange(60), weight)]
    assert field.score(frame, sample_weight=weight) == pytest.approx(field.score(repeated), rel=1e-9)

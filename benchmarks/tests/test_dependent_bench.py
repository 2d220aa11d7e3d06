"""Fits of dependent data are compared with peers on the same columns."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import column_peers, dependent, glmnet_path
from benchmarks.column_peers import measure_peer, sample_columns, score_columns
from benchmarks.dependent_data import SplitRows, find_cases
from benchmarks.glmnet import has_glmnet
from sparsefield import MarkovField


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls functions in this process: one of their own takes seconds to start."""
    monkeypatch.setattr(dependent, "in_child", lambda function, *args, time_limit=None: function(*args))


def small_data() -> SplitRows:
    return find_cases(["factors"], short=True)[0].draw(1)


@pytest.mark.usefixtures("here")
def test_ours_and_a_peer_have_times_and_scores() -> None:
    heard: list[str] = []
    cases = find_cases(["factors", "ising"], short=True)
    rows = dependent.run_dependent(cases, peers=["liblinear"], columns=10, report=heard.append)
    ours = [row for row in rows if row["method"] == "sparsefield"]
    peers = [row for row in rows if row["method"] == "liblinear"]
    assert [row["data"] for row in ours] == [row["data"] for row in peers] == ["factors", "ising"]
    for row in ours:
        assert row["certified"]
        assert row["largest_working_set"] >= row["weights"] > 0
    for row, peer in zip(ours, peers, strict=True):
        assert peer["times_ours"] == pytest.approx(peer["cpu_seconds"] / row["cpu_seconds"])
        assert peer["fitted_columns"] == 10
        assert peer["l1"] == row["l1"] / 2
        assert peer["score_compared"] == pytest.approx(row["score_compared"], rel=0.05)
    assert sum("times faster than" in line for line in heard) == 2


def test_our_score_is_that_of_the_estimator() -> None:
    data = small_data()
    train, held_out = data.train.copy(), data.held_out.copy()
    train[:, 3], held_out[:, 3] = 0, 0
    field = MarkovField(l1=6.0, n_jobs=1).fit(train)
    fitted = dependent.read_fit(field, train)
    scores = score_columns(held_out, fitted.bias, fitted.weights, range(40))
    varying = np.delete(scores, 3).sum()
    assert varying == pytest.approx(field.score(held_out), abs=1e-6)
    assert scores[3] == pytest.approx(np.log(300.5 / 301.0))


def test_some_columns_score_as_they_do_among_all() -> None:
    data, rng = small_data(), np.random.default_rng(0)
    bias, weights = rng.normal(size=40), rng.normal(size=(40, 40))
    everything = score_columns(data.held_out, bias, weights, range(40))
    assert score_columns(data.held_out, bias, weights, [4, 17]) == pytest.approx(everything[[4, 17]])


def test_columns_that_do_not_vary_are_not_sampled() -> None:
    train = small_data().train.copy()
    train[:, 5] = 1
    assert sample_columns(train, 0) == [k for k in range(40) if k != 5]
    assert len(sample_columns(train, 12)) == 12
    assert sample_columns(train, 12, seed=1) == sample_columns(train, 12, seed=1)


def test_another_penalty_is_tried_only_while_there_is_time() -> None:
    (only,) = measure_peer("liblinear", small_data(), 60.0, [1, 2], budget=0.0)
    assert only.factor == 1.0
    first, best = measure_peer("liblinear", small_data(), 60.0, range(20), budget=60.0)
    assert first.factor == 1.0
    assert best.l1 == pytest.approx(30.0 * best.factor)
    validation = small_data().validation
    assert best.scores(validation).mean() > first.scores(validation).mean()


def test_sparse_rows_are_given_to_peers_in_both_forms() -> None:
    assert len(column_peers._forms(find_cases(["texts"], short=True)[0].draw(0).train)) == 2
    assert len(column_peers._forms(small_data().train)) == 1


def test_peers_that_are_worse_do_not_count_unless_all_are() -> None:
    def row(name: str, seconds: float, score: float) -> dict:
        return {"method": name, "status": "done", "cpu_seconds": seconds, "score_compared": score}

    ours, fast, good = row("ours", 1.0, -80.0), row("fast", 2.0, -81.0), row("good", 5.0, -80.01)
    cut_off = {"method": "slow", "status": "cut off after 9 s", "cpu_seconds": None}
    assert dependent.compare_speed([ours, fast, good, cut_off]).startswith("5 times faster than good, the fastest peer")
    assert dependent.compare_speed([ours, fast]) == (
        "2 times faster than fast, the fastest peer; no peer has a score as good"
    )
    assert dependent.compare_speed([cut_off, fast]) == "nothing to compare"


def test_paths_of_glmnet_choose_a_value_for_each_column() -> None:
    if not has_glmnet():
        pytest.skip("no R with glmnet here")
    data = small_data()
    found = glmnet_path.fit_paths(data, [0, 7, 21])
    assert found.cpu_seconds > 0
    assert found.weights > 0
    (fit,) = measure_peer("liblinear", data, 6.0, [0, 7, 21], budget=0.0)
    assert found.scores == pytest.approx(fit.scores(data.held_out), abs=0.05)

"""What a field answers is what the oracle answers."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from oracle import SlowField, rows_of

from sparsefield import MarkovField
from sparsefield.data import as_source, compile_table

EDGE_COLUMNS = ["variable_a", "variable_b", "weight", "sign", "strength", "beyond", "p_value", "q_value"]


def table(n_rows: int = 90, missing: float = 0.15) -> np.ndarray:
    rng = np.random.default_rng(8)
    a = rng.integers(0, 3, n_rows)
    b = np.where(rng.random(n_rows) < 0.7, a, rng.integers(0, 3, n_rows))
    c = (a == 1) ^ (rng.random(n_rows) < 0.2)
    X = np.column_stack([a, b, c, rng.normal(size=n_rows) + c]).astype(float)
    X[:, :3][rng.random((n_rows, 3)) < missing] = np.nan
    return X


@pytest.fixture(scope="module")
def fitted():
    X = table()
    field = MarkovField(l1=0.5, n_jobs=1).fit(X, observed=[3])
    learned = field.field_
    slow = SlowField(learned.schema, learned.biases, learned.pairs, learned.weights)
    return X, field, slow, rows_of(compile_table(as_source(X), learned.schema))


def test_a_gap_has_its_marginal_and_a_seen_cell_its_conditional_given_other_seen_cells(fitted) -> None:
    X, field, slow, rows = fitted
    answers = field.predict_proba(X)
    assert list(answers) == ["x0", "x1", "x2"]
    for v, (name, p) in enumerate(answers.items()):
        variable = field.field_.schema.targets[v]
        assert field.states_[name] == sorted(field.states_[name])
        assert p.shape == (len(X), len(field.states_[name]))
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
        assert (p >= 0).all()
        for i, row in enumerate(rows):
            expected = slow.conditional(v, row.codes, row.q[slow.n_target_columns :])
            by_state = {variable.states[k]: q for k, q in zip(variable.position_of_code, expected, strict=True)}
            assert p[i] == pytest.approx([by_state[s] for s in field.states_[name]], abs=1e-7)


def test_transform_takes_the_most_probable_state_of_each_gap(fitted) -> None:
    X, field, _, _ = fitted
    filled, answers = field.transform(X), field.predict_proba(X)
    missing = np.isnan(X)
    assert missing.any()
    assert np.array_equal(filled[~missing], X[~missing])
    for c in range(3):
        best = np.array(field.states_[f"x{c}"])[answers[f"x{c}"].argmax(axis=1)]
        assert np.array_equal(filled[missing[:, c], c], best[missing[:, c]])


def test_score_is_the_mean_pseudo_log_likelihood_of_seen_cells(fitted) -> None:
    X, field, slow, rows = fitted
    total = 0.0
    for row in rows:
        for v, code in enumerate(row.codes):
            total += (
                math.log(slow.conditional(v, row.codes, row.q[slow.n_target_columns :])[code]) if code >= 0 else 0.0
            )
    assert field.score(X) == pytest.approx(total / len(X), abs=1e-7)


def test_features_name_every_weight_strongest_first(fitted) -> None:
    _, field, _, _ = fitted
    learned, features, biases = field.field_, field.features_, field.biases_
    assert features.columns == ["variable_a", "state_a", "variable_b", "state_b", "weight"]
    assert biases.columns == ["variable", "state", "weight"]
    assert len(features) + len(biases) == np.count_nonzero(learned.theta)
    for weights in (features["weight"].to_numpy(), biases["weight"].to_numpy()):
        assert (np.diff(np.abs(weights)) <= 0).all()
    names = learned.schema.column_names
    # Bins of the number have names, so that all states are text.
    names = [(name, None if state is None else str(state)) for name, state in names]
    wanted = {names[s]: w for s, w in enumerate(learned.biases) if w}
    assert {(row[0], None if row[1] is None else str(row[1])): row[2] for row in biases.rows()} == wanted
    expected = {(*names[a], *names[b]): w for (a, b), w in zip(learned.pairs, learned.weights, strict=True)}
    assert {row[:4]: row[4] for row in features.rows()} == expected
    assert any(row[2] == "x3" and row[3] is None for row in features.rows())


def test_edges_have_the_norm_of_their_block(fitted) -> None:
    _, field, _, _ = fitted
    edges = field.edges_
    assert edges.columns == EDGE_COLUMNS
    pairs = field.features_.filter(pl.col("variable_b").is_not_null())
    squares = {}
    for a, _, b, _, w in pairs.rows():
        squares[a, b] = squares.get((a, b), 0.0) + w * w
    assert {row[:2]: math.hypot(row[2], row[5]) for row in edges.rows()} == pytest.approx(
        {k: math.sqrt(v) for k, v in squares.items()}
    )
    holds = edges["q_value"].to_numpy() <= 0.05
    assert (np.diff(holds.astype(int)) <= 0).all()
    for some in (edges.filter(holds), edges.filter(~holds)):
        assert (np.diff(some["strength"].to_numpy()) <= 0).all()


def test_features_of_a_field_without_any_are_an_empty_frame_with_the_usual_columns() -> None:
    frame = pd.DataFrame({"a": [0, 1] * 5, "b": ["u", "v"] * 5})
    for kind in (frame, pl.from_pandas(frame), frame.to_numpy()):
        field = MarkovField(n_jobs=1, l1=1e6).fit(kind)
        assert len(field.features_) == len(field.edges_) == 0
        assert list(field.features_.columns) == ["variable_a", "state_a", "variable_b", "state_b", "weight"]
        assert list(field.edges_.columns) == EDGE_COLUMNS

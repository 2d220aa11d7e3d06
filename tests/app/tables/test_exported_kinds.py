"""Tables of features name the states of ordinal and numeric columns."""

from __future__ import annotations

import numpy as np
from mixed_kinds import mixed_field

from sparsefield import MarkovField
from sparsefield.model.feature_tables import bias_table, edge_table, feature_table


def test_scores_have_no_state_in_tables() -> None:
    field = mixed_field()
    rows = feature_table(field).rows(named=True)
    scores = [row for row in rows if (row["variable_a"], row["variable_b"]) == ("answer", "income")]
    assert {row["state_a"] for row in scores} == {None, "never", "rarely", "often"}
    assert {row["state_b"] for row in scores} == {None, "up to 3", "over 3"}
    biases = [row["state"] for row in bias_table(field).rows(named=True) if row["variable"] == "income"]
    assert sorted(map(str, biases)) == ["None", "over 3", "square", "up to 3"]
    assert len(edge_table(field)) == 10


def test_a_field_of_whole_ordinal_states_has_whole_states_in_its_tables() -> None:
    rng = np.random.default_rng(0)
    first = rng.integers(0, 4, 300)
    X = np.column_stack([first, np.clip(first + rng.integers(-1, 2, 300), 0, 3)])
    table = MarkovField(l1=5.0).fit(X).features_
    assert {str(table.schema[name]) for name in ("state_a", "state_b")} == {"Int64"}
    assert table["state_a"][0] is None  # the scores come first

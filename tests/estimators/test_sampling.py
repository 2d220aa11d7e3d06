"""Rows that a field draws: which chain they come from, in what order, and of which kind of table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField, Relational, RelationalField
from sparsefield.data import Layout, Schema, Variable
from sparsefield.errors import DataError
from sparsefield.model import Field


def sticky_field(pull: float = 6.0) -> Field:
    """Two columns of 0 and 1 that are nearly always the same, and turn over together once in many sweeps."""
    variables = tuple(Variable(name, "target", (0, 1), 0, (0.5, 0.5)) for name in ("a", "b"))
    layout = Layout.single(Schema(variables, ("a", "b")))
    return Field(layout, np.full(2, -pull / 2), np.array([[0, 1]]), np.array([pull]))


@pytest.fixture
def sticky() -> MarkovField:
    return MarkovField.from_field(sticky_field(), n_jobs=1, random_state=0)


@pytest.fixture(scope="module")
def loose() -> MarkovField:
    """Twenty columns that know nothing of each other: rows that agree are the same draw."""
    variables = tuple(Variable(f"x{k}", "target", (0, 1, 2), 0, (0.4, 0.3, 0.3)) for k in range(20))
    schema = Schema(variables, tuple(v.name for v in variables))
    field = Field(Layout.single(schema), np.zeros(40), np.empty((0, 2), dtype=np.int64), np.empty(0))
    return MarkovField.from_field(field, n_jobs=1, random_state=0)


def rows(frame: pl.DataFrame) -> list[tuple]:
    return frame.rows()


# -- chains --------------------------------------------------------------------------------------------------


def test_rows_stand_chain_after_chain(loose: MarkovField) -> None:
    options = {"chains": 3, "burn_in": 4, "thin": 2}
    nine = rows(loose.sample(9, **options))
    assert len(set(nine)) == 9
    assert rows(loose.sample(3, **options)) == [nine[0], nine[3], nine[6]], "the first row of each chain"
    later = rows(loose.sample(3, chains=3, burn_in=6))
    assert later == [nine[1], nine[4], nine[7]], "the second, two sweeps later"


@pytest.mark.parametrize(("n", "chains"), [(5, 2), (3, None)])
def test_every_given_row_has_its_own_chains(loose: MarkovField, n: int, chains: int | None) -> None:
    given = np.full((3, 20), np.nan)
    given[:, 0] = [2, 0, 1]
    given[1] = np.arange(20) % 3
    drawn = loose.sample(n, given=given, chains=chains, burn_in=3, thin=2).to_numpy()
    assert drawn.shape == (3 * n, 20)
    assert drawn[:, 0].tolist() == [2] * n + [0] * n + [1] * n
    assert (drawn[n : 2 * n] == given[1]).all(), "a row without gaps stays"
    assert len(set(map(tuple, drawn.tolist()))) == 2 * n + 1
    firsts = rows(loose.sample(min(chains or n, n), given=given, chains=chains, burn_in=3))
    starts = np.cumsum([0, *(len(part) for part in np.array_split(range(n), len(firsts) // 3))])[:-1]
    assert [tuple(drawn[k * n + s].tolist()) for k in range(3) for s in starts] == firsts


# -- seeds, progress, interrupts -----------------------------------------------------------------------------


def test_seeds_decide(loose: MarkovField) -> None:
    one, same, other = (loose.sample(5, burn_in=2, chains=2, random_state=seed) for seed in (1, 1, 2))
    assert one.equals(same)
    assert not one.equals(other)
    assert loose.sample(5, burn_in=2).equals(loose.sample(5, burn_in=2, random_state=0)), "the estimator's own"
    first, second = (loose.sample(5, burn_in=2, random_state=state) for state in [np.random.RandomState(3)] * 2)
    assert not first.equals(second), "a RandomState goes on"
    assert loose.sample(5, burn_in=2, random_state=np.random.RandomState(3)).equals(first)
    free = MarkovField.from_field(loose.field_, n_jobs=1)
    assert not free.sample(5, burn_in=2).equals(free.sample(5, burn_in=2))


def test_progress_is_heard_up_to_the_end(loose: MarkovField) -> None:
    field = MarkovField.from_field(loose.field_, n_jobs=2)
    heard: list[tuple[int, int]] = []
    field.sample(1500, chains=500, burn_in=10, thin=4, progress=lambda *told: heard.append(told))
    assert {total for _, total in heard} == {2 * 18}, "500 chains are two blocks"
    assert [done for done, _ in heard] == sorted({done for done, _ in heard})
    assert [told for told in heard if told[0] == told[1]] == heard[-1:]


# -- kinds of columns ----------------------------------------------------------------------------------------

MIXED = np.array([[1, "x"], ["y", 2], [1, 2.5], ["y", "x"]] * 20, dtype=object)


def test_columns_that_mix_numbers_and_words_are_drawn_as_text() -> None:
    field = MarkovField(l1=2.0, n_jobs=1, random_state=0).fit(MIXED)
    assert field.states_ == {"x0": [1, "y"], "x1": [2, 2.5, "x"]}
    drawn = field.sample(200)
    assert drawn.schema == {"x0": pl.String, "x1": pl.String}
    assert set(drawn["x0"]) == {"1", "y"}
    assert set(drawn["x1"]) == {"2", "2.5", "x"}
    assert field.sample(1).schema == drawn.schema, "whatever states come out"
    given = field.sample(2, given=np.array([[1, None], [None, 2]], dtype=object))
    assert given["x0"][0] == "1"
    assert given["x1"][2] == "2"


# -- a field that was given ----------------------------------------------------------------------------------


def test_a_given_field_answers_as_it_is(sticky: MarkovField) -> None:
    X = pl.DataFrame({"a": [1, None], "b": [None, 0]})
    found = sticky.predict_proba(X)
    yes = 1 / (1 + np.exp(-3.0))
    assert found["b"][0] == pytest.approx([1 - yes, yes])
    assert found["a"][1] == pytest.approx([yes, 1 - yes])
    assert sticky.transform(X).rows() == [(1, 1), (0, 0)]
    assert sticky.score(pl.DataFrame({"a": [0, 1], "b": [0, 1]})) == pytest.approx(2 * np.log(yes))
    assert sticky.score(pl.DataFrame({"a": [0], "b": [1]})) == pytest.approx(2 * np.log(1 - yes))
    assert sticky.states_ == {"a": [0, 1], "b": [0, 1]}


def test_a_given_field_tells_of_its_weights_and_of_no_fit(sticky: MarkovField) -> None:
    assert sticky.features_.rows() == [("a", 1, "b", 1, 6.0)]
    assert sticky.biases_.rows() == [("a", 1, -3.0), ("b", 1, -3.0)]
    assert [row[:5] for row in sticky.edges_.rows()] == [("a", "b", 6.0, 1, 6.0)]
    assert sticky.edges_["q_value"].is_nan().all()
    assert sticky.history_.height == 0
    assert "objective" in sticky.history_.columns
    assert np.isnan(sticky.kkt_violation_)
    assert np.isnan(sticky.objective_)
    assert sticky.converged_ is False
    assert sticky.n_iter_ == 0
    assert repr(sticky) == "MarkovField(n_jobs=1, random_state=0)"


def test_a_given_field_takes_the_tables_that_its_names_speak_of(sticky: MarkovField, loose: MarkovField) -> None:
    """Arrays have columns x0, x1, ...; names of another kind are those of a frame. Warnings are errors here."""
    assert sticky.feature_names_in_.tolist() == ["a", "b"]
    assert not hasattr(loose, "feature_names_in_")
    assert loose.predict_proba(np.zeros((2, 20)))["x0"].shape == (2, 3)
    named = MarkovField.from_field(loose.field_, kind="polars", n_jobs=1)
    frame = pl.DataFrame(np.zeros((2, 20)), schema=list(loose.field_.schema.order))
    assert named.predict_proba(frame)["x0"].shape == (2, 3)


def test_a_field_that_makes_no_sense_is_refused() -> None:
    field = sticky_field()
    for wrong, words in (
        ({"biases": np.zeros(3)}, "do not match"),
        ({"weights": np.array([np.nan])}, "not a finite number"),
        ({"pairs": np.array([[0, 7]])}, "does not exist"),
        ({"pairs": np.array([[1, 1]])}, "does not exist"),
    ):
        with pytest.raises(DataError, match=f"The field is invalid: .*{words}"):
            MarkovField.from_field(replace(field, **wrong))
    people = pl.DataFrame({"id": range(4), "a": [0, 1] * 2})
    data = Relational({"p": people, "q": people}, keys={"p": "id", "q": "id"})
    linked = RelationalField(l1=2.0, n_jobs=1).fit(data).field_
    with pytest.raises(DataError, match="over one table"):
        MarkovField.from_field(linked)

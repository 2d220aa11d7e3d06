"""Rows: surprising cells, filled gaps, and what was accepted of them."""

from __future__ import annotations

import io
import math

import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField
from sparsefield.viz.explorer.table_rows import Rows


def test_surprise_is_the_log_probability_given_all_others(rows: Rows, field: MarkovField, survey: pl.DataFrame) -> None:
    told = field.predict_proba(survey.drop("person"))
    for row in (0, 1, 17):
        view = rows.look("", row, "mean-field")
        for cell in view.cells:
            assert survey[cell.name][row] == cell.state
            p = told[cell.name][row, field.states_[cell.name].index(cell.state)]
            assert cell.log_probability == pytest.approx(math.log(p), rel=1e-9)
        surprises = [cell.log_probability for cell in view.cells]
        assert surprises == sorted(surprises)
        known = {name for name in field.field_.schema.order if survey[name][row] is not None}
        assert {cell.name for cell in view.cells} == known
        assert {missing_cell.name for missing_cell in view.missing} == set(field.field_.schema.order) - known
        for missing_cell in view.missing:
            np.testing.assert_allclose(missing_cell.belief, told[missing_cell.name][row], rtol=1e-9)


def test_filled_values_are_those_of_transform(rows: Rows, field: MarkovField, survey: pl.DataFrame) -> None:
    taken = rows.accept("", 0, None, "mean-field")
    filled = field.transform(survey.drop("person"))
    assert {one.name: one.state for one in taken} == {name: filled[name][0] for name in ("smokes", "sport")}


def test_accepted_values_count_as_known_until_they_are_undone(rows: Rows) -> None:
    before = rows.look("", 0, "mean-field")
    (taken,) = rows.accept("", 0, ["smokes"], "mean-field")
    after = rows.look("", 0, "mean-field")
    assert [missing_cell.name for missing_cell in after.missing] == ["sport"]
    (cell,) = [cell for cell in after.cells if cell.accepted]
    assert (cell.name, cell.state) == ("smokes", taken.state)
    rows.undo("", 0, "smokes")
    again = rows.look("", 0, "mean-field")
    assert again.cells == before.cells
    assert rows.accepted == {}


def test_a_cell_that_is_known_cannot_be_accepted(rows: Rows) -> None:
    assert rows.accept("", 0, ["age"], "mean-field") == []
    assert rows.accept("", 1, None, "mean-field") == []


def test_the_completed_table_is_the_table_with_what_was_accepted(rows: Rows, survey: pl.DataFrame) -> None:
    accepted = rows.accept("", 0, ["sport"], "mean-field") + rows.accept("", 5, None, "mean-field")
    completed = pl.read_csv(io.BytesIO(rows.csv("")), infer_schema=False)
    wanted = survey.with_columns(pl.all().cast(pl.String))
    for one in accepted:
        assert wanted[one.name][one.row] is None
        wanted[one.row, one.name] = str(one.state)
    assert completed.equals(wanted)


def test_rows_are_found_by_number_and_by_name(rows: Rows) -> None:
    assert rows.find("", "", 3) == [0, 1, 2]
    assert rows.find("", "P012", 3) == [12]
    assert rows.find("", "5", 3)[0] == 4
    assert rows.row_name("", 4) == "p004 (row 5)"


def test_latent_variables_are_told_and_cannot_be_accepted(rows: Rows, survey: pl.DataFrame) -> None:
    known = survey.drop("person")
    field = MarkovField(latent={"kind": 2}, l1=5.0, random_state=0).fit(known)
    looked = Rows(field, rows.tables).look("", 1, "mean-field")
    (kind,) = looked.latent
    assert kind.name == "kind"
    np.testing.assert_allclose(kind.belief, field.predict_proba(known[1:2])["kind"][0], atol=1e-9)
    assert "kind" not in [cell.name for cell in looked.cells] + [missing_cell.name for missing_cell in looked.missing]


def test_a_number_that_is_no_number_finds_nothing(rows: Rows) -> None:
    assert rows.find("", "²", 5) == []

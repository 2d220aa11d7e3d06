"""Rows show surprising values, beliefs about missing values, and accepted values."""

from __future__ import annotations

import io
import math

import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField
from sparsefield.app.pages.explorer.table_rows import TableRows


def test_surprise_is_the_log_probability_below_its_mean_given_all_other_values(
    rows: TableRows, field: MarkovField, survey: pl.DataFrame
) -> None:
    told = MarkovField.from_field(field.field_, inference="mean-field").predict_proba(survey.drop("person"))
    for row in (0, 1, 17):
        view = rows.describe("", row, "mean-field")
        for cell in view.values:
            assert survey[cell.name][row] == cell.state
            p = told[cell.name][row, field.states_[cell.name].index(cell.state)]
            assert cell.log_probability == pytest.approx(math.log(p), rel=1e-9)
            mean = sum(q * math.log(q) for q in told[cell.name][row])
            assert cell.surprise == pytest.approx(mean - math.log(p), rel=1e-9)
        surprises = [cell.surprise for cell in view.values]
        assert surprises == sorted(surprises, reverse=True)
        known = {name for name in field.field_.schema.order if survey[name][row] is not None}
        assert {cell.name for cell in view.values} == known
        assert {one.name for one in view.missing} == set(field.field_.schema.order) - known
        for one in view.missing:
            np.testing.assert_allclose(one.belief, told[one.name][row], rtol=1e-9)


def test_accepted_values_are_those_of_transform(rows: TableRows, field: MarkovField, survey: pl.DataFrame) -> None:
    taken = rows.accept("", 0, None, "mean-field")
    filled = MarkovField.from_field(field.field_, inference="mean-field").transform(survey.drop("person"))
    assert {one.name: one.state for one in taken} == {name: filled[name][0] for name in ("smokes", "sport")}


def test_accepted_values_count_as_known_until_they_are_undone(rows: TableRows) -> None:
    before = rows.describe("", 0, "mean-field")
    (taken,) = rows.accept("", 0, ["smokes"], "mean-field")
    after = rows.describe("", 0, "mean-field")
    assert [one.name for one in after.missing] == ["sport"]
    (cell,) = [cell for cell in after.values if cell.accepted]
    assert (cell.name, cell.state) == ("smokes", taken.state)
    rows.undo("", 0, "smokes")
    again = rows.describe("", 0, "mean-field")
    assert again.values == before.values
    assert rows.accepted == {}


def test_an_observed_value_cannot_be_accepted(rows: TableRows) -> None:
    assert rows.accept("", 0, ["age"], "mean-field") == []
    assert rows.accept("", 1, None, "mean-field") == []


def test_the_completed_table_has_the_accepted_values(rows: TableRows, survey: pl.DataFrame) -> None:
    accepted = rows.accept("", 0, ["sport"], "mean-field") + rows.accept("", 5, None, "mean-field")
    completed = pl.read_csv(io.BytesIO(rows.csv("")), infer_schema=False)
    wanted = survey.with_columns(pl.all().cast(pl.String))
    for one in accepted:
        assert wanted[one.name][one.row] is None
        wanted[one.row, one.name] = str(one.state)
    assert completed.equals(wanted)


def test_rows_are_found_by_number_and_by_name(rows: TableRows) -> None:
    assert rows.find("", "", 3) == [0, 1, 2]
    assert rows.find("", "P012", 3) == [12]
    assert rows.find("", "5", 3)[0] == 4
    assert rows.row_name("", 4) == "p004 (row 5)"


def test_latent_variables_are_shown_and_cannot_be_accepted(rows: TableRows, survey: pl.DataFrame) -> None:
    known = survey.drop("person")
    field = MarkovField(latent={"kind": 2}, l1=5.0, random_state=0).fit(known)
    view = TableRows(field, rows.tables).describe("", 1, "mean-field")
    (kind,) = view.latent
    assert kind.name == "kind"
    np.testing.assert_allclose(kind.belief, field.predict_proba(known[1:2])["kind"][0], atol=1e-9)
    assert "kind" not in [cell.name for cell in view.values] + [one.name for one in view.missing]


def test_a_digit_that_is_not_decimal_finds_no_row(rows: TableRows) -> None:
    assert rows.find("", "²", 5) == []

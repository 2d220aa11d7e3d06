"""Columns are identifiers, free text, dates or numbers by what they hold."""

from __future__ import annotations

import polars as pl
import pytest

import sparsefield


def finding(values: list, name: str = "a") -> str:
    findings = sparsefield.inspect(pl.DataFrame({name: values}))[name].findings
    return findings[0].type if findings else ""


SQUARES = [k * k for k in range(1, 31)]


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("x", list(range(30)), "identifier"),
        ("x", SQUARES, ""),
        ("x", [k for k in range(200) if k % 7], "identifier"),
        ("x", [2 * k for k in range(200)], ""),
        ("customer_id", SQUARES, "identifier"),
        ("", SQUARES, "identifier"),
        ("paid", SQUARES, ""),
        ("year", list(range(1990, 2020)), ""),
        ("x", [k / 7 for k in SQUARES], ""),
        ("zip", [f"0{k}000" for k in range(1, 8)] * 5, ""),
        ("n", [str(k) for k in range(12)] * 5, "numbers as text"),
        ("n", [f"{k},5" for k in range(12)] * 5, "numbers as text"),
        ("d", [f"{k + 1}.3.2020" for k in range(12)] * 5, "dates as text"),
        ("plz", [10115 + 997 * (k % 12) for k in range(60)], "codes"),
        ("film", [10115 + 97 * k for k in range(60)], "codes"),
        ("rooms_nr", [1 + k % 12 for k in range(60)], ""),
        ("income", [1000 * (10 + k % 30) for k in range(60)], ""),
        ("remark", [f"this is remark number {k % 90}" for k in range(120)], "free text"),
    ],
)
def test_columns_are_told_apart(name, values, expected) -> None:
    assert finding(values, name) == expected


def test_codes_that_are_named_so_are_in_the_command() -> None:
    few, many = [10115 + 997 * (k % 12) for k in range(90)], [10115 + 97 * (k % 60) for k in range(90)]
    films = [10115 + 97 * k for k in range(90)]
    book = sparsefield.inspect(pl.DataFrame({"plz": few, "school_nr": many, "film": films}))
    assert book.options == "--id school_nr --nominal plz"
    assert book.left_out == ()  # as incomes, which may be of one width and all different, would be
    assert sparsefield.inspect(pl.DataFrame({"plz": films}))["plz"].left_out == "codes, nearly all different"
    assert [str(one) for one in book.advice if one.is_conditional] == ["'film' may be a code, not a number: --id film"]


def test_numbers_that_a_missing_code_made_text_are_left_out_unless_they_are_few() -> None:
    ages = ["k.A.", *(str(20 + k % 50) for k in range(99))]
    book = sparsefield.inspect(pl.DataFrame({"age": ages, "mark": ["k.A.", "1", "2", "3"] * 25}))
    assert book.left_out == ("age",)
    assert book["age"].left_out == "numbers as text, because of 'k.A.'"
    assert book.options == "--missing k.A."


def test_different_numbers_are_kept_unless_they_are_identifiers() -> None:
    book = sparsefield.inspect(pl.DataFrame({"size": SQUARES, "row": SQUARES[::-1]}))
    assert book.left_out == ("row",)
    assert [one.option for one in book.advice] == ["--id row"]


def test_nearly_all_different_text_is_an_identifier_as_for_a_fit() -> None:
    values = [f"w{k}" for k in range(150)]
    assert finding([*values, "w0"]) == "identifier"
    assert finding([*values, *values]) == "many levels"


def test_dates_as_text_are_left_out_only_if_nearly_all_are_different() -> None:
    days = [f"2020-{m:02d}-{d:02d}" for m in range(1, 13) for d in range(1, 21)]
    book = sparsefield.inspect(pl.DataFrame({"a": days, "b": days[:5] * 48}))
    assert book.left_out == ("a",)
    assert book["b"].findings[0].type == "dates as text"


def test_a_text_among_numbers_is_not_their_example() -> None:
    ages = ["k.A."] * 20 + [str(20 + k % 50) for k in range(100)]
    book = sparsefield.inspect(pl.DataFrame({"age": ages}))
    (found,) = [finding for finding in book.columns[0].findings if finding.type == "numbers as text"]
    assert found.text.startswith("such as '2")
    assert "except 'k.A.'" in found.text
    assert any("makes 'age' numbers or dates" in one.text for one in book.advice)


def codes_of(values: list) -> tuple[str, ...]:
    finding = sparsefield.inspect(pl.DataFrame({"a": values}))["a"].finding("missing codes")
    return () if finding is None else finding.values


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([*range(18, 90), -99, 999], ("-99", "999")),
        ([0, 1, 0, 1, -9], ("-9",)),
        ([1, 2, 3, 4, 5, 8, 9], ("8", "9")),
        ([1, 2, 3, 4, 5, 6, 7, 8, 9], ()),
        ([*range(80, 110)], ()),
        ([-9, -5, -3, 0, 4], ()),
        (["yes", "no", " N/A"], (" N/A",)),
        (["yes", "no", "yes", "999"], ("999",)),
        (["ja", "nein", "keine Angabe", "k.A."], ("k.A.", "keine Angabe")),
        (["a", "b", "-99", ""], ("", "-99")),
    ],
)
def test_codes_are_suspected(values, codes) -> None:
    assert codes_of(values) == codes


@pytest.mark.parametrize(
    ("values", "outside"),
    [
        ([*[1, 2, 3, 4, 5] * 20, 55], "55 (row 101)"),
        ([*[1.0, 2.0, 3.0, 4.0, None] * 20, 55.0], "55 (row 101)"),
        ([0, *[1, 2, 3, 4, 5] * 20], "0 (row 1)"),
        ([1, 2, 3, 4] * 20, ""),
    ],
)
def test_cells_outside_a_scale_are_told_with_their_row(values, outside) -> None:
    book = sparsefield.inspect(pl.DataFrame({"q": values}))
    finding = book["q"].finding("outside the scale")
    assert (finding.text if finding else "") == outside
    assert any(f"'q' ({outside}) has cells outside the scale" in str(advice) for advice in book.advice) is bool(outside)


def test_a_number_that_is_written_unlike_the_others_is_told_with_its_row() -> None:
    book = sparsefield.inspect(pl.DataFrame({"q": [*["1", "2", "3", "4", "5"] * 20, "4 km"]}))
    assert "but not '4 km' (row 101)" in book["q"].describe_findings()
    assert "'4 km' (row 101)" in str(book.advice[0])


def test_postcodes_may_be_one_digit_shorter() -> None:
    values = [*range(1067, 99000, 400)]
    assert sparsefield.inspect(pl.DataFrame({"PLZ": values}))["PLZ"].finding("codes")
    assert not sparsefield.inspect(pl.DataFrame({"size": values}))["size"].finding("codes")

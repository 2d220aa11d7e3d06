"""Templates make attributes of neighboring cells."""

from __future__ import annotations

import pytest

from sparsefield.chain.templates import (
    AttributeTemplate,
    TemplateCell,
    make_attributes,
    parse_template,
    spelling_templates,
    window_templates,
)
from sparsefield.errors import DataError

COLUMNS = {"word": [["The", "dog", "ran"], ["Yes"], []], "n": [[1.5, None, 2.0], [0.0], []]}


def test_windows_end_at_the_ends_of_a_sequence() -> None:
    found = make_attributes(COLUMNS, window_templates({"word": 1, "n": 0}))
    assert found == [
        [
            {"(first)": True, "word": "The", "word[+1]": "dog", "n": 1.5},
            {"word[-1]": "The", "word": "dog", "word[+1]": "ran"},
            {"(last)": True, "word[-1]": "dog", "word": "ran", "n": 2.0},
        ],
        [{"(first)": True, "(last)": True, "word": "Yes", "n": 0.0}],
        [],
    ]


def test_a_window_wider_than_a_sequence_reaches_nothing() -> None:
    found = make_attributes({"word": [["a", "b"]]}, window_templates({"word": 5}))
    assert found == [[{"(first)": True, "word": "a", "word[+1]": "b"}, {"(last)": True, "word[-1]": "a", "word": "b"}]]


def test_cells_together_need_all_of_them() -> None:
    template = parse_template("n & word:lower[-1]", list(COLUMNS))
    assert make_attributes(COLUMNS, [template])[0] == [
        {"(first)": True},
        {},
        {"(last)": True, "n & word:lower[-1]": "2.0 & dog"},
    ]


def test_the_name_of_a_template_is_parsed_as_the_same_template() -> None:
    for text in ("word", "word[-2]", "word[+1] & n", "word:suffix3[-1] & word:shape"):
        template = parse_template(text, list(COLUMNS))
        assert template.name == text
        assert parse_template(template.name, list(COLUMNS)) == template


def test_names_of_columns_may_look_like_templates() -> None:
    columns = ["R&D", "a:lower", "b[-1]"]
    for name in columns:
        (cell,) = parse_template(name, columns).cells
        assert (cell.column, cell.offset, cell.form) == (name, 0, None)


ODD_NAMES = ["w", "w[+1]", "w:lower", "R&D", "R & D", "R", "D", "a:b", "a", '"q"', '5"', "&", " x", "x", "(first)"]


def test_names_of_templates_are_told_apart_whatever_the_names_of_columns() -> None:
    singles = [*window_templates(dict.fromkeys(ODD_NAMES, 1)), *spelling_templates(ODD_NAMES)]
    cells = [template.cells[0] for template in singles]
    pairs = [AttributeTemplate((one, two)) for one, two in zip(cells, cells[5:], strict=False)]
    templates = singles + pairs
    assert len({template.name for template in templates}) == len(templates)
    assert [parse_template(template.name, ODD_NAMES) for template in templates] == templates


def test_columns_are_quoted_only_if_their_names_look_like_templates() -> None:
    names = [TemplateCell(column, -1).name for column in ("R&D", "a:b", "w[+1]", "w:lower", "R & D")]
    assert names == ["R&D[-1]", "a:b[-1]", '"w[+1]"[-1]', '"w:lower"[-1]', '"R & D"[-1]']


def test_a_column_beside_one_that_it_looks_like_an_offset_of_is_another_attribute() -> None:
    columns = {"w": [["a", "b"]], "w[+1]": [["x", "y"]]}
    (first, _) = make_attributes(columns, window_templates({"w": 1, "w[+1]": 0}))[0]
    assert first == {"(first)": True, "w": "a", "w[+1]": "b", '"w[+1]"': "x"}


@pytest.mark.parametrize("text", ["tag", "word & tag[-1]", "word:upper", "word[-100]", "", "word &"])
def test_unknown_columns_and_forms_are_refused(text) -> None:
    with pytest.raises(DataError, match="The attribute"):
        parse_template(text, list(COLUMNS))


def test_spelling_has_lower_case_shape_and_ends() -> None:
    (token,) = make_attributes({"word": [["McAllen"]]}, spelling_templates(["word"]))[0]
    assert token["word:lower"] == "mcallen"
    assert token["word:shape"] == "XxXx"
    assert [token[f"word:prefix{k}"] for k in (1, 2, 3)] == ["M", "Mc", "McA"]
    assert [token[f"word:suffix{k}"] for k in (1, 2, 3)] == ["n", "en", "len"]

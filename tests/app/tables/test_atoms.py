"""Ground atoms become tables by type, and a malformed line is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsefield.app.tables import pair_statements
from sparsefield.app.tables.atoms import read_atoms
from sparsefield.errors import DataError

ZOO = """
// types
Swims(animal)
Eats(animal, animal)   // who eats whom
Lives(animal, place)
Color(animal, color!)
animal = {Dolphin, Squid, Ant}

Swims(Dolphin)
Swims(Squid)
!Swims(Ant)
Eats(Dolphin, Squid)
Lives(Dolphin, "the sea, far out")  // a comma and // inside
Lives(Ant, Wood)
Color(Ant, Red)
"""


def test_each_type_is_a_table_and_each_two_types_with_a_relation() -> None:
    data = read_atoms(ZOO)
    assert list(data.tables) == ["animal", "place", "animal_animal", "animal_place"]
    assert data.tables["animal"].rows() == [("Dolphin", 1, None), ("Squid", 1, None), ("Ant", 0, "Red")]
    assert data.tables["animal"].columns == ["animal", "Swims", "Color"]
    assert data.tables["place"]["place"].to_list() == ["Wood", "the sea, far out"]
    assert data.tables["animal_animal"].height == 9
    assert data.tables["animal_place"].filter(Lives=1).rows() == [
        ("Dolphin", "the sea, far out", 1),
        ("Ant", "Wood", 1),
    ]
    assert data.keys == {"animal": "animal", "place": "place"}
    assert list(data.links) == [
        "animal_animal.subject",
        "animal_animal.object",
        "animal_place.subject",
        "animal_place.object",
    ]
    assert data.links["animal_place.object"].to == "place"


def test_links_of_the_only_pairs_have_short_names() -> None:
    data = read_atoms("ExportsTo(USA, Cuba)\nRich(USA)\n")
    assert list(data.links) == ["subject", "object"]
    assert data.tables["entity"].rows() == [("Cuba", 0), ("USA", 1)]
    assert data.tables["entity_entity"].rows() == [
        ("Cuba", "Cuba", 0),
        ("Cuba", "USA", 0),
        ("USA", "Cuba", 1),
        ("USA", "USA", 0),
    ]


def test_types_may_be_in_a_separate_file(tmp_path: Path) -> None:
    head, body = ZOO.split("\n\n")
    (tmp_path / "zoo.mln").write_text(head)
    (tmp_path / "zoo (1).db").write_text(body)
    whole = read_atoms(ZOO)
    for data in (
        read_atoms(tmp_path / "zoo (1).db", types=tmp_path / "zoo.mln"),
        read_atoms(str(tmp_path / "zoo (1).db"), types=str(tmp_path / "zoo.mln")),
        read_atoms(body, types=head),
    ):
        assert list(data.tables) == list(whole.tables)
        assert all(data.tables[name].equals(whole.tables[name]) for name in whole.tables)


def test_a_list_of_constants_defines_the_only_type_and_its_members() -> None:
    data = read_atoms("animal = {Dolphin, Ant, Bee}\nSwims(Dolphin)")
    assert data.tables["animal"].rows() == [("Dolphin", 1), ("Ant", 0), ("Bee", 0)]


def test_a_range_of_numbers_is_a_list() -> None:
    data = read_atoms("day = {1, ..., 4}\nWet(day)\nWet(3)")
    assert data.tables["day"].rows() == [("1", 0), ("2", 0), ("3", 1), ("4", 0)]


def test_a_number_may_be_a_constant_of_several_types() -> None:
    data = read_atoms("At(day, level)\nWet(day)\nAt(1, 1)\nWet(1)")
    assert data.tables["day_level"].rows() == [("1", "1", 1)]


def test_an_open_world_has_missing_values_for_unstated_atoms() -> None:
    text = "Swims(A)\n!Swims(B)\nEats(A, B)\n!Eats(B, C)\nSwims(D)\n"
    data = read_atoms(text, closed_world=False)
    assert data.tables["entity"].rows() == [("A", 1), ("B", 0), ("C", None), ("D", 1)]
    assert data.tables["entity_entity"].rows() == [("A", "B", 1), ("B", "C", 0)]


def test_a_mentioned_world_has_rows_for_pairs_in_atoms() -> None:
    data = read_atoms("Eats(A, B)\nFears(B, A)\nFears(B, C)\n", closed_world="mentioned")
    assert data.tables["entity_entity"].rows() == [("A", "B", 1, 0), ("B", "A", 0, 1), ("B", "C", 0, 1)]


def test_a_repeated_atom_is_not_a_contradiction() -> None:
    once, twice = read_atoms("Swims(A)\nEats(A, B)"), read_atoms("Swims(A)\nSwims( A )\nEats(A,B)\nEats(A, B)")
    assert all(once.tables[name].equals(twice.tables[name]) for name in once.tables)


@given(
    biases=st.sets(st.integers(0, 4)),
    binary=st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 4)), st.booleans(), min_size=1),
)
def test_tables_hold_exactly_the_stated_values(biases, binary) -> None:
    lines = ["thing = {" + ", ".join(f"C{k}" for k in range(5)) + "}", "P(thing)", "R(thing, thing)"]
    lines += [f"P(C{k})" for k in biases] + [f"{'' if true else '!'}R(C{a}, C{b})" for (a, b), true in binary.items()]
    data = read_atoms("\n".join(lines))
    assert data.tables["thing"].rows() == [(f"C{k}", int(k in biases)) for k in range(5)]
    expected = [(f"C{a}", f"C{b}", int(binary.get((a, b), False))) for a in range(5) for b in range(5)]
    assert data.tables["thing_thing"].rows() == expected


def test_too_many_pairs_are_refused_with_the_mentioned_world_as_remedy(monkeypatch) -> None:
    monkeypatch.setattr(pair_statements, "MAX_PAIRS", 3)
    with pytest.raises(
        DataError, match=r"4 rows for pairs of 'entity' and 'entity', more than 3.*closed_world='mentioned'"
    ):
        read_atoms("Eats(A, B)\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Swims(A)\nSwims A\n", "atoms, line 2: 'Swims A' is neither a ground atom"),
        ("1.5 Swims(x) => Eats(x, y)\n", "atoms, line 1: .* is neither a ground atom"),
        ("Swims(A)\n\n!Swims(A)\n", r"atoms, line 3: this contradicts atoms, line 1 on Swims\(A\)"),
        ("Eats(A, B)\n!Eats(A, B)\n", r"line 2: this contradicts atoms, line 1 on Eats\(A, B\)"),
        ("Swims(animal)\nFlies(A)\n", "line 2: the predicate 'Flies' is not declared; declared predicates: Swims"),
        ("Swims(animal)\nSwims(A, B)\n", "line 2: Swims has 2 arguments, but atoms, line 1 declares 1"),
        ("Swims(A)\nSwims(A, B)\n", r"line 2: Swims has 2 argument\(s\) here and 1 in atoms, line 1"),
        ("Gives(A, B, C)\n", "line 1: Gives has 3 arguments, but only 1 .* or 2 .* are supported"),
        ("Rains()\n", "line 1: Rains has 0 arguments, but only 1"),
        ("Gives(a, b, c)\n", "line 1: Gives has 3 arguments; only 1 .* or 2 .* are supported"),
        ("Swims(A)\nSwims(ant)\n", "line 2: 'ant' is not a constant: constants begin with a capital"),
        ("Eats(A, ant)\n", "line 1: 'ant' is not a constant"),
        ('Eats(A, "ant)\n', "line 1: .*ant' is not a constant"),
        ("Eats(A,)\n", "line 1: '' is not a constant"),
        ("swims(ant)\nswims(bee)\n", "line 2: swims is declared differently in atoms, line 1.*If 'bee' is a"),
        ("swims(ant)\n", "There are no ground atoms"),
        ("", "There are no ground atoms"),
        ("!Swims(animal)\nSwims(A)\n", "line 1: a declaration cannot begin with '!'"),
        ("Color(color!)\n", "line 1: '!' marks the value of a predicate, its second argument"),
        ("Color(animal!, color)\n", "line 1: '!' marks the value"),
        ("Color(animal, color!)\n!Color(A, Red)\n", "line 2: Color has a value .*remove the line"),
        ("Color(animal, color!)\nColor(A, Red)\nColor(A, Blue)\n", r"line 3: this contradicts .* on Color\(A\)"),
        (
            "color = {Red}\nColor(animal, color!)\nColor(A, Blue)\n",
            "line 3: Blue is not in the list of constants of 'col",
        ),
        ("animal = {A}\nSwims(animal)\nSwims(B)\n", "line 3: B is not in the list of constants of 'animal': add it"),
        ("In(animal, place)\nIn(A, B)\nIn(B, C)\n", "line 3: B is of type 'animal' here, but 'place' in atoms, line 2"),
        ("p = {B}\nIn(a, p)\nIn(B, B)\n", "line 3: B is of type 'a' here, but 'p' in the lists"),
        ("animal = {A}\nanimal = {B}\nSwims(A)\n", "line 2: the constants of 'animal' are listed twice"),
        ("animal = {}\nSwims(A)\n", "line 1: the list of constants of 'animal' is empty"),
        ("animal = {ant}\nSwims(A)\n", "line 1: 'ant' is not a constant"),
        ("Animal = {Ant}\nSwims(A)\n", "line 1: 'Animal' is not a type"),
        ("day = {A, ..., B}\nWet(A)\n", "line 1: a range of constants needs an integer at each end"),
        ("day = {5, ..., 1}\nWet(5)\n", "line 1: the range 5, ..., 1 is empty"),
        ("a = {A}\nb = {B}\nSwims(A)\n", "Constants of a, b are listed, but no predicate is declared"),
        ("In(animal, place)\nSwims(animal)\nSwims(A)\n", "There are no constants of type 'place'"),
        ("subject(A, B)\n", "line 1: the predicate 'subject' has the name of a column of the table of pairs"),
        ("entity(A)\n", "line 1: the predicate 'entity' has the same name as its type"),
        ("R(a, b)\nP(a_b)\nR(A, B)\nP(C)\n", "make a second table 'a_b': rename a type"),
    ],
)
def test_a_malformed_line_is_refused_with_its_number(text: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_atoms(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "Swims(A)\nEats(A, B)\n!Eats(B, A)\n",
            r"no statement says that 'Swims' is false.*Add atoms with '!' before them",
        ),
        ("Swims(A)\n!Swims(B)\nEats(A, B)\n", "no statement says that 'Eats' is false"),
        ("Eats(e, e)\nSwims(e)\nSwims(A)\n!Swims(B)\n", "No atom mentions a pair of 'e' and 'e'"),
    ],
)
def test_an_open_world_needs_negative_statements(text: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_atoms(text, closed_world=False)


def test_other_values_of_closed_world_are_refused() -> None:
    with pytest.raises(DataError, match="closed_world is 'open'"):
        read_atoms("Swims(A)", closed_world="open")  # pyright: ignore


def test_errors_name_the_file_and_the_line(tmp_path: Path) -> None:
    (tmp_path / "Zoo.db").write_text("Swims(A)\n!Swims(A)\n")
    with pytest.raises(DataError, match=r"Zoo\.db, line 2: this contradicts .*Zoo\.db, line 1"):
        read_atoms(tmp_path / "Zoo.db")
    with pytest.raises(DataError, match="types, line 1: the file of types contains a ground atom"):
        read_atoms("Swims(A)", types="Swims(A)\n")
    with pytest.raises(DataError, match=r"none\.db: there is no such file"):
        read_atoms(tmp_path / "none.db")
    with pytest.raises(DataError, match="there is no such file"):
        read_atoms(tmp_path)
    (tmp_path / "binary.db").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"binary\.db cannot be read as text"):
        read_atoms(str(tmp_path / "binary.db"))

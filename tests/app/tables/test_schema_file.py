"""A schema file defines linked tables."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from sparsefield.app.tables.schema_file import parse_schema_file, read_schema
from sparsefield.data.links import ForeignKey, OffsetLink, Template
from sparsefield.errors import DataError

NATIONS = """
templates = ["within nation", "across subject", {kind = "swapped", names = ["subject", "object"]}]
missing = ["n/a"]

[tables.nation]
file = "nations.csv"
key = "nation"
observed = ["area"]
ignore = ["notes"]

[tables.pair]
file = "data/pairs.parquet"

[links.subject]
table = "pair"
column = "subject"
to = "nation"

[links.object]
table = "pair"
column = "object"
to = "nation"
"""

NATION = '[tables.nation]\nfile = "nations.csv"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "nations.csv").write_text("nation,area,rich,notes\nA,3.5,1,x\nB,2.0,n/a,y\n")
    pl.DataFrame({"subject": ["A", "B"], "object": ["B", "A"], "exports": [1, 0]}).write_parquet(
        tmp_path / "data" / "pairs.parquet"
    )
    (tmp_path / "schema.toml").write_text(NATIONS)
    return tmp_path


def written(folder: Path, text: str) -> Path:
    path = folder / "other.toml"
    path.write_text(text)
    return path


def test_tables_links_and_roles_are_as_described(folder: Path) -> None:
    data = read_schema(folder / "schema.toml")
    assert data.variables("nation") == ("area", "rich")
    assert data.tables["nation"]["rich"].to_list() == [1, None]
    assert data.keys == {"nation": "nation"}
    assert data.observed == {"nation": ["area"]}
    assert data.links["subject"] == ForeignKey("pair", "subject", "nation")
    assert [rows.tolist() for rows in data.linked_rows("object")] == [[0, 1], [1, 0]]
    assert data.templates == (
        Template("within", ("nation",)),
        Template("across", ("subject",)),
        Template("swapped", ("subject", "object")),
    )


def test_all_keys_of_an_offset_link_are_optional(folder: Path) -> None:
    (folder / "tokens.csv").write_text("sentence;position;tag\n1;1;N\n1;2;V\n2;1;N\n")
    text = 'separator = ";"\n[tables.token]\nfile = "tokens.csv"\n[links.next]\ntable = "token"\n'
    assert read_schema(written(folder, text)).links["next"] == OffsetLink("token")
    text += 'along = "position"\nwithin = ["sentence"]\nby = -1\n'
    data = read_schema(written(folder, text))
    assert data.links["next"] == OffsetLink("token", "position", ("sentence",), -1)
    assert [rows.tolist() for rows in data.linked_rows("next")] == [[1], [0]]


def test_files_and_kinds_are_returned_with_the_data(folder: Path) -> None:
    text = NATIONS.replace('observed = ["area"]', 'numeric = ["area=normal-scores"]\nordinal = ["rich=0<1"]')
    path = written(folder, text)
    found = parse_schema_file(path)
    assert found.kinds == {"nation": {"area": "normal-scores", "rich": "0<1"}}
    assert found.data.observed == {}  # numbers may be predicted
    assert found.files["nation"] == folder / "nations.csv"
    assert found.inputs == (path, folder / "nations.csv", folder / "data" / "pairs.parquet")
    assert found.sources["nation"].cells["rich"].to_list() == ["1", "n/a"]
    assert repr(found.data) == repr(read_schema(folder))
    assert parse_schema_file(folder).kinds == {}


def test_a_table_may_have_no_header(folder: Path) -> None:
    (folder / "tokens.csv").write_text("1,N\n2,V\n")
    data = read_schema(written(folder, '[tables.token]\nfile = "tokens.csv"\nheader = false\nkey = "x0"\n'))
    assert data.tables["token"].rows() == [(1, "N"), (2, "V")]


def test_a_table_may_have_no_rows(folder: Path) -> None:
    (folder / "friends.csv").write_text("who,whom\n")
    text = NATION + 'key = "nation"\n[tables.friend]\nfile = "friends.csv"\n'
    text += '[links.who]\ntable = "friend"\ncolumn = "who"\nto = "nation"\n'
    assert read_schema(written(folder, text)).tables["friend"].height == 0


LINKED = """
[tables.person]
file = "persons.csv"
key = "id"

[tables.letter]
file = "letters.csv"

[links.sender]
table = "letter"
column = "sender"
to = "person"
"""


@pytest.mark.parametrize(
    ("keys", "senders", "expected"),
    [
        (["007", "7", "x3"], ["7", "007"], [1, 0]),  # the text decides, as soon as either side is text
        (["007", "8"], ["8", "7"], [1, 0]),  # numbers on both sides
        (["1", "2"], ["2", "", "1"], [1, 0]),
    ],
)
def test_numeric_foreign_keys_match_text_keys(folder: Path, keys, senders, expected) -> None:
    (folder / "persons.csv").write_text("id,x\n" + "".join(f"{key},0\n" for key in keys))
    (folder / "letters.csv").write_text("sender,y\n" + "".join(f"{key},0\n" for key in senders))
    data = read_schema(written(folder, LINKED))
    assert data.linked_rows("sender")[1].tolist() == expected


def test_an_error_in_the_links_names_the_files(folder: Path) -> None:
    (folder / "persons.csv").write_text("id,x\n1,0\n2,1\n")
    (folder / "letters.csv").write_text("sender,y\n1,0\n3,1\n")
    words = r"other\.toml: Link 'sender': .*3 in row 2.*letters\.csv, table 'person' is .*persons\.csv"
    with pytest.raises(DataError, match=words):
        read_schema(written(folder, LINKED))
    (folder / "persons.csv").write_text("id,x\n1,0\n1,1\n")
    with pytest.raises(DataError, match=r"repeated keys in 'id'.*persons\.csv"):
        read_schema(written(folder, LINKED))


def test_triples_may_be_the_data(folder: Path) -> None:
    (folder / "triples.csv").write_text("subject,relation,object\nA,exports,B\n")
    text = 'templates = ["across object"]\n[triples]\nfile = "triples.csv"\n'
    data = read_schema(written(folder, text))
    assert data.tables["pair"].height == 4
    assert data.templates == (Template("across", ("object",)),)
    for word in ("auto", "base"):
        (folder / "other.toml").write_text(f'templates = "{word}"' + text.partition("]")[2])
        assert read_schema(folder / "other.toml").templates == word
    assert read_schema(written(folder, text + 'pairs = "mentioned"\n')).tables["pair"].height == 1


@pytest.fixture
def database(folder: Path) -> Path:
    with closing(sqlite3.connect(folder / "world.sqlite")) as connection:
        connection.executescript(
            "CREATE TABLE nation (name TEXT PRIMARY KEY, rich INTEGER);"
            "CREATE TABLE pairs (subject TEXT REFERENCES nation, object TEXT REFERENCES nation, exports INTEGER);"
            "INSERT INTO nation VALUES ('A', 1), ('B', 0); INSERT INTO pairs VALUES ('A', 'B', 1);"
        )
    return folder


def test_tables_may_be_those_of_a_database(database: Path) -> None:
    text = (
        'database = "world.sqlite"\ntemplates = ["across subject"]\n[tables.nation]\n[tables.pair]\ntable = "pairs"\n'
    )
    data = read_schema(written(database, text))
    assert data.keys == {"nation": "name"}
    assert list(data.links) == ["subject", "object"]
    assert data.templates is not None


def test_keys_and_links_of_the_file_take_precedence_over_the_database(database: Path) -> None:
    text = (
        'database = "world.sqlite"\n[tables.nation]\nquery = "SELECT name, rich FROM nation"\nkey = "name"\n'
        '[tables.pair]\ntable = "pairs"\nignore = ["object"]\n'
        '[links.from]\ntable = "pair"\ncolumn = "subject"\nto = "nation"\n'
    )
    data = read_schema(written(database, text))
    assert list(data.links) == ["from"]
    assert data.variables("pair") == ("exports",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tables.nation\n", r"other\.toml is not TOML: .*line 1"),
        ("templates = " + "[" * 5000, "nested too deeply"),
        ("color = 1\n" + NATION, "unknown key 'color'; known keys: templates, missing, missing_only, separator, "),
        ("", "the file has no data; it must have either"),
        (NATION + '[triples]\nfile = "x"\n', "the file has tables and triples"),
        ("tables = 3\n", "tables = 3: Expected `object`, got `int`"),
        ("missing = [1]\n" + NATION, r"missing = \[1\]: Expected `str`, got `int`"),
        (NATION + "key = 'name'\n", r"other\.toml: keys= names the column 'name' of table 'nation'"),
        (
            NATION + "[links.s]\ncolumn = 'rich'\nto = 'nation'\nby = 1\n",
            "unknown key 'by'; known keys: table, column, to",
        ),
        (
            NATION + "[links]\ns = 'x'\n",
            r"\[links.s\] must be a section with the keys table, column, to for a foreign key, or table",
        ),
        (NATION + "header = 'no'\n", r"\[tables.nation\]: header = 'no': Expected `bool`, got `str`"),
        (NATION + "numeric = ['size']\n", r"\[tables.nation\]: numeric names the column 'size', which does not exist"),
        (NATION + "key = 'nation'\nnumeric = ['nation']\n", "column 'nation' has a kind, but it is a key"),
        ("database = 'nations.csv'\n[tables.nation]\n", "nations.csv: this is no SQLite or DuckDB file"),
        (
            "templates = ['across x']\n" + NATION,
            r"other\.toml: The template 'across x' names the link 'x'; links: none",
        ),
        ("[triples]\npairs = 'all'\n", r"\[triples\]: the key 'file' is missing"),
        ("[triples]\nfile = 'x.csv'\n[links.s]\ntable = 'a'\n", r"'links' cannot be used with \[triples\]"),
        ("database = 'x.db'\n[tables.nation]\nfile = 'x'\n", "unknown key 'file'; known keys: table, query, key"),
        ("database = 'x.db'\n[tables.n]\ntable = 'x'\nquery = 'SELECT 1'\n", "both 'table' and 'query': remove one"),
        ("[triples]\nfile = 'x.csv'\npairs = 3\n", "pairs = 3: Expected `str`, got `int`"),
    ],
)
def test_errors_in_the_file_are_named(folder: Path, text: str, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read_schema(written(folder, text))
    assert "\n" not in str(caught.value)


def test_all_problems_of_the_sections_are_told_at_once(folder: Path) -> None:
    text = NATION + "key = 5\nkeys = 'x'\n[links.s]\ncolumn = 'rich'\nby = true\n"
    with pytest.raises(DataError) as caught:
        read_schema(written(folder, text))
    for words in ("[tables.nation]: key = 5", "[tables.nation]: unknown key 'keys'", "[links.s]: the key 'to'"):
        assert words in str(caught.value)


def test_a_schema_file_must_exist_and_be_text(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"schema\.toml: there is no such file"):
        read_schema(tmp_path / "schema.toml")
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"x\.toml cannot be read as text"):
        read_schema(tmp_path / "x.toml")

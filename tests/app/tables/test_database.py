"""Tables, keys and links of a database are read, and nothing is written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest

from sparsefield.app.tables.linked import read_database
from sparsefield.app.tables.read import read_table
from sparsefield.data.links import ForeignKey
from sparsefield.errors import DataError

DEFINITION = """
CREATE TABLE nations (nation VARCHAR PRIMARY KEY, rich INTEGER, area DOUBLE);
CREATE TABLE "an ""odd"" pair" (subject VARCHAR REFERENCES nations (nation), object VARCHAR REFERENCES nations (nation),
    exports INTEGER, PRIMARY KEY (subject, object));
CREATE TABLE treaty (a VARCHAR, b VARCHAR, day INTEGER,
    FOREIGN KEY (a, b) REFERENCES "an ""odd"" pair" (subject, object));
CREATE VIEW large AS SELECT * FROM nations WHERE area > 2;
INSERT INTO nations VALUES ('A', 1, 3.5), ('B', NULL, 2.0);
INSERT INTO "an ""odd"" pair" VALUES ('A', 'B', 1), ('B', 'A', 0);
INSERT INTO treaty VALUES ('A', 'B', 7);
"""
TABLES = {"nation": "nations", "pair": 'an "odd" pair'}


def made(path: Path, definition: str = DEFINITION) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(definition)
    return path


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return made(tmp_path / "world's.db")


# -- what is read ------------------------------------------------------------------------------------------------


def test_keys_and_links_are_those_that_the_database_declares(database: Path) -> None:
    data = read_database(database, TABLES)
    assert data.tables["nation"].rows() == [("A", 1, 3.5), ("B", None, 2.0)]
    assert data.keys == {"nation": "nation"}
    assert data.links == {
        "subject": ForeignKey("pair", "subject", "nation"),
        "object": ForeignKey("pair", "object", "nation"),
    }
    assert [rows.tolist() for rows in data.linked_rows("object")] == [[0, 1], [1, 0]]


def test_queries_and_views_are_tables_too(database: Path) -> None:
    query = "SELECT nation, CASE WHEN area > 3 THEN 'big' ELSE 'small' END AS size FROM nations ORDER BY nation"
    data = read_database(database, {"nation": query, "large": "large", "pair": 'main.an "odd" pair'})
    assert data.tables["nation"].rows() == [("A", "big"), ("B", "small")]
    assert data.tables["large"].height == 1
    # A query has no declared key, so nothing links to it.
    assert data.links == {}
    with_cte = "with x as (select nation from nations) select count(*) as n from x"
    assert read_database(database, {"x": with_cte}).tables["x"].rows() == [(2,)]


def test_links_of_equal_columns_in_two_tables_have_distinct_names(tmp_path: Path, database: Path) -> None:
    definition = (
        "CREATE TABLE p (id INTEGER PRIMARY KEY, x INTEGER);"
        'CREATE TABLE q (p INTEGER REFERENCES p (id), "the boss" INTEGER REFERENCES p (id), y INTEGER);'
        "CREATE TABLE r (p INTEGER REFERENCES p (id), z INTEGER);"
        "INSERT INTO p VALUES (1, 0); INSERT INTO q VALUES (1, NULL, 0); INSERT INTO r VALUES (1, 1);"
    )
    path = made(tmp_path / f"two{database.suffix}", definition)
    links = read_database(path, {name: name for name in "pqr"}).links
    assert sorted(links) == ["q.p", "r.p", "the_boss"]
    assert links["the_boss"] == ForeignKey("q", "the boss", "p")


def test_a_reference_to_a_column_other_than_the_key_is_refused(tmp_path: Path, database: Path) -> None:
    definition = (
        "CREATE TABLE p (id INTEGER PRIMARY KEY, code INTEGER UNIQUE);"
        "CREATE TABLE q (p INTEGER REFERENCES p (code), y INTEGER);"
        "INSERT INTO p VALUES (1, 10); INSERT INTO q VALUES (10, 0);"
    )
    path = made(tmp_path / f"code{database.suffix}", definition)
    with pytest.raises(DataError, match=r"q\.p references p\.code, but the key of 'p' is 'id'"):
        read_database(path, {"p": "p", "q": "q"})
    data = read_database(path, {"p": "p", "q": "q"}, keys={"p": "code"})
    assert data.links == {"p": ForeignKey("q", "p", "p")}


def test_a_referenced_column_is_the_key_of_a_table_without_one(tmp_path: Path, database: Path) -> None:
    definition = (
        "CREATE TABLE p (code INTEGER UNIQUE, x INTEGER); CREATE TABLE q (p INTEGER REFERENCES p (code), y INTEGER);"
        "INSERT INTO p VALUES (10, 1); INSERT INTO q VALUES (10, 0);"
    )
    data = read_database(made(tmp_path / f"unique{database.suffix}", definition), {"p": "p", "q": "q"})
    assert data.keys == {"p": "code"}
    assert [rows.tolist() for rows in data.linked_rows("p")] == [[0], [0]]


def test_nothing_is_written(database: Path) -> None:
    before = database.read_bytes()
    read_database(database, TABLES)
    for query in (
        "SELECT 1 AS a; DROP TABLE treaty",
        "WITH x AS (SELECT 1) INSERT INTO treaty VALUES ('A', 'B', 8)",
        "WITH x AS (SELECT 1) DELETE FROM treaty",
    ):
        with pytest.raises(DataError):
            read_database(database, {"x": query})
    assert database.read_bytes() == before
    assert sorted(path.name for path in database.parent.iterdir()) == [database.name]


def test_sqlite_may_mix_types_and_reference_an_unnamed_primary_key(tmp_path: Path) -> None:
    definition = (
        "CREATE TABLE p (id INTEGER PRIMARY KEY, x); CREATE TABLE q (p INTEGER REFERENCES P, r REFERENCES nowhere, y);"
        "INSERT INTO p VALUES (1, 'a'), (2, 'b'); INSERT INTO q VALUES (2, 1, 0), (1, 1, 1);"
    )
    data = read_database(made(tmp_path / "p.sqlite", definition), {"p": "p", "q": "q"})
    assert data.links == {"p": ForeignKey("q", "p", "p")}
    assert data.variables("q") == ("r", "y")


# -- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({}, "no tables were named"),
        ({"x": "nowhere"}, "'nowhere' is no table and no SELECT; the tables are .*large, nations,"),
        ({"x": "SELECT * FROM nowhere"}, "table 'x': .*nowhere"),
        ({"x": "SELECT * FROM nations WHERE area > 9"}, "table 'x' has no rows"),
    ],
)
def test_a_missing_table_is_named(database: Path, tables, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read_database(database, tables)
    assert "\n" not in str(caught.value)


def test_duplicate_columns_are_refused(tmp_path: Path) -> None:
    path = made(tmp_path / "w.db")
    with pytest.raises(DataError, match="table 'x' has several columns 'nation': rename them with AS"):
        read_database(path, {"x": "SELECT a.nation, b.nation FROM nations a, nations b"})


def test_files_that_are_not_databases_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.db: there is no such database"):
        read_database(tmp_path / "none.db", {"x": "x"})
    (tmp_path / "text.db").write_text("this is no database, but a text that goes on for a while " * 99)
    with pytest.raises(DataError, match=r"text\.db: ") as caught:
        read_database(tmp_path / "text.db", {"x": "x"})
    assert "\n" not in str(caught.value)
    (tmp_path / "torn.sqlite").write_bytes(b"SQLite format 3\0" + b"\1" * 200)
    with pytest.raises(DataError, match=r"torn\.sqlite: "):
        read_database(tmp_path / "torn.sqlite", {"x": "x"})


def _make(path: Path, *rows: tuple) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=wal")
    connection.execute("CREATE TABLE t (a, b)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
    connection.commit()
    return connection


def test_a_file_with_a_log_is_read_with_it_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    with closing(_make(path, (1, "x"), (2, "y"))):
        before = {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")}
        assert read_table(path).rows() == [(1, "x"), (2, "y")]
        after = {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")}
    assert before == after
    assert [file.name for file in tmp_path.iterdir()] == ["t.sqlite"]
    assert read_table(path).rows() == [(1, "x"), (2, "y")]
    assert [file.name for file in tmp_path.iterdir()] == ["t.sqlite"]


def test_numbers_beside_text_stay_and_binary_cells_are_refused(tmp_path: Path) -> None:
    _make(tmp_path / "mixed.sqlite", (1, 1), ("x", 2.5), (None, None), (2.5, 3)).close()
    assert read_table(tmp_path / "mixed.sqlite")["a"].to_list() == ["1", "x", None, "2.5"]
    assert read_table(tmp_path / "mixed.sqlite")["b"].to_list() == [1.0, 2.5, None, 3.0]
    _make(tmp_path / "binary.sqlite", (1, "a"), (b"x", "b")).close()
    with pytest.raises(DataError, match="column 'a' has binary cells"):
        read_table(tmp_path / "binary.sqlite")


def test_dates_are_dates(tmp_path: Path) -> None:
    _make(tmp_path / "t.sqlite", ("2024-01-29", "1/2/2024"), (None, "2/1/2024")).close()
    assert read_table(tmp_path / "t.sqlite").rows() == [(date(2024, 1, 29), "1/2/2024"), (None, "2/1/2024")]

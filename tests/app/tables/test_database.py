"""Tables, keys and links of a database are read, and nothing is written."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import socket
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from datetime import date, datetime
from pathlib import Path

import pytest

from sparsefield.app.cli import app, run_app
from sparsefield.app.tables.linked import propose_schema, read_database
from sparsefield.app.tables.read import read_table
from sparsefield.data.links import ForeignKey
from sparsefield.data.relational import Relational
from sparsefield.errors import DataError

DEFINITION = """
CREATE TABLE nations (nation VARCHAR PRIMARY KEY, rich INTEGER, area DOUBLE PRECISION);
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


def made(place: Path | str, definition: str = DEFINITION) -> Path | str:
    """Run the definition in a database of the system that the place names, whose tables are dropped before."""
    if isinstance(place, str):
        import psycopg

        with psycopg.connect(place, autocommit=True) as server:
            server.execute(f"DROP SCHEMA public CASCADE; CREATE SCHEMA public; {definition}")
    elif place.suffix == ".duckdb":
        import duckdb

        with closing(duckdb.connect(place)) as connection:
            connection.execute(definition)
    else:
        with closing(sqlite3.connect(place)) as connection:
            connection.executescript(definition)
    return place


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a PostgreSQL server that runs for these tests; its user has a password."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs or importlib.util.find_spec("psycopg") is None:
        pytest.skip("needs psycopg, and the package postgresql of Debian")
    owner = {"user": "postgres"} if os.geteuid() == 0 else {}  # the server does not run as root
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        shutil.chown(folder, owner.get("user", os.geteuid()))
        (Path(folder) / "password").write_text("s3/c@ret")
        Path(folder, "password").chmod(0o644)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        data, options = f"{folder}/data", f"-h 127.0.0.1 -p {port} -k {folder}"
        call = functools.partial(subprocess.run, **owner, check=True, stdout=subprocess.DEVNULL, cwd=folder)
        secret = ("--auth=scram-sha-256", f"--pwfile={folder}/password")
        call([programs[-1] / "initdb", "-D", data, "-U", "ann", *secret])
        free.close()
        call([programs[-1] / "pg_ctl", "-D", data, "-o", options, "-l", f"{folder}/log", "-w", "start"])
        try:
            yield f"postgresql://ann:s3%2Fc%40ret@127.0.0.1:{port}/postgres"
        finally:
            call([programs[-1] / "pg_ctl", "-D", data, "-m", "immediate", "stop"])


SYSTEMS = ["sqlite", "duckdb", pytest.param("postgres", marks=pytest.mark.slow)]


@pytest.fixture(params=SYSTEMS)
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Path | str:
    """Where a database of each system may be made."""
    if request.param == "postgres":
        return request.getfixturevalue("server")
    if request.param == "duckdb":
        pytest.importorskip("duckdb")
    return tmp_path / f"world's.{request.param}"


@pytest.fixture
def database(place: Path | str) -> Path | str:
    return made(place)


# -- what is read ------------------------------------------------------------------------------------------------


def test_keys_and_links_are_those_that_the_database_declares(database: Path | str) -> None:
    data = Relational.from_database(database, TABLES)
    assert data.tables["nation"].rows() == [("A", 1, 3.5), ("B", None, 2.0)]
    assert data.keys == {"nation": "nation"}
    assert data.links == {
        "subject": ForeignKey("pair", "subject", "nation"),
        "object": ForeignKey("pair", "object", "nation"),
    }
    assert [rows.tolist() for rows in data.linked_rows("object")] == [[0, 1], [1, 0]]


def test_queries_and_views_are_tables_too(database: Path | str) -> None:
    query = "SELECT nation, CASE WHEN area > 3 THEN 'big' ELSE 'small' END AS size FROM nations ORDER BY nation"
    data = read_database(database, {"nation": query, "large": "large", "pair": 'main.an "odd" pair'})
    assert data.tables["nation"].rows() == [("A", "big"), ("B", "small")]
    assert data.tables["large"].height == 1
    # A query has no declared key, so nothing links to it.
    assert data.links == {}
    with_cte = "with x as (select nation from nations) select count(*) as n from x"
    assert read_database(database, {"x": with_cte}).tables["x"].rows() == [(2,)]


def test_links_of_equal_columns_in_two_tables_have_distinct_names(place: Path | str) -> None:
    definition = (
        "CREATE TABLE p (id INTEGER PRIMARY KEY, x INTEGER);"
        'CREATE TABLE q (p INTEGER REFERENCES p (id), "the boss" INTEGER REFERENCES p (id), y INTEGER);'
        "CREATE TABLE r (p INTEGER REFERENCES p (id), z INTEGER);"
        "INSERT INTO p VALUES (1, 0); INSERT INTO q VALUES (1, NULL, 0); INSERT INTO r VALUES (1, 1);"
    )
    made(place, definition)
    links = read_database(place, {name: name for name in "pqr"}).links
    assert sorted(links) == ["q.p", "r.p", "the_boss"]
    assert links["the_boss"] == ForeignKey("q", "the boss", "p")


def test_a_reference_to_a_column_other_than_the_key_is_refused(place: Path | str) -> None:
    definition = (
        "CREATE TABLE p (id INTEGER PRIMARY KEY, code INTEGER UNIQUE);"
        "CREATE TABLE q (p INTEGER REFERENCES p (code), y INTEGER);"
        "INSERT INTO p VALUES (1, 10); INSERT INTO q VALUES (10, 0);"
    )
    made(place, definition)
    with pytest.raises(DataError, match=r"q\.p points to p\.code, but the key of 'p' is 'id'"):
        read_database(place, {"p": "p", "q": "q"})
    data = read_database(place, {"p": "p", "q": "q"}, keys={"p": "code"})
    assert data.links == {"p": ForeignKey("q", "p", "p")}


def test_a_referenced_column_is_the_key_of_a_table_without_one(place: Path | str) -> None:
    definition = (
        "CREATE TABLE p (code INTEGER UNIQUE, x INTEGER); CREATE TABLE q (p INTEGER REFERENCES p (code), y INTEGER);"
        "INSERT INTO p VALUES (10, 1); INSERT INTO q VALUES (10, 0);"
    )
    data = read_database(made(place, definition), {"p": "p", "q": "q"})
    assert data.keys == {"p": "code"}
    assert [rows.tolist() for rows in data.linked_rows("p")] == [[0], [0]]


def test_nothing_is_written_and_nothing_else_is_read(database: Path | str, tmp_path: Path) -> None:
    before = database.read_bytes() if isinstance(database, Path) else b""
    secret = tmp_path / "secret.csv"
    queries = [
        "SELECT 1 AS a; DROP TABLE treaty",
        "SELECT 1 AS a; COMMIT; DROP TABLE treaty",
        "WITH x AS (SELECT 1) INSERT INTO treaty VALUES ('A', 'B', 8)",
        "WITH x AS (SELECT 1) DELETE FROM treaty",
    ]
    if not isinstance(database, str):
        secret.write_text("a\n1\n")
        queries += [f"SELECT * FROM '{secret}'", f"SELECT 1 AS a; ATTACH '{tmp_path / 'other.db'}' AS o"]
    for query in queries:
        with pytest.raises(DataError):
            read_database(database, {"x": query})
    assert len(read_database(database, {"treaty": "treaty"}).tables["treaty"]) == 1
    if isinstance(database, Path):
        assert database.read_bytes() == before
        assert {path.name for path in tmp_path.iterdir()} == {database.name, secret.name}


def test_values_have_types_that_can_be_learned(place: Path | str) -> None:
    """Numbers of any width are floats, times have no zone, texts that a system holds as lists and such are text."""
    if isinstance(place, Path) and place.suffix == ".sqlite":
        pytest.skip("SQLite has no types")
    types = (
        "UUID, tags INTEGER[], moment TIMESTAMP WITH TIME ZONE, mood mood, price NUMERIC(20, 3), day DATE, last DATE"
    )
    uuid = "93f57cb0-ef67-4496-9688-35aa134a139c"
    row = f"'{uuid}', ARRAY[1, 2], '2024-02-03 04:05:06+00', 'good', 7.25, '2024-01-29', 'infinity', true"
    made(
        place,
        f"CREATE TYPE mood AS ENUM ('bad', 'good'); CREATE TABLE t (u {types}, ok BOOLEAN);"
        f"INSERT INTO t VALUES ({row})",
    )
    cells = read_database(place, {"t": "t"}).tables["t"].row(0, named=True)
    assert cells.pop("tags") in ("[1, 2]", "{1,2}")
    assert cells == {
        "u": uuid, "moment": datetime(2024, 2, 3, 4, 5, 6), "mood": "good", "price": 7.25, "day": date(2024, 1, 29),
        "last": None, "ok": True,
    }  # fmt: skip


def test_all_tables_are_read_without_names(place: Path | str) -> None:
    made(
        place,
        "CREATE TABLE shop (id INTEGER PRIMARY KEY, town VARCHAR); CREATE TABLE none (a INTEGER);"
        "CREATE TABLE sold (shop INTEGER REFERENCES shop (id), line INTEGER, late INTEGER, PRIMARY KEY (shop, line));"
        "CREATE TABLE sent_back (shop INTEGER, line INTEGER, FOREIGN KEY (shop, line) REFERENCES sold (shop, line));"
        "CREATE VIEW towns AS SELECT town FROM shop; INSERT INTO shop VALUES (1, 'A'), (2, 'B'), (3, 'A');"
        "INSERT INTO sold VALUES (1, 1, 0), (1, 2, 1), (3, 1, 0); INSERT INTO sent_back VALUES (1, 2)",
    )
    data = read_database(place)
    assert set(data.tables) == {"shop", "sold", "sent_back"}
    assert (data.keys, data.links) == ({"shop": "id"}, {"shop": ForeignKey("sold", "shop", "shop")})
    assert data.variables("sent_back") == ()
    text = propose_schema(place).as_toml()
    assert "# the foreign key (shop, line) to sold(shop, line) is no link: a link is one column to the key" in text


@pytest.mark.slow
def test_passwords_are_in_no_message_and_no_file(server: str, tmp_path: Path, capfd, monkeypatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "")
    values = ", ".join(f"({k}, {k % 2}, {k % 2})" for k in range(40))
    made(server, f"CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER); INSERT INTO t VALUES {values}")
    assert run_app(app, "sparsefield", ["fit", server, "-o", str(tmp_path / "m"), "--l1", "1"]) == 0
    assert run_app(app, "sparsefield", ["predict", str(tmp_path / "m"), server, "-o", str(tmp_path / "out")]) == 0
    assert run_app(app, "sparsefield", ["schema", server, "-o", str(tmp_path / "s.toml")]) == 0
    assert run_app(app, "sparsefield", ["fit", str(tmp_path / "s.toml"), "-o", str(tmp_path / "m"), "--l1", "1"]) == 0
    wrong = server.replace("s3%2F", "s4/")
    assert run_app(app, "sparsefield", ["fit", wrong, "-o", str(tmp_path / "m")]) == 2
    with pytest.raises(DataError, match=r"ann@127\.0\.0\.1.*there is no connection") as caught:
        read_database(wrong)
    printed = "".join(capfd.readouterr()) + str(caught.value)
    assert "no connection" in printed
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()) + printed.encode()
    assert not [word for word in (b"s3%2F", b"s3/c", b"s4/c", b"c%40ret", b"c@ret") if word in written]


def test_sqlite_may_mix_types_and_reference_an_unnamed_primary_key(tmp_path: Path) -> None:
    definition = (
        "CREATE TABLE p (id INTEGER PRIMARY KEY, x); CREATE TABLE q (p INTEGER REFERENCES P, r REFERENCES nowhere, y);"
        "CREATE VIEW v AS SELECT * FROM nowhere; INSERT INTO p VALUES (1, 'a'), (2, 'b');"
        "INSERT INTO q VALUES (2, 1, 0), (1, 1, 1);"
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
def test_a_missing_table_is_named(database: Path | str, tables, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read_database(database, tables)
    assert "\n" not in str(caught.value)


def test_duplicate_columns_are_refused(database: Path | str) -> None:
    with pytest.raises(DataError, match="table 'x' has several columns 'nation': rename them with AS"):
        read_database(database, {"x": "SELECT a.nation, b.nation FROM nations a, nations b"})


def test_files_that_are_not_databases_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.db: there is no such database"):
        read_database(tmp_path / "none.db", {"x": "x"})
    (tmp_path / "text.db").write_text("this is no database, but a text that goes on for a while " * 99)
    with pytest.raises(DataError, match=r"text\.db: ") as caught:
        read_database(tmp_path / "text.db", {"x": "x"})
    assert "\n" not in str(caught.value)
    content = made(tmp_path / "good.sqlite").read_bytes().replace(b"TABLE treaty", b"TA\xceLE treaty")
    for torn in (b"SQLite format 3\0" + b"\1" * 200, content):
        (tmp_path / "torn.sqlite").write_bytes(torn)
        with pytest.raises(DataError, match=r"torn\.sqlite, the catalog: "):
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

"""Keys and links of databases and folders are found as they are declared, or guessed with a remark."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sparsefield import read_database, read_schema
from sparsefield.app.tables.linked import propose_schema
from sparsefield.data.links import ForeignKey
from sparsefield.errors import DataError, GuessWarning

pytestmark = pytest.mark.filterwarnings("ignore::sparsefield.errors.GuessWarning")

LINKS = {
    "customer_id": ForeignKey("orders", "customer_id", "customers"),
    "order": ForeignKey("order_lines", "order", "orders"),
    "productId": ForeignKey("order_lines", "productId", "products"),
}


def tables() -> dict[str, pl.DataFrame]:
    rng = np.random.default_rng(0)
    people, orders, lines = 60, 150, 400
    return {
        "customers": pl.DataFrame(
            {
                "id": np.arange(1, people + 1),
                "name": [f"person {k}" for k in range(people)],
                "region": rng.choice(["n", "s"], people),
            }
        ),
        "products": pl.DataFrame({"product_id": np.arange(100, 110), "kind": ["food", "toy"] * 5}),
        "orders": pl.DataFrame(
            {
                "id": np.arange(1, orders + 1),
                "customer_id": rng.integers(1, people + 1, orders),
                "paid": rng.choice(["card", "cash", None], orders),
            }
        ),
        "order_lines": pl.DataFrame(
            {
                "order": rng.integers(1, orders + 1, lines),
                "productId": rng.integers(100, 110, lines),
                "number": rng.integers(1, 4, lines),
            }
        ),
    }


def declared(name: str) -> str:
    keys = {"customers": "id INTEGER PRIMARY KEY, name, region", "products": "product_id INTEGER PRIMARY KEY, kind"}
    keys["orders"] = "id INTEGER PRIMARY KEY, customer_id REFERENCES customers, paid"
    keys["order_lines"] = '"order" REFERENCES orders, productId REFERENCES products, number'
    return keys[name]


@pytest.fixture(params=["declared", "guessed", "folder", "parquet"])
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    if request.param in ("folder", "parquet"):
        for name, table in tables().items():
            if request.param == "folder":
                table.write_csv(tmp_path / f"{name}.csv")
            else:
                table.write_parquet(tmp_path / f"{name}.parquet")
        return tmp_path
    path = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        for name, table in tables().items():
            columns = ", ".join(f'"{column}"' for column in table.columns)
            connection.execute(f"CREATE TABLE {name} ({declared(name) if request.param == 'declared' else columns})")
            connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * table.width)})", table.rows())
        connection.execute("CREATE VIEW paid AS SELECT * FROM orders WHERE paid IS NOT NULL")
        connection.execute("CREATE TABLE no_rows (a)")
    return path


def test_tables_keys_and_links_are_found(place: Path, request: pytest.FixtureRequest) -> None:
    data = read_schema(place)
    assert data.keys == {"customers": "id", "products": "product_id", "orders": "id"}
    assert data.links == LINKS
    assert data.variables("customers") == ("region",)  # names are left out, as in a fit of one table
    assert set(data.tables) == set(tables())
    proposal = propose_schema(place)
    guesses = [note for notes in proposal.notes.values() for note in notes if note.startswith("guessed: ")]
    assert len(guesses) == (0 if "declared" in request.node.name else 6)


def test_a_written_schema_is_read_as_the_database(place: Path) -> None:
    folder = place if place.is_dir() else place.parent
    text = propose_schema(place).as_toml()
    assert "# ignored, since they cannot be learned: 'name' (an identifier)" in text
    (folder / "s.toml").write_text(text)
    written, direct = read_schema(folder / "s.toml"), read_schema(place)
    assert repr(written) == repr(direct)
    assert (written.keys, written.links, written.ignore) == (direct.keys, direct.links, direct.ignore)


def test_texts_link_by_their_values_and_numbers_do_not(tmp_path: Path) -> None:
    words = [f"w{k}" for k in range(9)]
    pl.DataFrame({"nation": words, "rich": [0, 1, 1] * 3}).write_csv(tmp_path / "nations.csv")
    pairs = pl.DataFrame({"subject": words, "object": words[::-1], "level": ["w1", "w2", "x"] * 3, "rank": range(9)})
    pairs.write_csv(tmp_path / "an odd pair.csv")
    data = read_schema(tmp_path)
    assert set(data.links) == {"subject", "object"}
    assert '[tables."an odd pair"]' in propose_schema(tmp_path).as_toml()


@pytest.mark.parametrize(
    ("column", "is_link"),
    [
        ("home_team_id", True),
        ("AwayTeam", True),
        ("teamID", True),
        ("steam", False),
        ("rank", False),
        ("team_size", False),
    ],
)
def test_names_of_links_end_in_that_of_a_table(tmp_path: Path, column: str, is_link: bool) -> None:
    pl.DataFrame({"id": range(9), "won": [0, 1, 1] * 3}).write_csv(tmp_path / "teams.csv")
    pl.DataFrame({column: [k % 9 for k in range(40)], "x": ["a", "b"] * 20}).write_csv(tmp_path / "games.csv")
    is_link = column in ("home_team_id", "AwayTeam", "teamID")
    assert [link["column"] for link in propose_schema(tmp_path).content["links"].values()] == [column] * is_link


def test_pictures_composite_keys_and_links_within_a_table(tmp_path: Path) -> None:
    path = tmp_path / "north.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(
            'CREATE TABLE "the staff" (code TEXT PRIMARY KEY, boss TEXT REFERENCES "the staff", photo BLOB, team);'
            "CREATE TABLE shifts (code TEXT REFERENCES [the staff], day, late, PRIMARY KEY (code, day));"
        )
        staff = [(f"s{k}", f"s{k // 3}" if k else None, b"\x00\xff", "ab"[k % 2]) for k in range(20)]
        connection.executemany('INSERT INTO "the staff" VALUES (?, ?, ?, ?)', staff)
        connection.executemany(
            "INSERT INTO shifts VALUES (?, ?, ?)", [(f"s{k % 20}", k // 20, k % 2) for k in range(99)]
        )
    (tmp_path / "s.toml").write_text(propose_schema(path).as_toml())
    for data in (read_schema(path), read_schema(tmp_path / "s.toml")):
        assert data.keys == {"the staff": "code"}
        assert data.links == {
            "boss": ForeignKey("the staff", "boss", "the staff"),
            "code": ForeignKey("shifts", "code", "the staff"),
        }
        assert data.variables("the staff") == ("team",)


def test_keys_and_links_of_odd_names_are_guessed_with_a_warning(tmp_path: Path) -> None:
    """An abbreviated key, keys that two tables call alike, an empty file, and a column that only looks like a key."""
    people, orders = 30, 90
    pl.DataFrame({"Cust ID": range(people), "rank": range(people)}).write_csv(tmp_path / "customers.csv")
    pl.DataFrame({"sku": ["p1", "p2", "p3"], "kind": ["toy", "food", "toy"]}).write_csv(tmp_path / "products.csv")
    sold = {"order_no": range(orders), "customer": [k % people for k in range(orders)]}
    pl.DataFrame(sold).write_csv(tmp_path / "tblSale.csv")
    lines = {"order_no": range(orders), "sku": ["p1", "p2", "p3"] * 30, "rank": [1, 2, 3] * 30}
    pl.DataFrame(lines).vstack(pl.DataFrame(lines)).write_csv(tmp_path / "lines.csv")
    (tmp_path / "nothing.csv").write_text("order_no,sku\n")
    with pytest.warns(
        GuessWarning, match=r"guessed that Cust ID is the key of customers, .*lines.sku links to products"
    ):
        data = read_database(tmp_path)
    assert data.keys == {"customers": "Cust ID", "products": "sku", "tblSale": "order_no"}
    assert data.links == {
        "order_no": ForeignKey("lines", "order_no", "tblSale"),
        "sku": ForeignKey("lines", "sku", "products"),
        "customer": ForeignKey("tblSale", "customer", "customers"),
    }
    assert propose_schema(tmp_path).as_toml().startswith("# left out, since they have no rows: nothing\n")
    assert read_database(tmp_path, links={"sku": ("lines", "sku", "products")}).links.keys() == {"sku"}


def test_a_folder_without_tables_or_with_two_of_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there are no tables with rows: give a database, or a folder"):
        propose_schema(tmp_path)
    for name in ("a.csv", "a.tsv"):
        (tmp_path / name).write_text("x\n1\n")
    with pytest.raises(DataError, match=r"a\.csv and a\.tsv are both a table"):
        propose_schema(tmp_path)

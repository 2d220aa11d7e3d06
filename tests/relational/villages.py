"""Random small linked tables that hold every kind of table, link and template."""

from __future__ import annotations

import numpy as np
import polars as pl

from sparsefield.data import OffsetLink, Relational, Template

TEMPLATES = (
    Template("within", ("person",)),
    Template("within", ("letter",)),
    Template("across", ("sender",)),
    Template("across", ("receiver",), left=("kind",), right=("smokes", "town")),
    Template("across", ("home",)),
    Template("across", ("owner",)),
    Template("across", ("next",)),
    Template("across", ("elder",), symmetric=True),
    Template("shared", ("sender",)),
    Template("shared", ("home",), left=("mood", "age"), right=("mood", "age")),
    Template("shared", ("sender", "receiver")),
    Template("shared", ("sender", "owner"), left=("kind",)),
    Template("swapped", ("sender", "receiver")),
    Template("joined", ("who", "whom")),
    Template("joined", ("whom", "who"), symmetric=True, left=("smokes",), right=("smokes",)),
    Template("joined", ("sender", "receiver"), left=("mood",), right=("smokes", "town")),
    Template("joined", ("home", "best"), symmetric=False),
)
"""All kinds: directed and symmetric ones, with and without limits on the variables, to and from tables without
targets, and over a table without variables."""

LINKS = {
    "owner": ("badge", "owner", "person"), "home": ("person", "home", "place"),
    "best": ("person", "best", "person"), "elder": OffsetLink("person", along="rank"),
    "sender": ("letter", "sender", "person"), "receiver": ("letter", "receiver", "person"),
    "next": OffsetLink("letter", within="bag"), "who": ("friend", "who", "person"),
    "whom": ("friend", "whom", "person"),
}  # fmt: skip


def village(
    seed: int,
    *,
    persons: int = 4,
    letters: int = 4,
    missing: float = 0.2,
    templates=TEMPLATES,
    moods: int = 3,
    loose: float = 0.15,
) -> tuple[Relational, dict[str, list[dict]]]:
    """Linked tables, and the same as lists of rows. ``badge`` and ``place`` have observed columns alone, ``friend``
    has no variables; some links lead nowhere."""
    rng = np.random.default_rng(seed)

    def pick(values, share: float = 0.0):
        return None if rng.random() < share else values[rng.integers(len(values))]

    def given(rows: list[dict], column: str, values) -> None:
        """A column has a value somewhere, and mostly two different ones."""
        wanted = 1 if rng.random() < 0.1 else 2
        if len({row[column] for row in rows} - {None}) < wanted:
            for row, value in zip(rng.permutation(len(rows)), rng.permutation(len(values))[:wanted], strict=False):
                rows[row][column] = values[value]

    ids = [f"p{k}" for k in range(persons)]
    places = ["hill", "lake", "wood"]
    mood = ["calm", "glad", "sad", "odd"][:moods]
    badges = [
        {"owner": pick(ids, loose), "color": pick(["red", "blue", "gray"], missing / 2)}
        for _ in range(max(2, persons // 2))
    ]
    given(badges, "color", ["red", "blue", "gray"])
    people = [
        {
            "id": name,
            "mood": pick(mood, missing),
            "smokes": pick([0, 1], missing),
            "town": pick(["north", "south"], missing / 2),
            "age": None if rng.random() < missing / 2 else float(np.round(rng.normal(40.5, 9), 3)),
            "home": pick(places, loose),
            "best": pick(ids, loose),
            "rank": int(rank),
        }
        for name, rank in zip(ids, rng.permutation(persons + 1)[:persons], strict=True)
    ]
    post = [
        {
            "sender": pick(ids, loose),
            "kind": pick(["bill", "love"], missing),
            "receiver": pick(ids, loose),
            "weight": float(np.round(rng.normal(20.5, 3), 3)),
            "bag": int(rng.integers(2)),
        }
        for _ in range(letters)
    ]
    if rng.random() < 0.7:
        # An answer to the first letter, as chance alone would seldom have it.
        post[-1].update(sender=post[0]["receiver"], receiver=post[0]["sender"])
    for column, values in (("mood", mood), ("smokes", [0, 1]), ("town", ["north", "south"]), ("age", [33.3, 44.4])):
        given(people, column, values)
    given(post, "kind", ["bill", "love"])
    climates = ["dry", "wet", pick(["dry", "wet", None])]
    rows = {
        "badge": badges,
        "person": people,
        "place": [{"name": name, "climate": climate} for name, climate in zip(places, climates, strict=True)],
        "letter": post,
        "friend": [{"who": pick(ids, loose), "whom": pick(ids, loose)} for _ in range(persons)],
    }
    return relational(rows, templates), rows


def relational(rows: dict[str, list[dict]], templates=TEMPLATES, *, frame=None) -> Relational:
    """Lists of rows as linked tables."""
    return Relational(
        {name: (frame or _frame)(table) for name, table in rows.items()},
        keys={"person": "id", "place": "name"},
        links=LINKS,
        observed={"badge": ["color"], "person": ["town", "age"], "place": ["climate"], "letter": ["weight"]},
        templates=templates,
    )


def _frame(table: list[dict]) -> pl.DataFrame:
    return pl.DataFrame(table, infer_schema_length=None)

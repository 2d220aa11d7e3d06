"""Small linked tables that several tests of this folder use."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from sparsefield.data.relational import Relational

LINKS = {"subject": ("pair", "subject", "nation"), "object": ("pair", "object", "nation")}


def nations(make: Any = pl.DataFrame, **more: Any) -> Relational:
    nation = make({"nation": ["A", "B", "C"], "rich": [1, 0, 1], "area": [3.5, 1.0, 2.0]})
    pair = make({"subject": ["A", "B", "A"], "object": ["B", "A", "C"], "exports": [1, 0, 1]})
    options: dict[str, Any] = {"keys": {"nation": "nation"}, "links": LINKS, **more}
    return Relational({"nation": nation, "pair": pair}, **options)


def people(friends: list[tuple[Any, Any]], n: int = 4) -> Relational:
    """Rows (who, whom) of keys 0 .. n - 1, None for a gap."""
    friend = {"who": [a for a, _ in friends], "whom": [b for _, b in friends], "close": [1] * len(friends)}
    return Relational(
        {
            "person": pl.DataFrame({"id": list(range(n)), "smokes": [0] * n}),
            "friend": pl.DataFrame(friend, schema_overrides={"who": pl.Int64, "whom": pl.Int64}),
        },
        keys={"person": "id"},
        links={"who": ("friend", "who", "person"), "whom": ("friend", "whom", "person")},
    )


def as_pairs(found: tuple[np.ndarray, np.ndarray]) -> list[tuple[int, int]]:
    return sorted(zip(found[0].tolist(), found[1].tolist(), strict=True))

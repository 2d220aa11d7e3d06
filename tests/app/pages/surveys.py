"""A small survey with missing values, and two linked tables, for tests of pages."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from sparsefield import Relational, RelationalField
from sparsefield.app.pages.cells import TableRows
from sparsefield.app.tables.file_format import PLAIN
from sparsefield.app.tables.fill import prepare_table
from sparsefield.model import StabilityRecord


def make_survey(n_rows: int = 300, seed: int = 0) -> pl.DataFrame:
    """Return ages and dependent habits; most smokers cough."""
    rng = np.random.default_rng(seed)
    age = rng.choice(["young", "middle", "old"], n_rows)
    smokes = rng.random(n_rows) < np.where(age == "young", 0.2, 0.5)
    coughs = rng.random(n_rows) < np.where(smokes, 0.8, 0.1)
    sport = rng.random(n_rows) < np.where(age == "old", 0.1, np.where(smokes, 0.3, 0.8))
    tea = rng.random(n_rows) < 0.5
    yes = np.array(["no", "yes"])
    return pl.DataFrame(
        {
            "person": [f"p{k:03d}" for k in range(n_rows)],
            "age": age,
            "smokes": yes[smokes.astype(int)],
            "coughs": yes[coughs.astype(int)],
            "sport": sport.astype(int),
            "tea": yes[tea.astype(int)],
        }
    )


def with_missing(table: pl.DataFrame, share: float = 0.15, seed: int = 1) -> pl.DataFrame:
    """Return the survey with missing values; the first row has two, the second none."""
    rng = np.random.default_rng(seed)
    columns = [name for name in table.columns if name != "person"]
    missing = rng.random((table.height, len(columns))) < share
    missing[:2] = False
    missing[0, [columns.index("smokes"), columns.index("sport")]] = True
    made = [pl.Series(name, np.where(missing[:, k], None, table[name].to_list())) for k, name in enumerate(columns)]
    typed = [column.cast(table[column.name].dtype) for column in (pl.Series(c.name, c.to_list()) for c in made)]
    return table.with_columns(typed)


def stability_of(frequencies: list[float]) -> StabilityRecord:
    """A record of stability selection with these frequencies."""
    return StabilityRecord(
        tuple(frequencies), resamples=40, seed=0, l1=1.0, halved="rows", given_graph=False, mean_pairs=2.0
    )


def make_linked(people: int = 40, period: int = 20) -> tuple[RelationalField, Relational, TableRows]:
    """Return a field over people and their visits, the tables, and their rows; one answer is missing."""
    smokes = [str(k % period < period // 2) for k in range(people - 1)]
    person = pl.DataFrame({"id": [f"n{k}" for k in range(people)], "smokes": [*smokes, None]})
    fun = [str(k % period < period // 2) for k in range(2 * people)]
    visit = pl.DataFrame({"who": [f"n{k % people}" for k in range(2 * people)], "fun": fun})
    links: dict[str, Any] = {"who": ("visit", "who", "person")}
    data = Relational({"person": person, "visit": visit}, keys={"person": "id"}, links=links)
    field = RelationalField(l1=0.5, templates="base").fit(data)
    schemas = zip(field.field_.layout.tables, field.field_.layout.schemas, strict=True)
    tables = {name: prepare_table(data.tables[name], schema, PLAIN) for name, schema in schemas}
    return field, data, TableRows(field, tables, data)

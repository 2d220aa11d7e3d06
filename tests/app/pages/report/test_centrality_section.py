"""The section on centrality has a dot and a row for each column, and says what it needs."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField
from sparsefield.analysis.centrality import Centrality, find_centrality
from sparsefield.analysis.network import Network
from sparsefield.analysis.predictability import find_predictability
from sparsefield.analysis.scored_rows import score_rows
from sparsefield.app.pages.report.centrality_section import MOST_DRAWN, render_centrality


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 200)
    return pl.DataFrame({"a": a, "b <": np.where(rng.random(200) < 0.9, a, 1 - a), "c": rng.integers(0, 2, 200)})


@pytest.fixture(scope="module")
def field(table: pl.DataFrame) -> MarkovField:
    return MarkovField(l1=9.0).fit(table[:150])


def test_columns_with_edges_are_drawn_and_all_are_listed(field: MarkovField, table: pl.DataFrame) -> None:
    centrality = find_centrality(Network(field.field_), "auto")
    predictability = find_predictability(field.field_, score_rows(field, table[150:]))
    markup = render_centrality(centrality, predictability)
    assert markup.count('class="point"') == 4  # strength and influence of two columns
    assert markup.count("<tr>") == 1 + 3
    assert "b &lt;" in markup
    assert "b <" not in markup
    assert "normalized" in markup
    assert "1 columns with less strength are not drawn" not in markup
    assert "1 column with less strength is not drawn" in markup


def test_without_rows_it_says_what_predictability_needs(field: MarkovField) -> None:
    markup = render_centrality(find_centrality(Network(field.field_), paths=False))
    assert "Predictability needs rows" in markup
    assert "betweenness" not in markup


def test_without_edges_there_is_a_sentence() -> None:
    none = np.zeros(2)
    empty = Centrality(("a", "b"), none, none, none, none)
    assert "no two columns share a feature" in render_centrality(empty)
    assert "no two columns share a feature" in render_centrality(None)


def test_only_the_strongest_columns_are_drawn() -> None:
    values = np.arange(1.0, 101.0)
    many = Centrality(tuple(f"x{k}" for k in range(100)), values.astype(int), values, np.full(100, np.nan), values)
    markup = render_centrality(many)
    assert markup.count('class="point"') == MOST_DRAWN
    assert "x99: strength 100.00" in markup
    assert "70 columns with less strength are not drawn" in markup

"""The page has the values of the field, escapes what comes from data, and needs nothing from outside."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from surveys import make_linked, stability_of

from sparsefield import CRFClassifier, MarkovField
from sparsefield.app.datasets import make_markov_field
from sparsefield.app.pages.findings import LEAST_WEIGHT
from sparsefield.app.pages.page import FIGURE, make_page, write_codebook, write_report
from sparsefield.app.tables.codebook import inspect
from sparsefield.app.tables.file_format import HeldOut, Source
from sparsefield.model.feature_tables import list_features

NASTY = "<script>alert(1)</script>\"'&"


def document_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="document">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.fixture(scope="module")
def page(field: MarkovField, survey: pl.DataFrame) -> str:
    return make_page(field, survey, title="habits")


def test_the_page_is_named_after_the_data_and_has_its_parts_in_order(page: str) -> None:
    assert "<h1>habits</h1>" in page
    places = [page.index(f'id="{name}"') for name in ("tiles", "network", "findings", "columns", "features", "method")]
    assert places == sorted(places)


def test_the_document_has_the_columns_edges_and_features_of_the_field(page: str, field: MarkovField) -> None:
    data = document_of(page)
    assert sorted(data["names"]) == ["age", "coughs", "smokes", "sport", "tea"]  # all of few, also those without edges
    ends = zip(data["a"], data["b"], strict=True)
    shown = {frozenset((data["names"][a], data["names"][b])): s for (a, b), s in zip(ends, data["s"], strict=True)}
    edges = {frozenset((a, b)): strength for a, b, _, _, strength, *_ in field.edges_.iter_rows()}
    assert shown.keys() == edges.keys()
    assert all(shown[key] == pytest.approx(edges[key], rel=1e-3) for key in edges)
    weights = sorted(feature[2] for features in data["f"] for feature in features)
    shown_weights = [weight for weight in sorted(field.features_["weight"]) if abs(weight) >= LEAST_WEIGHT]
    np.testing.assert_allclose(weights, shown_weights, rtol=1e-3)
    assert data["server"] is None


def test_the_table_of_a_pair_counts_the_rows_of_the_data(page: str, survey: pl.DataFrame) -> None:
    data = document_of(page)
    pair = next(pair for pair, a, b in zip(data["pairs"], data["a"], data["b"], strict=True)
                if {data["names"][a], data["names"][b]} == {"smokes", "coughs"})  # fmt: skip
    both = survey.filter((pl.col("smokes") == "yes") & (pl.col("coughs") == "yes")).height
    assert pair["counts"][pair["states"][0].index("yes")][pair["states"][1].index("yes")] == both


def test_tiles_and_columns_have_the_missing_cells_of_the_data(page: str, survey: pl.DataFrame) -> None:
    missing = sum(survey.drop("person").null_count().row(0))
    assert f"{missing:,} of 1,500 values" in page
    assert page.count('class="node" data-node="smokes"') >= 2  # of the tables of columns and of centrality


def test_the_number_of_a_sentence_is_bold_and_not_the_number_of_levels() -> None:
    line = "Where a=1, b is lower: level 2.1 of 5 on average, against level 3.4 of 5 overall."
    assert FIGURE.split(line)[1::2] == ["2.1", "3.4"]
    assert FIGURE.split("c is lower: -0.911 on average, against 17,717 overall.")[1::2] == ["-0.911", "17,717"]
    assert FIGURE.split("higher c goes with lower d (rank correlation -0.31).")[1::2] == ["-0.31"]


def test_the_tile_has_the_gain_of_held_out_cells_if_the_fit_measured_it(field: MarkovField, survey) -> None:
    held_out = HeldOut(cells=150, gain=0.1234, error=0.02, better=4, columns=5)
    source = Source("survey.csv", command="sparsefield fit survey.csv", held_out=held_out)
    record = msgspec.structs.replace(field.field_.record, source=source.as_text())
    measured = copy.copy(field)
    measured.field_ = replace(field.field_, record=record)
    page = make_page(measured, survey)
    assert "+0.123" in page
    assert "log-likelihood per held-out value (\u00b1\u00a00.02); 4 of 5 columns better" in page
    assert '<pre id="command">sparsefield fit survey.csv</pre>' in page
    assert "in these rows" in make_page(measured, survey.head(100))


def test_without_rows_parts_that_need_them_are_absent(field: MarkovField) -> None:
    page = make_page(field)
    assert 'id="columns"' not in page
    assert "needs rows (--data)" in page
    assert all(share is None for share in document_of(page)["ring"])


def test_names_and_states_are_escaped(tmp_path: Path) -> None:
    rain = np.arange(200) % 2
    table = pl.DataFrame({NASTY: np.where(rain, NASTY, "no"), "wet": rain, "</style>": rain[::-1]})
    field = MarkovField(l1=1.0).fit(table)
    write_report(field, table, tmp_path / "page.html", title=NASTY)
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert page.count("</style>") == 1
    assert NASTY in document_of(page)["names"]
    write_codebook(inspect(table), tmp_path / "codebook.html", title=NASTY)
    text = (tmp_path / "codebook.html").read_text("utf-8")
    assert "alert(1)" in text
    assert "<script>alert" not in text


def test_the_policy_allows_only_the_scripts_and_the_style_of_the_page(page: str) -> None:
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'")
    assert "unsafe" not in policy[1]
    assert "connect-src" not in policy[1]
    parts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL) + re.findall(
        r"<style>(.*?)</style>", page, re.DOTALL
    )
    assert len(parts) == 5
    for part in parts:
        assert base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() in policy[1]
    assert not re.search(r"\s(style|on\w+)=", re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL))


def test_nothing_is_loaded_from_outside(page: str) -> None:
    assert set(re.findall(r"https?://[^\s\"'<)]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(link|img|iframe|object|embed)\b", page)


def test_stability_and_intervals_are_in_the_table_of_features(field: MarkovField) -> None:
    record = msgspec.structs.replace(field.field_.record, stability=stability_of([0.95] * len(field.field_.features)))
    stable = copy.copy(field)
    stable.field_ = replace(field.field_, record=record)
    strongest = list_features(field.field_)[0].name
    page = make_page(stable, intervals=SimpleNamespace(by_feature={strongest: (0.25, 2.5)}))
    assert 'id="stability"' in page
    assert page.count(">95%<") == np.sum(np.abs(field.field_.weights) >= LEAST_WEIGHT)
    assert "+0.25 to +2.50" in page
    assert 'class="whisker"' in page


def test_linked_tables_and_classifiers_have_pages(survey: pl.DataFrame) -> None:
    field, data, _ = make_linked()
    shown = document_of(make_page(field, data))
    assert set(shown["groups"]) == {"person", "visit"}
    assert any(template.startswith("across") for template in shown["templates"])
    for page in (make_page(field, data), make_page(field)):
        picture = page[page.index('<svg class="diagram"') : page.index("<h3>A row of visit, and the row of person")]
        assert picture.count('class="box"') == 2
        assert picture.count("marker-end") == len(data.links)
    table = survey.drop_nulls().drop("person")
    classifier = CRFClassifier(l1=1.0).fit(table.drop("coughs"), table["coughs"])
    assert "coughs" in document_of(make_page(classifier, table))["names"]


def test_a_wide_network_starts_with_communities_and_stays_small() -> None:
    field = make_markov_field(1_000, 1, neighbors=4.0, burn_in=1, seed=1).field
    page = make_page(field)
    bubbles = document_of(page)["bubbles"]
    assert 1 < len(bubbles["sizes"]) <= 36
    assert bubbles["sizes"] == sorted(bubbles["sizes"], reverse=True)
    assert len(page) < 1_500_000

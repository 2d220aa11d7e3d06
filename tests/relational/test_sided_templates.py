"""Templates over one link that differ in their variables are told apart; and how a given graph names columns."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sparsefield import FixedGraph, RelationalField, load
from sparsefield.data import Relational, Template
from sparsefield.errors import DataError

SIDED = [Template("across", ("home",), right=(name,)) for name in ("wet", "cold")]


@pytest.fixture(scope="module")
def data() -> Relational:
    rng = np.random.default_rng(0)
    wet, cold = rng.integers(0, 2, (2, 40))
    home = rng.integers(0, 40, 200)
    mood = np.where(rng.random(200) < 0.9, wet[home] | cold[home], 0)
    return Relational(
        {
            "place": pl.DataFrame({"id": range(40), "wet": wet, "cold": cold}),
            "person": pl.DataFrame({"home": home, "sad": mood}),
        },
        keys={"place": "id"},
        links={"home": ("person", "home", "place")},
    )


def test_features_tell_which_template_they_are_of(data: Relational, tmp_path) -> None:
    field = RelationalField(templates=SIDED, l1=0.5, n_jobs=1).fit(data)
    found = set(field.features_.select("template", "variable_b").rows())
    assert {("across home (right wet)", "wet"), ("across home (right cold)", "cold")} <= found
    field.save(tmp_path / "m")
    assert load(tmp_path / "m").features_.equals(field.features_)


def test_a_graph_names_a_template_by_its_words_or_its_label(data: Relational) -> None:
    for name in ("across home", "across home (right wet)"):
        graph = [("person.sad", "place.wet", name)]
        field = RelationalField(templates=SIDED, induction=FixedGraph(edges=graph), l1=0.1, n_jobs=1).fit(data)
        pairs = field.features_.filter(pl.col("variable_b").is_not_null())
        assert set(pairs["template"]) == {"across home (right wet)"}


@pytest.mark.parametrize(
    ("edge", "words"),
    [
        (("sad", "place.wet"), "names column 'sad'; in linked tables .* 'table.column', such as 'person.sad'"),
        ((0, 1), "names column 0; in linked tables a column is named 'table.column', such as 'place.wet'"),
        (("person.sad", "place.wet", "within place"), "names the template 'within place'; templates: 'across home "),
    ],
)
def test_a_graph_of_linked_tables_names_tables(data: Relational, edge, words: str) -> None:
    with pytest.raises(DataError, match=words):
        RelationalField(l1=2.0, templates=SIDED, induction=FixedGraph(edges=[edge])).fit(data)

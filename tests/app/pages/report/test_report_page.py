"""The report has every section, says what it cannot show, and names in it are always escaped."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from importlib.resources import as_file, files

import numpy as np
import polars as pl
import pytest

from sparsefield import CRFClassifier, HigherOrder, MarkovField, Relational, RelationalField, write_report
from sparsefield.analysis import scored_rows
from sparsefield.app.pages.report.report_page import SECTIONS
from sparsefield.data import Layout, Schema, Variable
from sparsefield.errors import DataError
from sparsefield.model import Field

ODD = """</script><script>alert(1)</script><!-- & 'x' "y" <b>"""
VOID = {"meta", "input"}
IDS = {
    "network", "network-data", "search", "matches", "strength", "shown", "details", "positive", "negative", "zoom-in",
    "zoom-out", "reset", "groups", "interactive", "static", "connected", "save-png", "save-svg",
}  # fmt: skip


class Reader(HTMLParser):
    """A parser that keeps ids, attributes and text, and requires that every element is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")
        if tag == "style":
            self.styles.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif self.open and self.open[-1] == "style":
            self.styles[-1] += data
        else:
            self.text += data

    @property
    def ids(self) -> list[str | None]:
        return [attributes["id"] for _, attributes in self.found if "id" in attributes]

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


def read_page(path) -> tuple[Reader, dict]:
    reader = Reader(path.read_text(encoding="utf-8"))
    return reader, json.loads(reader.scripts[0])


def weather(n_rows: int = 300) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    rain = rng.integers(0, 2, n_rows)
    wet = np.where(rng.random(n_rows) < 0.9, rain, 1 - rain)
    mood = np.where(rng.random(n_rows) < 0.8, np.where(wet == 1, "bad", "good"), "fair")
    heat = 20 - 4.0 * rain + rng.normal(size=n_rows)
    data = pl.DataFrame({"rain": rain, ODD: wet, "mood": mood, "heat": heat})
    cell = pl.Series(rng.random(n_rows) < 0.1)
    return data.with_columns(pl.when(cell).then(None).otherwise(pl.col("mood")).alias("mood"))


@pytest.fixture(scope="module")
def learned() -> tuple[MarkovField, pl.DataFrame]:
    data = weather()
    return MarkovField(l1=1.0).fit(data, observed=["heat"]), data


@pytest.fixture(scope="module")
def page(learned, tmp_path_factory) -> tuple[Reader, dict]:
    path = tmp_path_factory.mktemp("report") / "report.html"
    model, data = learned
    write_report(model, data, path, title=f"About {ODD}")
    return read_page(path)


def test_every_section_occurs_once(page) -> None:
    reader, _ = page
    assert set(SECTIONS) | IDS | {"columns", "calibration", "command", "python"} <= set(reader.ids)
    assert len(reader.ids) == len(set(reader.ids))
    assert "absent" not in [attributes.get("class") for _, attributes in reader.found]
    assert {f"#{name}" for name in SECTIONS} == {a["href"] for tag, a in reader.found if tag == "a"}


def test_the_summary_says_what_was_learned(page, learned) -> None:
    reader, _ = page
    model, _ = learned
    assert "Learned from 300 rows and 4 columns, of which 1 are covariates" in reader.words
    strongest = model.features_.filter(pl.col("variable_b").is_not_null()).row(0, named=True)
    assert f"{strongest['variable_a']}={strongest['state_a']}" in reader.words
    assert "Converged: no left-out pair would improve the fit (worst violation " in reader.words
    assert "about the optimizer, not about chance: “sparsefield stability”" in reader.words
    assert "as many as the field was learned from, so they are probably the training rows" in reader.words
    missing = learned[1]["mood"].null_count()
    assert f"{missing:,} of 1,200 values are missing" in reader.words


def test_other_rows_are_not_taken_for_those_of_training(learned, tmp_path) -> None:
    model, data = learned
    write_report(model, data.head(100), tmp_path / "r.html")
    words = read_page(tmp_path / "r.html")[0].words
    assert "The data have 100 rows; the field was learned from 300." in words
    assert "gain over frequencies+" in words


def test_the_page_opens_with_four_numbers_and_the_network(page, learned) -> None:
    reader, _ = page
    data = learned[1]
    start = reader.words.index("rows \u00d7 columns")
    tiles = reader.words[start : reader.words.index("Network", start)]
    missing = data["mood"].null_count()
    for words in (
        "300 \u00d7 4",
        "links",
        "of 6 pairs of columns",
        f"{missing / 1200:.1%}",
        "gain in the training rows+",
    ):
        assert words in tiles
    order = [name for name in reader.ids if name in ("tiles", "network-section", "findings", "quality", "method")]
    assert order == ["tiles", "network-section", "findings", "quality", "method"]


def test_how_the_fit_was_made_is_folded(page) -> None:
    reader, _ = page
    folds = [attributes for tag, attributes in reader.found if tag == "details"]
    assert folds == [{"id": "method"}]
    ids = reader.ids
    assert all(ids.index(name) > ids.index("method") for name in ("training", "signals", "certificate", "repeat"))


def test_columns_have_distributions_and_explained_shares(page) -> None:
    reader, _ = page
    labels = [a.get("aria-label") or "" for tag, a in reader.found if tag == "svg"]
    assert {"distribution of rain", "distribution of mood"} <= set(labels)
    assert any(label.endswith("% explained") for label in labels)


def test_intervals_are_drawn_as_whiskers(learned, tmp_path) -> None:
    from sparsefield.analysis.feature_sentences import list_features

    model, _ = learned
    strongest = list_features(model.field_)[0]
    write_report(model, None, tmp_path / "r.html", intervals={strongest.name: (0.5, 9.5)})
    reader, _ = read_page(tmp_path / "r.html")
    assert "+0.50 to +9.50" in reader.words
    labels = [a.get("aria-label") or "" for tag, a in reader.found if tag == "svg"]
    assert [label for label in labels if "interval" in label] == [
        f"weight {strongest.weight:+.2f}, interval +0.50 to +9.50"
    ]


def test_names_are_always_text(page) -> None:
    reader, data = page
    assert len(reader.scripts) == 4
    assert "alert(1)" not in "".join(reader.scripts[1:])
    assert ODD in data["names"]
    assert f"About {ODD}" in reader.text
    assert f"{ODD}=1" in reader.text
    assert not [tag for tag, _ in reader.found if tag == "b"]


def test_nothing_is_loaded_and_no_other_script_may_run(page) -> None:
    reader, _ = page
    (policy,) = [a["content"] for tag, a in reader.found if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert "default-src 'none'" in policy
    for text in [*reader.scripts[1:], *reader.styles]:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    for tag, attributes in reader.found:
        assert tag not in ("link", "img", "iframe", "object")
        assert not any(name == "src" or name == "style" or name.startswith("on") for name in attributes)
    assert not re.search(
        r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", "".join(reader.scripts[1:] + reader.styles)
    )


def test_the_network_has_all_edges_with_their_weights(page, learned) -> None:
    _, data = page
    model, _ = learned
    rows = [row for row in model.features_.iter_rows(named=True) if row["variable_b"] is not None]
    told = {
        (data["names"][a], data["names"][b], *feature[:2]): feature[2]
        for a, b, own in zip(data["a"], data["b"], data["f"], strict=True)
        for feature in own
    }
    assert len(told) == len(rows)
    for row in rows:
        key = tuple(row[name] for name in ("variable_a", "variable_b", "state_a", "state_b"))
        assert told[key] == pytest.approx(row["weight"], rel=1e-3)
    assert data["s"] == sorted(data["s"], reverse=True)
    assert len(data["x"]) == len(data["y"]) == len(data["group"]) == len(data["descriptions"]) == len(data["names"])
    assert data["initial"] == len(data["a"])


def test_the_same_field_makes_the_same_bytes(learned, tmp_path) -> None:
    model, data = learned
    write_report(model, data, tmp_path / "a.html")
    model.save(tmp_path / "m.safetensors")
    from sparsefield import load

    again = load(tmp_path / "m.safetensors")
    again.n_jobs = 2
    write_report(again, data, tmp_path / "b.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "b.html", "m.safetensors"]


def test_without_data_the_sections_that_need_rows_say_so(learned, tmp_path) -> None:
    write_report(learned[0], None, tmp_path / "r.html")
    reader, _ = read_page(tmp_path / "r.html")
    assert set(SECTIONS) | IDS <= set(reader.ids)
    assert reader.words.count("needs rows: give them with --data") == 5
    assert "Training" in reader.words
    assert "columns" not in reader.ids


def test_extra_columns_are_shown_with_the_features(learned, tmp_path) -> None:
    from sparsefield.analysis.feature_sentences import list_features

    model, _ = learned
    names = [feature.name for feature in list_features(model.field_)]
    extra = {f"selected {ODD}": {name: k / 7 for k, name in enumerate(names[1:])}, "note": {names[0]: "always <"}}
    write_report(model, None, tmp_path / "r.html", extra=extra)
    reader, data = read_page(tmp_path / "r.html")
    assert data["extra"] == list(extra)
    told = {(*feature[:2], feature[2]): feature[4] for own in data["f"] for feature in own}
    assert sorted(values[0] for values in told.values() if values[0] is not None) == pytest.approx(
        [k / 7 for k in range(len(names) - 1)], rel=1e-3
    )
    assert [values[1] for values in told.values() if values[1]] == ["always <"]
    assert f"selected {ODD}" in reader.text
    assert "always <" in reader.text


def test_a_field_with_given_weights_has_no_training_to_show(tmp_path) -> None:
    variables = tuple(Variable(name, "target", (0, 1), 0, (0.5, 0.5)) for name in "abc")
    field = Field(Layout.single(Schema(variables, tuple("abc"))), np.zeros(3), np.array([[0, 1]]), np.array([-1.0]))
    model = MarkovField.from_field(field)
    write_report(model, pl.DataFrame({"a": [0, 1, 1], "b": [1, 0, 0], "c": [1, 1, 0]}), tmp_path / "r.html")
    words = read_page(tmp_path / "r.html")[0].words
    assert "with given weights, not learned" in words
    assert "A field with given weights has no training to show." in words
    assert "there is no fit to repeat" in words
    assert "frequencies of each column in these rows" in words


def test_a_field_without_pairs_still_has_a_page(tmp_path) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (50, 3))
    model = MarkovField(l1=1000.0).fit(X)
    write_report(model, X, tmp_path / "r.html")
    reader, data = read_page(tmp_path / "r.html")
    assert data["a"] == []
    assert "No two columns share a feature" in reader.words


def test_conjunctions_are_shown_by_name(tmp_path) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2, (2, 400))
    X = pl.DataFrame({"a": a, "b": b, "c": a ^ b})
    model = MarkovField(l1=1.0, max_order=HigherOrder(max_order=3, expand="all")).fit(X)
    write_report(model, X, tmp_path / "r.html")
    reader, data = read_page(tmp_path / "r.html")
    assert "a=1 & b=1 & c=1" in [feature[0] for own in data["f"] for feature in own if feature[3]]
    assert len(data["a"]) == 3
    assert "max_order=3" in reader.words


def test_labels_of_a_classifier_are_columns_of_the_data(tmp_path) -> None:
    data = weather().drop_nulls()
    model = CRFClassifier(l1=0.5).fit(data.drop("mood"), data["mood"])
    write_report(model, data, tmp_path / "r.html")
    words = read_page(tmp_path / "r.html")[0].words
    assert "this fit is repeated in Python" in words
    with pytest.raises(DataError, match="mood"):
        write_report(model, data.drop("mood"), tmp_path / "r.html")


def test_linked_tables_show_templates_and_tables(tmp_path) -> None:
    rng = np.random.default_rng(3)
    mood = rng.integers(0, 2, 60)
    who = rng.integers(0, 60, 150)
    fun = np.where(rng.random(150) < 0.9, mood[who], 1 - mood[who])
    persons = pl.DataFrame({"id": np.arange(60), "mood": [None, *mood[1:].tolist()]})
    data = Relational(
        {"person": persons, "visit": pl.DataFrame({"who": who, "fun": fun})},
        keys={"person": "id"},
        links={"who": ("visit", "who", "person")},
    )
    model = RelationalField(l1=0.5).fit(data)
    write_report(model, data, tmp_path / "r.html")
    reader, page = read_page(tmp_path / "r.html")
    assert set(SECTIONS) | IDS | {"columns", "calibration"} <= set(reader.ids)
    assert "2 linked tables (person, visit)" in reader.words
    assert "Table person: 1 of 60 values are missing" in reader.words
    assert page["templates"] == ["across who"]
    assert set(page["groups"]) == {"person", "visit"}
    assert "person.mood" in page["names"]
    assert "read_schema('schema.toml')" in reader.words
    plain = MarkovField(l1=2.0).fit(fun.reshape(-1, 1))
    with pytest.raises(DataError, match="linked tables"):
        write_report(plain, data, tmp_path / "r.html")


def big_field(n_nodes: int = 2000, n_edges: int = 5600) -> MarkovField:
    rng = np.random.default_rng(0)
    pairs = np.unique(np.sort(rng.integers(0, n_nodes, (2 * n_edges, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    pairs = pairs[np.sort(rng.permutation(len(pairs))[:n_edges])]
    variables = tuple(Variable(f"column {k}", "target", (0, 1), 0, (0.5, 0.5)) for k in range(n_nodes))
    layout = Layout.single(Schema(variables, tuple(variable.name for variable in variables)))
    return MarkovField.from_field(Field(layout, np.zeros(n_nodes), pairs, rng.normal(size=n_edges)))


@pytest.mark.slow
def test_a_large_network_is_cut_to_its_strongest_edges_and_stays_small(tmp_path) -> None:
    model = big_field()
    write_report(model, None, tmp_path / "r.html")
    assert (tmp_path / "r.html").stat().st_size < 3_000_000
    reader, data = read_page(tmp_path / "r.html")
    assert len(data["a"]) == 5000
    assert data["initial"] == 60
    assert sum(data["tree"]) == 399
    first = [k for k, tree in enumerate(data["tree"]) if tree or k < 60]
    assert set(range(len(data["initialX"]))) == {data[end][k] for end in "ab" for k in first}
    assert "The network has 5,600 edges; the 5,000 strongest are on this page." in reader.words
    left_out = np.sort(np.abs(model.field_.weights))[:600].max()
    assert min(data["s"]) >= left_out * 0.999


def test_of_very_many_rows_only_some_are_used(learned, tmp_path, monkeypatch) -> None:
    model, data = learned
    monkeypatch.setattr(scored_rows, "MOST_CELLS", 50 * model.field_.schema.n_columns)
    for kind in (data, data.to_pandas()):
        write_report(model, kind, tmp_path / "r.html")
        words = read_page(tmp_path / "r.html")[0].words
        assert "Only 50 evenly spaced rows were used." in words


def test_sparse_matrices_have_no_missing_values_to_map(tmp_path) -> None:
    import scipy.sparse as sp

    X = sp.random_array((400, 30), density=0.05, rng=np.random.default_rng(0), data_sampler=lambda size: np.ones(size))
    X = sp.csr_matrix(X)
    model = MarkovField(l1=0.5).fit(X)
    write_report(model, X, tmp_path / "r.html")
    assert "a sparse matrix, which has no missing values" in read_page(tmp_path / "r.html")[0].words


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize("script", ["network.js", "tables.js"])
def test_the_scripts_have_valid_syntax(script) -> None:
    with as_file(files("sparsefield.app.pages") / script) as path:
        assert "</" not in path.read_text(encoding="utf-8")
        subprocess.run(["node", "--check", str(path)], check=True, capture_output=True)

"""Sentences have the figures that pandas counts, and say when nothing was learned and how stable features are."""

from __future__ import annotations

import re
from dataclasses import replace

import msgspec
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from sparsefield import CRFClassifier, MarkovField, Relational, RelationalField
from sparsefield.analysis.metrics import ColumnEvaluation, Gain
from sparsefield.app.pages.findings import describe_gains, describe_no_gain, findings
from sparsefield.app.pages.fit_summary import describe_stability, stability_column
from sparsefield.app.pages.page import make_page
from sparsefield.model import StabilityRecord
from sparsefield.model.feature_tables import list_features

SHARE = re.compile(r"Where (\w+)=(\w+), (?:only )?([\d.]+)% of rows have (\w+)=(\w+), against ([\d.]+)% overall\.")
NONE = re.compile(r"Where (\w+)=(\w+), none of the rows has (\w+)=(\w+), against ([\d.]+)% overall\.")
MEAN = re.compile(r"Where (\w+)=(\w+), (\w+) is (higher|lower): ([\d.]+) on average, against ([\d.]+) overall\.")
RANKS = re.compile(r"Higher (\w+) goes with (higher|lower) (\w+) \(rank correlation (-?[\d.]+)\)\.")


def make_answers(n_rows: int = 300) -> pd.DataFrame:
    """Return a table of every kind with missing cells: pairs (a, b), (age, trust), (town, size), (rain, wet)."""
    rng = np.random.default_rng(1)
    a = rng.choice(["no", "some", "yes"], n_rows)
    b = np.where(rng.random(n_rows) < 0.7, a, rng.choice(["no", "some", "yes"], n_rows))
    age = rng.integers(20, 60, n_rows)
    trust = np.clip((age - 15) // 10 + rng.integers(-1, 2, n_rows), 1, 5)
    town = rng.choice(["north", "south"], n_rows)
    size = (100 + 20 * (town == "south") + rng.normal(0, 10, n_rows)).round()
    rain = rng.integers(0, 2, n_rows)
    wet = np.where(rng.random(n_rows) < 0.8, rain, 1 - rain)
    columns = {"a": a, "b": b, "age": age, "trust": trust, "town": town, "size": size, "rain": rain, "wet": wet}
    table = pd.DataFrame(columns).astype(dict.fromkeys(("age", "trust", "rain", "wet"), "Int64"))
    return table.mask(rng.random(table.shape) < 0.05)


@pytest.fixture(scope="module")
def answers() -> pd.DataFrame:
    return make_answers()


@pytest.fixture(scope="module")
def model(answers: pd.DataFrame) -> MarkovField:
    return MarkovField(l1=12.0, random_state=0).fit(answers)


def is_state(table: pd.DataFrame, column: str, state: str) -> pd.Series:
    return table[column].astype(str) == state


def check_counts(table: pd.DataFrame, sentence: str) -> set[str]:
    """Compare the figures of a sentence with those of pandas, and return its columns."""
    if found := SHARE.fullmatch(sentence):
        one, state, share, two, other, overall = found.groups()
        known = table.dropna(subset=[one, two])
        part = known[is_state(known, one, state)]
        assert float(share) == pytest.approx(100 * is_state(part, two, other).mean(), abs=0.51)
        assert float(overall) == pytest.approx(100 * is_state(known, two, other).mean(), abs=0.51)
        return {one, two}
    if found := MEAN.fullmatch(sentence):
        one, state, two, direction, mean, overall = found.groups()
        known = table.dropna(subset=[one, two])
        part = known[is_state(known, one, state)]
        assert float(mean) == pytest.approx(part[two].astype(float).mean(), rel=6e-3)
        assert float(overall) == pytest.approx(known[two].astype(float).mean(), rel=6e-3)
        assert (float(mean) > float(overall)) == (direction == "higher")
        return {one, two}
    found = RANKS.fullmatch(sentence)
    assert found, sentence
    one, direction, two, shown = found.groups()
    known = table.dropna(subset=[one, two]).astype({one: float, two: float})
    assert float(shown) == pytest.approx(known[one].corr(known[two], method="spearman"), abs=0.0051)
    assert (float(shown) > 0) == (direction == "higher")
    return {one, two}


def test_figures_are_counts_of_the_rows_and_pairs_are_those_that_were_made(model, answers) -> None:
    _, *examples = findings(model, answers)
    told = [check_counts(answers, sentence) for sentence in examples]
    assert {frozenset(columns) for columns in told[:4]} == {
        frozenset(pair) for pair in (("a", "b"), ("age", "trust"), ("town", "size"), ("rain", "wet"))
    }
    assert len(examples) <= 5
    before = [set().union(*told[:k]) for k in range(len(told))]
    assert all(columns - seen for columns, seen in zip(told, before, strict=True))
    assert any(SHARE.fullmatch(sentence) for sentence in examples)
    assert any(MEAN.fullmatch(sentence) for sentence in examples)
    assert any(RANKS.fullmatch(sentence) for sentence in examples)


def test_the_first_sentence_counts_pairs_of_columns_and_features(model, answers) -> None:
    edges, features = len(model.edges_), len(model.features_)
    (first,) = findings(model)
    hold = (model.edges_["q_value"] <= 0.05).sum()
    told = f"{hold} edges hold at a false discovery rate of 5%; {edges - hold} more of 28 pairs of columns ha"
    assert re.sub("ha(s|ve) weights", "ha", first) == f"{told} ({features} features)."
    assert findings(model, answers, most=2)[0] == first
    assert len(findings(model, answers, most=2)) == 3


def test_a_state_that_never_occurs_with_another_is_told_as_none() -> None:
    rain = np.arange(200) % 2
    table = pd.DataFrame({"rain": rain, "sun": np.where(rain == 1, 0, np.arange(200) % 4 // 2)})
    _, sentence = findings(MarkovField(l1=1.0).fit(table), table)
    found = NONE.fullmatch(sentence)
    assert found
    overall = 100 * table[found[3]].mean()
    assert float(found[5]) == pytest.approx(overall)


def test_covariates_are_conditions_and_never_told_as_outcomes(answers) -> None:
    table = answers[["rain", "wet", "age", "trust"]].dropna()
    field = MarkovField(l1=8.0).fit(table, observed=["wet", "age"])
    first, *examples = findings(field, table)
    assert "2 edges hold" in first
    assert "; 0 more of 5 pairs" in first
    assert {sentence.split()[1] for sentence in examples} == {"wet=1,", "age"}


def test_a_sparse_matrix_has_the_same_sentences_as_the_dense_table() -> None:
    rng = np.random.default_rng(0)
    baskets = (rng.random((500, 40)) < 0.04).astype(int)
    baskets[:, 3] |= baskets[:, 2] & (rng.random(500) < 0.7)
    baskets[:, 7] |= baskets[:, 5]
    matrix = sp.csr_array(baskets)
    field = MarkovField(l1=4.0).fit(matrix)
    table = pd.DataFrame(baskets, columns=[f"x{k}" for k in range(40)])
    told = findings(field, matrix)
    for sentence in told[1:]:
        check_counts(table, sentence)
    assert {frozenset(check_counts(table, sentence)) for sentence in told[1:3]} == {
        frozenset(("x2", "x3")), frozenset(("x5", "x7")),
    }  # fmt: skip
    assert set(findings(MarkovField(l1=4.0).fit(baskets), baskets)[1:]) <= set(told)  # those that hold


def test_a_classifier_tells_labels_given_columns(answers) -> None:
    rows = answers.dropna()
    field = CRFClassifier(l1=2.0).fit(rows[["rain", "a"]], rows[["wet"]])
    sentences = findings(field, rows[["rain", "a"]], rows[["wet"]])
    found = SHARE.fullmatch(sentences[1])
    assert found
    assert (found[1], found[4]) == ("rain", "wet")


@pytest.fixture(scope="module")
def linked() -> Relational:
    rng = np.random.default_rng(0)
    firm = rng.choice(["bank", "farm"], 40)
    at = rng.integers(0, 40, 200)
    smart = np.where(rng.random(200) < 0.9, firm[at] == "bank", firm[at] == "farm").astype(int)
    people = pl.DataFrame({"firm": at, "smart": smart})
    firms = pl.DataFrame({"key": range(40), "kind": firm})
    return Relational(
        {"person": people, "firm": firms}, keys={"firm": "key"}, links={"employer": ("person", "firm", "firm")}
    )


def test_linked_rows_are_counted_across_their_link(linked) -> None:
    field = RelationalField(l1=3.0).fit(linked)
    first, sentence = findings(field, linked)
    assert "within rows or across links" in first
    people, firms = (linked.tables[name].to_pandas() for name in ("person", "firm"))
    joined = people.merge(firms, left_on="firm", right_on="key")
    found = re.fullmatch(
        r"Across employer, where (person|firm)\.(\w+)=(\w+), (?:only )?([\d.]+)% of linked rows have "
        r"(?:person|firm)\.(\w+)=(\w+), against ([\d.]+)% overall\.", sentence,
    )  # fmt: skip
    assert found, sentence
    part = joined[is_state(joined, found[2], found[3])]
    assert float(found[4]) == pytest.approx(100 * is_state(part, found[5], found[6]).mean(), abs=0.51)
    assert float(found[7]) == pytest.approx(100 * is_state(joined, found[5], found[6]).mean(), abs=0.51)


def test_a_field_without_features_says_that_nothing_was_found(answers) -> None:
    field = MarkovField(l1=1000.0).fit(answers)
    (sentence,) = findings(field, answers)
    assert sentence.startswith("No dependence between columns could be found in these 300 rows: each column is")
    assert "a lower l1" in sentence


def test_differences_within_two_standard_errors_are_not_told() -> None:
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2, 200)
    table = pd.DataFrame({"a": first, "b": np.where(rng.random(200) < 0.53, first, 1 - first)})
    field = MarkovField(l1=0.01, selection="ebic").fit(table)
    assert len(field.edges_) == 1
    assert len(findings(field, table)) == 1


def test_ordinal_columns_are_told_by_their_rank_correlation_before_single_states() -> None:
    rng = np.random.default_rng(0)
    answer = rng.integers(1, 6, 600)
    table = pd.DataFrame({"a": answer, "b": np.where(rng.random(600) < 0.6, answer, rng.integers(1, 6, 600))})
    (sentence,) = findings(MarkovField(l1=1.0).fit(table), table)[1:]
    assert RANKS.fullmatch(sentence)


def test_a_gain_within_its_error_is_no_gain() -> None:
    assert Gain(0.2, 0.1).is_clear
    assert not Gain(0.1, 0.2).is_clear
    sentence = describe_no_gain(Gain(-0.01, 0.02), 300, 4)
    assert sentence.startswith(
        "No dependence between columns, within rows or across links, could be found in these 300 rows of 4 linked "
        "tables: held-out cells are predicted no better than by column frequencies"
    )


def column(name: str, gain: float, deviation: float) -> ColumnEvaluation:
    return ColumnEvaluation(name, "nominal", 100, 100.0, 1.0 - gain, 1.0, 0.2, 0.3, Gain(gain, 0.1 * deviation))


def test_columns_are_counted_by_their_gains_and_the_one_that_spoils_all_is_named() -> None:
    columns = [column("a", 0.1, 0.1), column("b", 0.1, 0.1), column("c", 0.0, 0.1), column("d", -0.1, 0.1)]
    assert describe_gains(columns).endswith("in 2 of 4 columns, worse in 1, and about as well in 1.")
    columns = [*(column(f"x{k}", 0.1, 0.1) for k in range(9)), column("name", -9.0, 0.1)]
    sentence = describe_gains(columns)
    assert "in 9 of 10 columns, worse in 1. " in sentence
    assert sentence.endswith("mostly because of name.")


def test_a_page_has_the_findings(model, answers) -> None:
    page = make_page(model, answers)
    text = re.sub("</?strong>", "", page)
    for sentence in findings(model, answers):
        assert sentence in text
    assert "Values are predicted better than by column frequencies in " in page


def test_a_report_on_rows_that_do_not_show_the_dependence_says_so(model, answers) -> None:
    rng = np.random.default_rng(0)
    shuffled = pd.DataFrame({name: rng.permutation(answers[name]) for name in answers}).astype(answers.dtypes)
    page = make_page(model, shuffled)
    assert "no better than by column frequencies (gain in log-likelihood -" in page


@pytest.fixture(scope="module")
def field():
    rng = np.random.default_rng(0)
    a = rng.choice(["x", "y", "z"], 400)
    b = np.where(rng.random(400) < 0.7, a, rng.choice(["x", "y", "z"], 400))
    c = np.where(rng.random(400) < 0.8, a == "x", a != "x").astype(int)
    return MarkovField(l1=3.0).fit(pl.DataFrame({"a": a, "b": b, "c": c})).field_


def with_resamples(field, shares, **how):
    facts = {"resamples": 40, "seed": 0, "l1": 1.0, "halved": "rows", "given_graph": False, "mean_pairs": 2.0}
    stability = StabilityRecord(frequencies=tuple(shares), **{**facts, **how})
    return replace(field, record=msgspec.structs.replace(field.record, stability=stability))


def test_a_field_without_resamples_says_nothing(field) -> None:
    features = list_features(field)
    assert stability_column(field, features) == {}
    assert describe_stability(field, features) == []
    assert stability_column(with_resamples(field, [0.5]), features) == {}


def test_shares_go_by_feature_and_edges_by_their_best_feature(field) -> None:
    n = len(field.pairs)
    assert n >= 4
    shares = np.linspace(0.0, 1.0, n)
    shown = with_resamples(field, shares)
    features = list_features(shown)
    column = stability_column(shown, features)
    for pair, share in zip(field.pairs.tolist(), shares, strict=True):
        (name,) = [feature.name for feature in features if feature.columns == tuple(pair)]
        assert column[name] == share
    edges = {}
    for feature in features:
        edges.setdefault(tuple(sorted(term.variable for term in feature.terms)), []).append(column[feature.name])
    stable = sum(max(found) >= 0.9 for found in edges.values())
    line = describe_stability(shown, features)[0]
    assert line.startswith(f"Selected in at least 90% of 40 halves of the rows: {stable} of {len(edges)} edges")
    assert line.endswith(f"{sum(shares >= 0.9)} of {n} features; in less than half: {sum(shares < 0.5)}.")


def test_the_bound_is_shown_where_it_holds(field) -> None:
    features, ones = list_features(field), np.ones(len(field.pairs))
    plain = describe_stability(with_resamples(field, ones, mean_pairs=1.0), features)[1]
    assert f"at most {1 / (0.8 * field.layout.n_candidate_pairs):.2g} are expected" in plain
    assert "says nothing" not in plain
    assert "says nothing" in describe_stability(with_resamples(field, ones, mean_pairs=1000.0), features)[1]
    assert "cannot be bounded" in describe_stability(with_resamples(field, ones, halved="linked rows"), features)[1]
    assert "as a graph" in describe_stability(with_resamples(field, ones, given_graph=True), features)[1]

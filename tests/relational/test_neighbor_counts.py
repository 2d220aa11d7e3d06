"""How many neighbors a row has: seen where it differs, so that what a field says does not hang on the base states."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from relational_oracle import neighbors_differ, rows_of, slow_over, tell
from villages import TEMPLATES, village

from sparsefield import MeanField, RelationalField, Solver
from sparsefield.data import NEIGHBOR_COUNT, Relational, Template

# Some tables have observed columns with missing cells; what the warning says is tested elsewhere.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sparsefield.errors.CovariateWarning"),
    pytest.mark.usefixtures("plain_coding"),
]

SEEDS = st.integers(0, 2**32 - 1)
OPTIONS = {"solver__tol": 1e-12, "solver__kkt_tol": 1e-4, "n_jobs": 1}
FRIENDS = Template("joined", ("who", "whom"), symmetric=True)


# -- networks ----------------------------------------------------------------------------------------------------------


def stars(count: int = 60, leaves: int = 8) -> list[tuple[int, int]]:
    """Friends: in each star one has many, the others one."""
    size = leaves + 1
    return [(s * size, s * size + k) for s in range(count) for k in range(1, size)]


def ring(count: int) -> list[tuple[int, int]]:
    return [(k, (k + 1) % count) for k in range(count)]


def drawn(friends: list[tuple[int, int]], seed: int, *, own: float = -0.4, agree: float = 0.9) -> np.ndarray:
    """Whether each smokes, by Gibbs sampling: log-odds = own + agree x friends who do, less half of all friends."""
    rng, n = np.random.default_rng(seed), 1 + max(max(pair) for pair in friends)
    near: list[list[int]] = [[] for _ in range(n)]
    for i, j in friends:
        near[i].append(j)
        near[j].append(i)
    smokes = rng.integers(0, 2, n)
    for _, i in itertools.product(range(60), range(n)):
        odds = own + agree * (smokes[near[i]].sum() - 0.5 * len(near[i]))
        smokes[i] = rng.random() < 1.0 / (1.0 + np.exp(-odds))
    return smokes


def network(friends: list[tuple[int, int]], hidden: float = 0.0, templates=(FRIENDS,), **columns) -> Relational:
    """Persons with some columns, and who is a friend of whom; some cells of the first column are gaps."""
    n = len(next(iter(columns.values())))
    people = pl.DataFrame({"id": np.arange(n), **columns})
    first = next(iter(columns))
    missing = np.random.default_rng(7).random(n) < hidden
    people = people.with_columns(pl.when(pl.Series(~missing)).then(first).alias(first))
    return Relational(
        {"person": people, "friend": pl.DataFrame(friends, schema=["who", "whom"], orient="row")},
        keys={"person": "id"},
        links={"who": ("friend", "who", "person"), "whom": ("friend", "whom", "person")},
        templates=templates,
    )


LABELS = {"0 and 1": (0, 1), "1 and 0": (1, 0), "no and yes": ("no", "yes"), "yes and no": ("yes", "no")}
"""What smokes = 0 and 1 may be called. The base of text is the most frequent state; that of 0 and 1 is 0."""


def named(smokes: np.ndarray, labels: tuple) -> list:
    return [labels[value] for value in smokes.tolist()]


def base_of(field: RelationalField, table: str = "person", variable: str = "smokes"):
    layout = field.field_.layout
    (found,) = [v for v in layout.schemas[layout.tables.index(table)].variables if v.name == variable]
    return found.states[found.reference]


def agreement(field: RelationalField) -> float:
    """Weight of a state of ``smokes`` that meets itself over a link, there being one that does."""
    layout = field.field_.layout
    names = [layout.feature_name(a, b) for a, b in field.field_.pairs.tolist()]
    (weight,) = [
        w for name, w in zip(names, field.field_.weights, strict=True) if name.variable_a == name.variable_b == "smokes"
    ]
    return float(weight)


def chance(field: RelationalField, data: Relational, labels: tuple) -> np.ndarray:
    """(rows,): belief that each smokes, whatever that is called."""
    return field.predict_proba(data)["person"]["smokes"][:, field.states_["person"]["smokes"].index(labels[1])]


@given(seed=SEEDS, persons=st.integers(2, 6), loose=st.sampled_from([0.0, 0.15, 1.0]))
def test_a_field_counts_neighbors_where_rows_differ_in_how_many_they_have(seed, persons, loose) -> None:
    data, rows = village(seed, persons=persons, missing=0.0, loose=loose)
    layout = RelationalField(l1=50.0, solver=Solver(certify=False, max_iter=1), n_jobs=1).fit(data).field_.layout
    differ = neighbors_differ(data, rows, TEMPLATES)
    for template, flags in zip(layout.templates, layout.has_neighbor_count, strict=True):
        assert flags == tuple((template.label, side) in differ for side in ("left", "right"))


def test_the_number_of_neighbors_is_told_by_its_name() -> None:
    assert NEIGHBOR_COUNT == "(neighbor count)"
    field = RelationalField(l1=2.0).set_params(l1=0.5, **OPTIONS).fit(network(stars(), smokes=drawn(stars(), 0)))
    (row,) = field.features_.filter(pl.col("variable_b") == NEIGHBOR_COUNT).to_dicts()
    assert row["template"] == "joined who whom"
    assert (row["table_a"], row["variable_a"], row["state_a"]) == ("person", "smokes", 1)
    assert (row["table_b"], row["variable_b"], row["state_b"]) == ("person", NEIGHBOR_COUNT, None)
    assert row["weight"] < 0
    assert NEIGHBOR_COUNT in field.edges_["variable_b"].to_list()


# -- another base ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def smokers() -> np.ndarray:
    return drawn(stars(), 3)


def test_without_penalties_names_of_states_change_nothing(smokers) -> None:
    """Both bases describe the same distributions, so that the best of them is the same."""
    fits = {}
    for word, labels in LABELS.items():
        data = network(stars(), smokes=named(smokers, labels))
        inference = MeanField(tolerance=1e-12, max_sweeps=5000)
        field = (
            RelationalField()
            .set_params(l1=0.0, l2=0.0, missing=inference, inference=inference, **{**OPTIONS, "solver__kkt_tol": 1e-6})
            .fit(data)
        )
        assert field.converged_
        fits[word] = (field, field.score(data), chance(field, data, labels), agreement(field), base_of(field))
    first = fits["0 and 1"]
    assert {labels.index(fits[word][4]) for word, labels in LABELS.items()} == {0, 1}
    for field, score, beliefs, weight, _ in fits.values():
        assert field.objective_ == pytest.approx(first[0].objective_, abs=1e-6)
        assert score == pytest.approx(first[1], abs=1e-6)
        assert np.abs(beliefs - first[2]).max() < 1e-4
        assert weight == pytest.approx(first[3], abs=1e-3)
        assert 0.5 < weight < 1.5  # drawn with 0.9


# -- other data than those learned from --------------------------------------------------------------------------------


def check_answers(field: RelationalField, learned: Relational, asked: Relational) -> None:
    """Beliefs, scores and draws for new rows are those of plain loops that count where the learned rows differed.

    Beliefs in gaps are those of mean field; cells that are seen are predicted from others that are, by draws.
    """
    rows = rows_of(asked)
    counted = neighbors_differ(learned, rows_of(learned), field.field_.layout.templates)
    slow = slow_over(asked, rows, field.field_.layout, counted=counted)
    tell(slow, field.field_)
    q, _ = slow.mean_field(1e-10)
    found, seen, total = field.predict_proba(asked)["person"]["smokes"], slow.observed_given_observed(), 0.0
    for cell in slow.cells():
        wanted, error = (slow.update(cell, q), 1e-8) if slow.is_missing(cell) else (seen[cell], 0.02)
        for k, state in enumerate(field.states_["person"]["smokes"]):
            assert found[cell[1], k] == pytest.approx(wanted[state], abs=error)
        total += 0.0 if slow.is_missing(cell) else np.log(wanted[slow.value(cell)])
    assert field.score(asked) == pytest.approx(total / len(rows["person"]), abs=0.005)
    assert field.transform(asked).tables["person"]["smokes"].null_count() == 0
    assert set(field.sample(asked, sweeps=3, random_state=0).tables["person"]["smokes"]) <= {0, 1}


def test_rows_may_differ_in_how_many_neighbors_they_have_though_they_did_not_before() -> None:
    options = {**OPTIONS, "inference": MeanField(tolerance=1e-10)}
    learned = network(ring(60), 0.2, smokes=drawn(ring(60), 1, agree=1.5))
    field = RelationalField(l1=2.0).set_params(l1=0.3, **options).fit(learned)
    assert field.field_.layout.has_neighbor_count == ((False, False),)
    assert len(field.field_.weights) == 1
    for friends, people in ((stars(3, 5), stars(3, 5)), (ring(14)[1:], ring(14))):
        asked = network(friends, 0.3, smokes=drawn(people, 2))
        check_answers(field, learned, asked)

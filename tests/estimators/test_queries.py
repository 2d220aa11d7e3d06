"""Joint questions to an estimator: events, marginals and completions, against enumeration of its field."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from oracle import SlowField
from sklearn.exceptions import ConvergenceWarning

from sparsefield import Gibbs, MarkovField, RelationalField, Solver
from sparsefield.data import Relational
from sparsefield.errors import DataError, EstimateWarning
from sparsefield.model import Field

COLORS = ["blue", "green", "red"]


def weather(seed: int = 0, rows: int = 400) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    rain = rng.random(rows) < 0.4
    wet = rain ^ (rng.random(rows) < 0.15)
    color = np.where(rng.random(rows) < 0.6, np.where(wet, 2, 0), rng.integers(0, 3, rows))
    mood = np.where(rng.random(rows) < 0.7, color, rng.integers(0, 4, rows))
    return pl.DataFrame(
        {
            "rain": rain,
            "wet": wet.astype(int),
            "color": [COLORS[k] for k in color],
            "mood": mood,
            "heat": rng.normal(20.25, 5.0, rows) + 3.0 * rain,
        }
    )


@pytest.fixture(scope="module")
def field() -> MarkovField:
    return MarkovField(l1=0.3, n_jobs=1, solver=Solver(kkt_tol=0.1)).fit(weather(), observed=["heat"])


def joint(field: MarkovField, given: dict) -> dict[tuple, float]:
    """{labels of the targets: probability} by enumeration."""
    schema = field.field_.schema
    slow = SlowField(schema, field.field_.biases, field.field_.pairs, field.field_.weights)
    codes = [v.code_of_label[given[v.name]] if v.name in given else -1 for v in schema.targets]
    heat = schema.observed[0]
    values = heat.column_means if given["heat"] is None else heat.values_of(np.array([given["heat"]]))[:, 0]
    labels = [np.array(v.states, dtype=object)[v.position_of_code] for v in schema.targets]
    return {
        tuple(names[code] for names, code in zip(labels, way, strict=True)): p
        for way, p in slow.joint(codes, values).items()
    }


def chance(field: MarkovField, event: dict, given: dict) -> float:
    names = [v.name for v in field.field_.schema.targets]
    allowed = {name: states if isinstance(states, list) else [states] for name, states in event.items()}
    ways = joint(field, given).items()
    return sum(p for way, p in ways if all(dict(zip(names, way, strict=True))[c] in s for c, s in allowed.items()))


QUESTIONS = [
    ({"rain": True}, {"heat": 25.0}),
    ({"color": ["red", "blue"], "mood": [0, 1, 3]}, {"heat": 10.0, "wet": 1}),
    ({"rain": False, "wet": 0, "color": "blue", "mood": 0}, {"heat": 18.0}),
]


@pytest.mark.parametrize(("event", "given"), QUESTIONS, ids=str)
def test_events_have_the_probability_of_enumeration(field, event, given) -> None:
    answer = field.probability(event, given)
    assert answer.method == "exact"
    assert answer.error == 0.0
    assert float(answer) == pytest.approx(chance(field, event, given), abs=1e-12)


@pytest.mark.parametrize(("event", "given"), QUESTIONS[1:2], ids=str)
def test_sampled_events_lie_within_four_and_a_half_standard_errors(field, event, given) -> None:
    """Student's t with 31 degrees of freedom lies beyond that once in ten thousand times."""
    answer = field.probability(event, given, max_cells=1, gibbs=Gibbs(chains=16, burn_in=200, sweeps=3000))
    assert answer.method == "gibbs"
    assert abs(answer.value - chance(field, event, given)) <= 4.5 * answer.error + 1e-9
    assert answer.error < 0.01


def test_what_is_given_decides_events_about_it(field) -> None:
    given = {"heat": 20.0, "wet": 1}
    assert field.probability({"wet": 0}, given).value == 0.0
    assert field.probability({"wet": [0, 1]}, given).value == 1.0
    both = field.probability({"wet": 1, "rain": True}, given)
    assert both.value == pytest.approx(field.probability({"rain": True}, given).value, abs=1e-15)
    everything = {"heat": 20.0, "wet": 1, "rain": True, "color": "red", "mood": 2}
    assert field.probability({"mood": 2}, everything).value == 1.0
    assert field.probability({"mood": 3}, everything).value == 0.0
    assert field.marginals(everything)["mood"].tolist() == [0.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("given", [{"heat": None, "wet": 0}, {"heat": 30.0, "mood": 2, "rain": True}])
def test_marginals_are_those_of_enumeration(field, given) -> None:
    found = field.marginals(given)
    assert list(found) == ["rain", "wet", "color", "mood"]
    for column, probabilities in found.items():
        wanted = [chance(field, {column: state}, given) for state in field.states_[column]]
        assert probabilities == pytest.approx(wanted, abs=1e-12)


def test_chains_that_disagree_are_told_of() -> None:
    """Six columns that all want to be the same have two modes, and no way between them."""
    learned = MarkovField(l1=2.0, n_jobs=1).fit(np.tile([[0], [1]], (20, 6))).field_
    pairs = np.array(list(itertools.combinations(range(6), 2)))
    field = Field(learned.layout, np.full(6, -20.0), pairs, np.full(len(pairs), 8.0))
    stuck = MarkovField.from_field(field)
    assert stuck.probability({"x0": 1, "x5": 1}).value == pytest.approx(0.5, abs=1e-3)
    with pytest.warns(ConvergenceWarning, match="do not agree"):
        stuck.probability({"x0": 1, "x5": 1}, max_cells=1, gibbs=Gibbs(burn_in=5, sweeps=50))


@pytest.mark.parametrize(
    ("event", "given", "words"),
    [
        ({"snow": 1}, {"heat": 1.0}, "event= names the column 'snow', .*columns: rain, wet, color, mood, heat"),
        ({"color": "pink"}, {"heat": 1.0}, "'pink' of 'color'.*states: blue, green, red"),
        ({"heat": 1.0}, {"heat": 1.0}, "'heat' is observed"),
        ({"rain": True}, None, "conditioned on heat"),
        ({"rain": True}, {"heat": "hot"}, "'heat' is numeric"),
        ({}, {"heat": 1.0}, "names no column"),
        ({"rain": []}, {"heat": 1.0}, "allows no state of column 'rain'"),
        ({"color": ("blue", "red")}, {"heat": 1.0}, "'color': write a state, or a list of states"),
    ],
    ids=str,
)
def test_questions_that_make_no_sense_are_answered_in_words(field, event, given, words) -> None:
    with pytest.raises(DataError, match=words):
        field.probability(event, given)


# -- completions -------------------------------------------------------------------------------------------------------


def test_a_table_is_completed_by_its_most_probable_joint_states(field) -> None:
    rng = np.random.default_rng(1)
    whole = weather(seed=1, rows=30)
    latent = rng.random((30, 4)) < 0.6
    holes = whole.with_columns(
        [
            pl.Series(
                name,
                [None if cell else v for v, cell in zip(whole[name], latent[:, k], strict=True)],
                whole[name].dtype,
            )
            for k, name in enumerate(whole.columns[:4])
        ]
    )
    answer = field.complete(holes)
    assert answer.schema == holes.schema
    for row in range(30):
        given = {k: v for k, v in holes.row(row, named=True).items() if v is not None}
        ways = joint(field, given)
        best = max(ways, key=ways.__getitem__)
        found = answer.row(row)[:4]
        assert ways[tuple(found)] == pytest.approx(ways[best], rel=1e-9)
    with pytest.warns(EstimateWarning, match=r"of 30 rows .* searched for"):
        assert field.complete(holes, max_cells=1).equals(answer)


def test_arrays_and_sparse_matrices_come_back_as_they_are() -> None:
    import scipy.sparse as sp

    X = np.random.default_rng(0).integers(0, 2, (60, 4)).astype(float)
    X[:, 1] = X[:, 0]
    field = MarkovField(l1=2.0, n_jobs=1).fit(X)
    X[0, 1] = np.nan
    filled = field.complete(X)
    assert isinstance(filled, np.ndarray)
    assert filled[0, 1] == X[0, 0]
    sparse = sp.csr_matrix(np.nan_to_num(X))
    assert (field.complete(sparse) != sparse).nnz == 0


def test_linked_rows_are_completed_together() -> None:
    rng = np.random.default_rng(0)
    values = np.repeat(rng.integers(0, 2, 20), 3)
    people = pl.DataFrame({"id": range(60), "smokes": values})
    friends = pl.DataFrame({"who": range(59), "whom": range(1, 60)})
    links = {"who": ("friend", "who", "person"), "whom": ("friend", "whom", "person")}
    data = Relational({"person": people, "friend": friends}, keys={"person": "id"}, links=links)
    field = RelationalField(l1=0.1, n_jobs=1, solver=Solver(kkt_tol=0.1)).fit(data)
    holes = [3, 4, 5, 6, 7, 30, 31]
    incomplete = people.with_columns(
        pl.Series(
            "smokes", [None if k in holes else int(v) for k, v in enumerate(values)], dtype=people["smokes"].dtype
        )
    )
    filled = field.complete(data.with_tables({"person": incomplete})).tables["person"]["smokes"]
    assert filled.null_count() == 0
    assert (filled == incomplete["smokes"]).fill_null(True).all()


def test_odd_sizes_of_tables_of_queries_are_refused() -> None:
    field = MarkovField(l1=1.0).fit(np.array([[0, 0], [0, 1], [1, 1]] * 5))
    asks = (field.complete, np.array([[0.0, np.nan]])), (field.probability, {"x0": 1})
    for ask, what in asks:
        with pytest.raises(ValueError, match="max_cells must be a whole number"):
            ask(what, max_cells="a")

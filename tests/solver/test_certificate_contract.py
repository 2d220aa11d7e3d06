"""What every fit must hold: where it says that it converged, no candidate violates optimality, computed from scratch.

The certificate of `certificate.py` knows nothing of working sets, tiles, thresholds or precisions, so that whatever a
fit leaves out shows here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from certificate import CodedTable, code_binary, code_table, true_violation

from sparsefield import CRFClassifier, Features, MarkovField, Solver
from sparsefield.compute import Threads
from sparsefield.data import Dataset, as_source, compile_table
from sparsefield.induction import Grafting
from sparsefield.objectives import EM, PseudoLikelihood
from sparsefield.solver import Path, TrainingOptions, WarmStart

KINDS = ("nominal", "ordinal", "numeric", "binary", "mixed", "covariates")
RULES = ("cfi", "grafting", "full")


def make_table(kind: str, seed: int = 0, n_rows: int = 150) -> pl.DataFrame:
    """Columns that depend on two hidden numbers, of one kind or of all."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n_rows, 2))

    def number() -> np.ndarray:
        return hidden @ rng.normal(size=2) + rng.normal(size=n_rows)

    makers = {
        "nominal": lambda: np.array(["red", "green", "blue", "gray"])[np.digitize(number(), [-1.5, 0.0, 1.0])],
        "ordinal": lambda: np.digitize(number(), [-1.5, 0.0, 1.5]),
        "numeric": lambda: np.round(number(), 5),
        "binary": lambda: (number() > 0.3).astype(int),
    }
    if kind in makers:
        return pl.DataFrame({f"x{k}": makers[kind]() for k in range(3 if kind == "numeric" else 4)})
    columns = {f"{name}{k}": make() for k in range(2) for name, make in makers.items()}
    return pl.DataFrame(columns)


def fit(kind: str, seed: int = 0, n_rows: int = 150, **options: Any) -> tuple[MarkovField, CodedTable]:
    table = make_table(kind, seed, n_rows)
    observed = [name for name in table.columns if name.endswith("1")] if kind == "covariates" else None
    model = MarkovField(**{"l1": 1.0, "l2": 0.1, "n_jobs": 1} | options).fit(table, observed=observed)
    return model, code_table(model.field_.schema, table)


def assert_certified(model: Any, table: CodedTable, tolerance: float = 1e-7) -> None:
    """``tolerance`` is that of arithmetic; of belief propagation, it is that of its messages."""
    violation = true_violation(model, table)
    assert model.kkt_violation_ == pytest.approx(violation, abs=tolerance)
    assert model.converged_ or model.objective == "cd"
    if model.converged_:
        assert violation <= model.get_params()["solver__kkt_tol"] * (model.l1_ or 1.0) + tolerance


@pytest.mark.grid(keep=14)  # every eleventh, so that all values of all parameters occur
@pytest.mark.parametrize("coding", ["symmetric", "reference"])
@pytest.mark.parametrize("penalize_biases", [False, True])
@pytest.mark.parametrize("penalty", ["l1", "group"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("induction", RULES)
def test_pairs(kind, penalty, penalize_biases, coding, induction) -> None:
    features = Features(penalize_biases=penalize_biases, coding=coding)
    options = {"penalty": penalty, "features": features, "induction": induction}
    assert_certified(*fit(kind, l1=4.0 if kind in ("mixed", "covariates") else 2.0, **options))


def three_numbers_and_a_binary_column(seed: int, n_rows: int = 180) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n_rows, 2))
    columns = [hidden @ rng.normal(size=2) + rng.normal(size=n_rows) for _ in range(4)]
    numbers = {f"x{k}": np.round(column, 5) for k, column in enumerate(columns[:3])}
    return pl.DataFrame(numbers | {"b": (columns[3] > 0.3).astype(int)})


@pytest.mark.parametrize(
    "seed", [26, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(40) if seed != 26)]
)
def test_no_feature_of_an_edge_is_forgotten(seed) -> None:
    """In the table of seed 26, one feature of an edge had a gradient of almost 0 when the others were added."""
    table = three_numbers_and_a_binary_column(seed)
    model = MarkovField(l1=1.0, l2=0.1, penalty="group", n_jobs=1).fit(table)
    assert_certified(model, code_table(model.field_.schema, table))


@pytest.mark.slow
@pytest.mark.parametrize("penalty", ["l1", "group"])
@pytest.mark.parametrize("l1", [1.0, 0.3, 0.0])
@pytest.mark.parametrize("seed", range(4))
def test_little_penalty(seed, l1, penalty) -> None:
    assert_certified(*fit("mixed", seed, 250, l1=l1, penalty=penalty))


@pytest.mark.parametrize("penalty", ["l1", "group"])
def test_edges_that_were_begun_elsewhere_are_completed(penalty) -> None:
    """The weights of another table may hold a part of an edge only, since its other columns were constant there."""
    table = make_table("mixed")
    model = MarkovField(l1=2.0, penalty=penalty, n_jobs=1).fit(table)
    field, dataset = model.field_, Dataset.single(compile_table(as_source(table), model.field_.schema))
    some = np.arange(len(field.pairs)) % 3 == 0
    options = TrainingOptions(l1=2.0, l2=1.0, penalty=penalty, max_iter=1000)
    with Threads(1) as engine:
        path = Path(
            dataset,
            rule=Grafting(),
            objective=PseudoLikelihood(),
            missing=EM(),
            options=options,
            engine=engine,
            start=WarmStart(field.biases, field.pairs[some], 0.1 * field.weights[some]),
        )
        result = path.run()
    assert result.converged
    violation = true_violation(model, code_table(field.schema, table), result.field)
    assert violation == pytest.approx(result.kkt_violation, abs=1e-7)
    assert result.objective == pytest.approx(model.objective_, rel=1e-5)


@pytest.mark.slow
def test_a_selected_l1() -> None:
    table = make_table("mixed", 3)
    model = MarkovField(penalty="group", n_jobs=1).fit(table)
    assert_certified(model, code_table(model.field_.schema, table))


@pytest.mark.parametrize("penalty", ["l1", "group"])
@pytest.mark.parametrize("kkt_tol", [0.01, 0.5])
def test_small_tiles_and_scorings_that_stop_early(kkt_tol, penalty, monkeypatch) -> None:
    """A candidate with the best score may violate optimality by less than others that were left out."""
    monkeypatch.setattr("sparsefield.config.TILE_STATES", 5)
    for limit in ("batch_size", "candidates_to_score"):
        monkeypatch.setattr(f"sparsefield.solver.fit.{limit}", lambda *_: 1)
    assert_certified(*fit("mixed", 1, 100, l1=6.0, penalty=penalty, solver=Solver(kkt_tol=kkt_tol)))


@pytest.mark.parametrize("penalty", ["l1", "group"])
def test_weights_of_rows_and_states_without_an_example(penalty) -> None:
    table = make_table("mixed", 2)
    kinds = {"ordinal0": [0, 1, 2, 3, 4], "ordinal1": [-1, 0, 1, 2, 3]}
    weight = np.random.default_rng(0).uniform(0.0, 3.0, len(table))
    weight[::7] = 0.0
    model = MarkovField(l1=3.0, penalty=penalty, kinds=kinds, n_jobs=1).fit(table, sample_weight=weight)
    assert_certified(model, code_table(model.field_.schema, table, weight))


@pytest.mark.parametrize("expand", ["active", "all"])
@pytest.mark.parametrize("induction", ["cfi", "grafting"])
@pytest.mark.parametrize(
    ("kind", "order"),
    [
        ("binary", 3),
        ("ordinal", 3),
        pytest.param("binary", 4, marks=pytest.mark.slow),
        *(pytest.param(kind, 3, marks=pytest.mark.slow) for kind in ("nominal", "numeric", "mixed", "covariates")),
    ],
)
def test_conjunctions(kind, order, induction, expand) -> None:
    options = {"features": Features(max_order=order, expand=expand), "induction": induction}
    assert_certified(*fit(kind, l1=1.0 if kind == "binary" else 4.0, **options))


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("penalty", ["l1", "group"])
@pytest.mark.parametrize(
    ("kinds", "observed"), [(("nominal", "ordinal", "binary"), ()), (("nominal", "binary", "numeric"), ("x2",))]
)
def test_the_likelihood(kinds, observed, penalty, missing) -> None:
    parts = [make_table(kind, 5)["x0"].alias(f"x{k}") for k, kind in enumerate(kinds)]
    gone = np.random.default_rng(1).random((len(parts[0]), len(parts))) < missing
    table = pl.DataFrame(
        [
            part if part.name in observed else part.scatter(np.flatnonzero(lost), None)
            for part, lost in zip(parts, gone.T, strict=True)
        ]
    )
    model = MarkovField(objective="ml", l1=1.0, penalty=penalty, n_jobs=1).fit(table, observed=observed)
    assert_certified(model, code_table(model.field_.schema, table))


@pytest.mark.parametrize("penalty", ["l1", "group"])
@pytest.mark.parametrize("kind", ["binary", "nominal"])
def test_the_bethe_likelihood_of_a_forest(kind, penalty) -> None:
    l1 = 10.0 if kind == "nominal" and penalty == "group" else 14.0
    assert_certified(*fit(kind, l1=l1, penalty=penalty, objective="bethe"), tolerance=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("penalty", ["l1", "group"])
@pytest.mark.parametrize("l1", [8.0, 20.0])
@pytest.mark.parametrize("kind", ["binary", "nominal", "ordinal"])
def test_contrastive_divergence(kind, l1, penalty) -> None:
    """Its gradient is not that of its loss, so that few fits converge; all report how far off they are."""
    assert_certified(*fit(kind, l1=l1, penalty=penalty, objective="cd"))


@pytest.mark.parametrize("penalty", ["l1", "group"])
def test_sparse_tables(penalty) -> None:
    X = make_table("binary", 4).to_numpy()
    X = np.hstack([X, np.roll(X, 1, axis=1) & X])
    model = MarkovField(l1=1.0, penalty=penalty, n_jobs=1).fit(sp.csr_array(X.astype(float)))
    assert_certified(model, code_binary(X))


@pytest.mark.parametrize(
    ("sparse", "penalty", "label_penalty"), [(False, "l1", 3.0), (True, "l1", 3.0), (False, "group", 1.0)]
)
def test_labels_and_their_penalty(sparse, penalty, label_penalty) -> None:
    y = make_table("binary", 4).to_numpy()
    noise = np.random.default_rng(0).normal(size=(len(y), 4))
    X = np.round(np.maximum(noise + y[:, :2].sum(axis=1, keepdims=True), 0.0), 2)
    model = CRFClassifier(l1=2.0, label_penalty=label_penalty, penalty=penalty, n_jobs=1)
    model.fit(sp.csr_array(X) if sparse else X, y)
    both = np.hstack([y, X])
    if sparse:
        assert_certified(model, code_binary(both, labels=y.shape[1]))
        return
    schema = model.field_.schema
    names = [variable.name for variable in schema.variables]
    assert_certified(model, code_table(schema, pl.DataFrame(dict(zip(names, both.T, strict=True)))))

"""A chain learns, answers, saves and refuses."""

from __future__ import annotations

import pickle
import re
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
from model_files import rewrite
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import sparsefield
from sparsefield import EBIC, ChainCRF, FitCallbacks, FullL1, Grafting, HeldOut, Solver
from sparsefield.errors import DataError, ModelFileError

WORDS = {"D": ["the", "a"], "N": ["dog", "cat", "run"], "V": ["runs", "run", "sees"]}
FOLLOWS = {"D": "N", "N": "VVD", "V": "DDN"}


def make_sequences(count: int = 60, seed: int = 0) -> tuple[list[list[dict]], list[list[str]]]:
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        labels = ["D"]
        while len(labels) < 3 + rng.integers(4):
            labels.append(str(rng.choice(list(FOLLOWS[labels[-1]]))))
        words = [str(rng.choice(WORDS[label])) for label in labels]
        X.append([{"word": word, "last": word[-1], "length": len(word) / 4, "bias": True} for word in words])
        y.append(labels)
    return X, y


X, Y = make_sequences()


@pytest.fixture(scope="module")
def chain() -> ChainCRF:
    return ChainCRF(l1=0.1, l2=0.1).fit(X, Y)


def as_strings(X: list[list[dict]]) -> list[list[list[str]]]:
    return [[[f"word={token['word']}", f"last={token['last']}"] for token in tokens] for tokens in X]


def as_arrays(X: list[list[dict]]) -> list[np.ndarray]:
    names = sorted({name for sequence in as_strings(X) for token in sequence for name in token})
    return [
        np.array([[name in token for name in names] for token in sequence], dtype=float) for sequence in as_strings(X)
    ]


def without_bias(X: list[list[dict]]) -> list[list[dict]]:
    return [[{key: value for key, value in token.items() if key != "bias"} for token in tokens] for tokens in X]


def test_a_chain_labels_what_it_learned(chain) -> None:
    assert chain.converged_
    assert chain.kkt_violation_ <= 0.01 * 0.1
    assert list(chain.classes_) == ["D", "N", "V"]
    test_X, test_y = make_sequences(30, seed=1)
    assert chain.score(test_X, test_y) > 0.9
    partial = [[None, *labels[1:]] for labels in test_y]
    right = [
        a == b for pair in zip(test_y, chain.predict(test_X), strict=True) for a, b in list(zip(*pair, strict=True))[1:]
    ]
    assert chain.score(test_X, partial) == pytest.approx(np.mean(right))
    table = chain.state_features_
    assert list(table.columns) == ["attribute", "label", "weight"]
    assert len(table) + len(chain.transition_features_) == chain.n_features_
    assert (np.diff(np.abs(table["weight"])) <= 0.0).all()


def test_without_l1_an_intercept_is_the_weight_of_a_constant_column() -> None:
    options = {"l1": 0.0, "l2": 0.5, "solver": Solver(kkt_tol=1e-6)}
    arrays = as_arrays(X)
    chain = ChainCRF(**options).fit(arrays, Y)
    ones = [np.column_stack([part, np.ones(len(part))]) for part in arrays]
    explicit = ChainCRF(**options, fit_intercept=False).fit(ones, Y)
    last = explicit.attributes_[-1]
    weights = {label: w for name, label, w in explicit.state_features_.iter_rows() if name == last}
    assert chain.objective_ == pytest.approx(explicit.objective_, rel=1e-9)
    np.testing.assert_allclose(chain.intercept_, [weights[label] for label in chain.classes_], atol=1e-4)
    both = ChainCRF(**options).fit(ones, Y)  # a duplicate changes little
    assert np.abs(np.vstack(both.predict_marginals(ones)) - np.vstack(chain.predict_marginals(arrays))).max() < 0.02


def test_an_intercept_has_no_l1_penalty() -> None:
    """Expected counts of labels are the observed ones, up to the slope of the L2 penalty; l1 is far larger."""
    chain = ChainCRF(l1=3.0, l2=0.2, solver=Solver(kkt_tol=1e-6)).fit(without_bias(X), Y)
    expected = np.vstack(chain.predict_marginals(without_bias(X))).sum(axis=0)
    observed = [sum(labels.count(label) for labels in Y) for label in chain.classes_]
    np.testing.assert_allclose(expected + 0.2 * chain.intercept_, observed, atol=1e-4)
    assert np.abs(chain.intercept_).max() > 0.1
    assert not ChainCRF(fit_intercept=False).fit(X, Y).intercept_.any()


def test_a_weight_of_two_is_the_sequence_twice_and_of_zero_never() -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 4, len(X))
    several_X, several_y = ([part for part, w in zip(data, weights, strict=True) for _ in range(w)] for data in (X, Y))
    partial = [[None if k == 1 else label for k, label in enumerate(labels)] for labels in several_y]
    hidden = [[None if k == 1 else label for k, label in enumerate(labels)] for labels in Y]
    for l1, repeated, labels in ((0.0, several_y, Y), (0.5, partial, hidden)):
        options = {"l1": l1, "l2": 0.5, "solver": Solver(kkt_tol=1e-6)}
        weighted = ChainCRF(**options).fit(X, labels, sample_weight=weights)
        twice = ChainCRF(**options).fit(several_X, repeated)
        assert weighted.objective_ == pytest.approx(twice.objective_, rel=1e-9)
        np.testing.assert_allclose(
            np.vstack(weighted.predict_marginals(X)), np.vstack(twice.predict_marginals(X)), atol=1e-4
        )
        assert weighted.score(X, Y, weights) == pytest.approx(twice.score(several_X, several_y), abs=1e-12)
    weighted = ChainCRF(l1="auto", selection="ebic").fit(X, Y, sample_weight=weights)
    twice = ChainCRF(l1="auto", selection=EBIC()).fit(several_X, several_y)
    assert weighted.path_["l1"].to_list() == twice.path_["l1"].to_list()
    np.testing.assert_allclose(weighted.path_["score"], twice.path_["score"], rtol=1e-3)
    assert weighted.l1_ == twice.l1_
    with pytest.raises(DataError, match="one weight per sequence"):
        ChainCRF().fit(X, Y, sample_weight=[1.0])


def test_induction_ends_at_the_optimum_of_all_candidates() -> None:
    options = {"l1": 0.3, "l2": 0.1, "all_states": True, "solver": Solver(kkt_tol=1e-4)}
    few = ChainCRF(**options, induction=Grafting(batch_size=2)).fit(X, Y)
    full = ChainCRF(**options, induction=FullL1()).fit(X, Y)
    assert few.converged_
    assert few.objective_ == pytest.approx(full.objective_, rel=1e-7)
    assert few.n_features_ == full.n_features_
    tokens = [token for sequence in as_strings(X) for token in sequence]
    labels = [label for sequence in Y for label in sequence]
    seen = {(name, label) for token, label in zip(tokens, labels, strict=True) for name in token}
    unseen = [
        key for key in few.state_features_.select("attribute", "label").iter_rows() if "=" in key[0] and key not in seen
    ]
    assert unseen


def test_threads_change_nothing(tmp_path) -> None:
    many_X, many_y = make_sequences(600)
    files = []
    for n_jobs in (1, 2, 3):
        chain = ChainCRF(l1=0.5, l2=0.1, n_jobs=n_jobs).fit(many_X, many_y)
        chain.save(tmp_path / f"{n_jobs}")
        files.append(((tmp_path / f"{n_jobs}").read_bytes(), np.concatenate(chain.predict_marginals(many_X)).tobytes()))
    assert files[0] == files[1] == files[2]


def test_a_saved_chain_is_loaded_as_it_was(chain, tmp_path) -> None:
    chain.save(tmp_path / "chain.safetensors")
    loaded = sparsefield.load(tmp_path / "chain.safetensors")
    assert isinstance(loaded, ChainCRF)
    assert loaded.predict(X) == chain.predict(X)
    assert loaded.get_params() == chain.get_params()
    assert loaded.state_features_.equals(chain.state_features_)
    np.testing.assert_array_equal(loaded.intercept_, chain.intercept_)
    assert (loaded.objective_, loaded.n_iter_) == (chain.objective_, chain.n_iter_)
    other = ChainCRF(l1="auto", selection=HeldOut(folds=1, fraction=0.3), solver=Solver(kkt_tol=0.1)).fit(X, Y)
    other.save(tmp_path / "other.safetensors")
    loaded = sparsefield.load(tmp_path / "other.safetensors")
    assert loaded.get_params() == other.get_params()
    assert loaded.path_.equals(other.path_)
    assert pickle.loads(pickle.dumps(chain)).predict(X) == chain.predict(X)


def test_a_damaged_chain_is_refused(chain, tmp_path) -> None:
    saved, path = tmp_path / "saved.safetensors", tmp_path / "chain.safetensors"
    chain.save(saved)
    rewrite(saved, path, arrays=lambda held: {"labels": held["labels"] + 5})
    with pytest.raises(ModelFileError, match="damaged"):
        sparsefield.load(path)
    for change in (lambda d: d["classes"].__setitem__(0, 1), lambda d: d["params"].update(selection="tea leaves")):
        rewrite(saved, path, document=change)
        with pytest.raises(ModelFileError, match=re.escape(str(path))):
            sparsefield.load(path)
    path.write_bytes(b"nothing")
    with pytest.raises(ModelFileError):
        sparsefield.load(path)


def test_unknown_labels_are_summed_out() -> None:
    rng = np.random.default_rng(0)
    partial = [[label if rng.random() < 0.5 else None for label in labels] for labels in Y]
    chain = ChainCRF(l1=0.0, l2=1.0, solver=Solver(kkt_tol=1e-6)).fit(X, partial)
    assert chain.score(X, Y) > 0.85
    weights = [chain.state_features_["weight"], chain.transition_features_["weight"], chain.intercept_]
    value = 0.5 * sum(float(np.square(part).sum()) for part in weights)
    assert chain.objective_ == pytest.approx(value - chain.log_likelihood(X, partial).sum())


def test_frames_arrays_and_lists_give_the_same_chain() -> None:
    options = {"l1": 0.0, "l2": 0.5, "solver": Solver(kkt_tol=1e-5)}
    strings = ChainCRF(**options).fit(as_strings(X), Y)
    tokens = [token for sequence in X for token in sequence]
    frame = pl.DataFrame(
        {
            "sentence": [s for s, sequence in enumerate(X) for _ in sequence],
            "word": [token["word"] for token in tokens],
            "last": [token["last"] for token in tokens],
            "label": [label for labels in Y for label in labels],
        }
    )
    for table in (frame, frame.to_pandas()):
        chain = ChainCRF(**options).fit(table, "label", sequence="sentence")
        assert chain.objective_ == pytest.approx(strings.objective_, rel=1e-6)
        assert chain.predict(table).tolist() == [label for labels in strings.predict(as_strings(X)) for label in labels]
        assert isinstance(chain.state_features_, type(table))
    mixed = frame.with_row_index("row").sort(pl.col("row") % 7, maintain_order=True)
    order = np.argsort(mixed["sentence"].to_numpy(), kind="stable")
    straight = mixed[order.tolist()]
    chain = ChainCRF(**options).fit(straight.drop("row"), "label", sequence="sentence")
    np.testing.assert_array_equal(chain.predict(mixed.drop("row"))[order], chain.predict(straight.drop("row")))
    arrays = as_arrays(X)
    chain = ChainCRF(**options).fit(arrays, Y)
    assert chain.objective_ == pytest.approx(strings.objective_, rel=1e-6)
    assert chain.predict(arrays) == strings.predict(as_strings(X))


@pytest.mark.parametrize("selection", ["heldout", "ebic", HeldOut(folds=3)])
def test_l1_is_selected_by_a_criterion(selection) -> None:
    chain = ChainCRF(l1="auto", selection=selection, random_state=0).fit(X, Y)
    path = chain.path_
    assert chain.converged_
    assert path.filter("selected")["score"].to_list() == [path["score"].max()]
    assert path.filter("selected")["l1"].to_list() == [chain.l1_]
    assert chain.n_features_ == pytest.approx(path.filter("selected")["features"][0], rel=0.3)


def test_attributes_that_training_did_not_have_are_ignored(chain) -> None:
    new = [[token | {"other": "new"} for token in tokens] for tokens in X[:5]]
    assert chain.predict(new) == chain.predict(X[:5])
    assert chain.predict([[]]) == [[]]


def test_a_callback_follows_the_fit(tmp_path) -> None:
    steps = []
    solver = Solver(callbacks=FitCallbacks(on_iteration=steps.append))
    chain = ChainCRF(l1=0.0, solver=solver).fit(X, Y)
    assert [step.iteration for step in steps] == list(range(1, chain.n_iter_ + 1))
    assert all(b.objective <= a.objective for a, b in pairwise(steps))
    assert chain.history_["loss"].to_list() == [step.loss for step in steps]
    assert -chain.log_likelihood(X, Y).sum() == pytest.approx(steps[-1].loss)
    chain.save(tmp_path / "chain.safetensors")
    assert sparsefield.load(tmp_path / "chain.safetensors").get_params()["solver"] == Solver()


def test_a_fit_that_stops_early_warns() -> None:
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        assert not ChainCRF(solver=Solver(max_iter=2)).fit(X, Y).converged_


@pytest.mark.parametrize(
    ("data", "labels", "message"),
    [
        ([], [], "no sequences"),
        ("text", [], "pass a list of sequences"),
        ([[["a"], {"b": 1}]], [["x", "y"]], r"X\[0\]\[1\] is a dict"),
        ([[{"a": 1}], [{"a": None}]], [["x"], ["y"]], r"X\[1\]\[0\] has 'a': None"),
        ([[["a"]]], [["x", "y"]], r"y\[0\] has 2 labels, and X\[0\] has 1 tokens"),
        ([[["a"]]], [[None]], "no known label"),
        ([[["a"]]], [[(1, 2)]], "'y' holds a tuple"),
        ([[["a"]]], [[[1]]], "'y' holds a list"),
        ([[["a"]]], [[10**400]], "too large for floats"),
        ([[["a"]]], [["\ud83d"]], "no valid Unicode"),
        ([[{"a": 10**400}]], [["x"]], r"X\[0\]\[0\] has 'a'"),
        ([[{"a": (1, 2)}]], [["x"]], r"X\[0\]\[0\] has 'a': \(1, 2\); values are"),
        ([[{"a": "\ud83d"}]], [["x"]], r"X has the attribute 'a=.*no valid Unicode"),
        ([[["a"], ["b"]]], [["x", 1]], "labels of several types"),
        ([np.ones((2, 2)), np.ones((1, 3))], [["x", "y"], ["x"]], r"X\[1\] has 3 attributes"),
        (pd.DataFrame({"a": ["u"], "label": ["x"]}), "label", "pass sequence="),
    ],
)
def test_data_that_cannot_be_used_are_refused(data, labels, message) -> None:
    with pytest.raises(DataError, match=message):
        ChainCRF().fit(data, labels)


def test_parameters_are_checked_all_at_once() -> None:
    with pytest.raises(ValueError, match=r"l1 must be .* got -1\. .*max_iter must be"):
        ChainCRF(l1=-1, solver=Solver(max_iter=0)).fit(X, Y)
    with pytest.raises(ValueError, match=r"induction must be .* 'cfi'.*stages"):
        ChainCRF(induction="cfi", solver=Solver(stages=2)).fit(X, Y)
    with pytest.raises(NotFittedError):
        ChainCRF().predict(X)
    assert clone(ChainCRF(l1="auto", all_states=True)).get_params()["all_states"]


def test_labels_that_training_did_not_have_are_named(chain) -> None:
    with pytest.raises(DataError, match="Q"):
        chain.log_likelihood(X[:1], [["Q"] * len(X[0])])


@pytest.mark.parametrize("l1", [0.0, 0.3])
def test_a_continued_fit_has_the_optimum_of_one_from_scratch(l1) -> None:
    more_X, more_y = make_sequences(80, seed=5)
    more_X = [[token | {"new": token["word"][0]} for token in tokens] for tokens in more_X]
    options = {"l1": l1, "l2": 0.3, "solver": Solver(kkt_tol=1e-5)}
    first = ChainCRF(**options, warm_start=True).fit(X, Y)
    again = first.n_iter_, first.fit(X, Y).n_iter_
    assert again[1] <= 2 < again[0]
    continued, scratch = first.fit(more_X, more_y), ChainCRF(**options).fit(more_X, more_y)
    assert continued.objective_ == pytest.approx(scratch.objective_, rel=1e-9)
    assert continued.attributes_ == scratch.attributes_
    assert continued.n_features_ == scratch.n_features_
    other_y = [["other" if label == "V" else label for label in labels] for labels in Y]
    assert first.fit(X, other_y).objective_ == pytest.approx(ChainCRF(**options).fit(X, other_y).objective_, rel=1e-9)

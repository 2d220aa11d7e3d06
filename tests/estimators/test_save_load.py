"""What is saved comes back whole; what is not ours is refused in one line."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_files import as_bytes, rewrite
from msgspec.structs import replace
from safetensors.numpy import save_file

from sparsefield import CFI, EBIC, CRFClassifier, FixedGraph, MarkovField, MeanField, RelationalField, load
from sparsefield.data import OffsetLink, Relational
from sparsefield.errors import ModelFileError

# Some tables have observed columns with missing cells; what the warning says is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::sparsefield.errors.CovariateWarning")


def table(n_rows: int = 60) -> np.ndarray:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, n_rows)
    X = np.column_stack([a, np.where(rng.random(n_rows) < 0.8, a, 1 - a), rng.integers(0, 3, n_rows)]).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


X = table()
LABELS = {
    "ints": [-3, 10**12],
    "floats": [0.1, 2.5],
    "odd words": ["", 'a "quoted" \\ näme\n'],
    "truths": [False, True],
    "numbers and words": [1, "one"],
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "field.safetensors"
    MarkovField(l1=2.0, n_jobs=1).fit(X).save(path)
    return path


def kept_params(estimator) -> dict:
    """All but those that say how a fit ran."""
    gone = {"solver", "solver__checkpoint", "n_jobs"}
    return {name: value for name, value in estimator.get_params().items() if name not in gone}


def assert_same(one, other) -> None:
    assert type(one) is type(other)
    assert kept_params(one) == kept_params(other)
    assert one.field_.schema == other.field_.schema
    assert np.array_equal(one.field_.theta, other.field_.theta)
    assert np.array_equal(one.field_.pairs, other.field_.pairs)
    assert one.states_ == other.states_
    for name in ("n_iter_", "objective_", "kkt_violation_", "converged_", "n_features_in_"):
        assert getattr(one, name) == getattr(other, name)
    assert type(one.features_) is type(other.features_)
    assert one.features_.equals(other.features_)


@pytest.mark.parametrize("labels", LABELS)
def test_a_field_comes_back_whole_with_any_labels(tmp_path, labels) -> None:
    cells = np.array([*LABELS[labels], None], dtype=object)[np.where(np.isnan(X), 2, np.minimum(X, 1)).astype(int)]
    field = MarkovField(l1=2.0, n_jobs=1).fit(cells)
    field.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert_same(field, again)
    assert [type(s) for s in again.states_["x0"]] == [type(s) for s in LABELS[labels]]
    assert np.array_equal(again.transform(cells), field.transform(cells))
    assert again.score(cells) == field.score(cells)


def test_frames_come_back_in_the_kind_that_went_in(tmp_path) -> None:
    for frame in (pd.DataFrame(X, columns=["a", "b", "c"]), pl.DataFrame(X, schema=["a", "b", "c"])):
        field = MarkovField(l1=2.0, n_jobs=1).fit(frame, observed=["c"])
        field.save(tmp_path / "m")
        again = load(tmp_path / "m")
        assert_same(field, again)
        assert again.feature_names_in_.tolist() == ["a", "b", "c"]
        assert type(again.transform(frame)) is type(frame)
        assert type(again.history_) is type(frame)
        with pytest.raises(ValueError, match="unseen"):
            again.transform(frame.rename(columns={"a": "z"}) if hasattr(frame, "loc") else frame.rename({"a": "z"}))


@pytest.mark.parametrize(
    "options",
    [
        {"inference": MeanField(tolerance=1e-3, max_sweeps=50)},
        {"induction": FixedGraph(edges=[[0, 1], [1, 2]]), "selection": EBIC(gamma=0.25)},
        {
            "objective": "cd",
            "solver__certify": False,
            "solver__stages": 2,
            "induction__steps_per_batch": "converge",
            "random_state": 4,
        },
    ],
)
def test_every_option_comes_back(tmp_path, options) -> None:
    field = MarkovField(l1=2.0).set_params(n_jobs=1, **options).fit(X)
    field.save(tmp_path / "m")
    again = load(tmp_path / "m")
    if isinstance(field.induction, FixedGraph):
        assert [tuple(edge) for edge in again.induction.edges] == [tuple(edge) for edge in field.induction.edges]
        again.induction = field.induction
    assert_same(field, again)
    refitted = again.fit(X)
    assert np.array_equal(refitted.field_.theta, field.field_.theta)


def test_options_that_hold_numpy_values_can_be_saved(tmp_path) -> None:
    kinds = {"x2": (np.int64(2), np.int64(0), np.int64(1))}
    for induction in (FixedGraph(edges=np.array([[0, 1]])), CFI(threshold=(np.float32(0.5), np.float32(0.25)))):
        MarkovField(l1=2.0, n_jobs=1, kinds=kinds, induction=induction).fit(X, observed=["x2"]).save(tmp_path / "m")


def test_a_source_of_chance_gives_seeds_and_is_not_saved(tmp_path) -> None:
    field = MarkovField(l1=2.0, n_jobs=1, random_state=np.random.RandomState(0)).fit(X)
    first, second = field.sample(50), field.sample(50)
    assert not first.equals(second)
    assert MarkovField(l1=2.0, n_jobs=1, random_state=np.random.RandomState(0)).fit(X).sample(50).equals(first)
    field.save(tmp_path / "m")
    assert load(tmp_path / "m").random_state is None


def test_classifiers_come_back_whole(tmp_path) -> None:
    words = np.array(["no", "yes"])[np.nan_to_num(X[:, 0]).astype(int)]
    both = pd.DataFrame({"p": words, "q": np.nan_to_num(X[:, 1]).astype(int)})
    for labels in (words, both, np.nan_to_num(X[:, :2]).astype(bool)):
        model = CRFClassifier(l1=2.0, n_jobs=1).fit(X[:, 1:], labels)
        model.save(tmp_path / "m")
        again = load(tmp_path / "m")
        assert_same(model, again)
        assert np.array_equal(again.predict(X[:, 1:]), model.predict(X[:, 1:]))
        assert again.predict(X[:, 1:]).dtype == model.predict(X[:, 1:]).dtype
        assert again.score(X[:, 1:], labels) == model.score(X[:, 1:], labels)


@pytest.mark.parametrize("kind", ["table", "labels", "links"])
def test_how_a_fit_ran_is_not_in_its_file_but_in_the_log(tmp_path, kind, caplog) -> None:
    people = pl.DataFrame({"id": range(60), "a": table()[:, 0], "b": table()[:, 1]}, nan_to_null=True)
    data = Relational({"person": people}, keys={"person": "id"}, links={"next": OffsetLink("person")})
    start = {
        "table": lambda **options: MarkovField(l1=2.0).set_params(**options).fit(X),
        "labels": lambda **options: (
            CRFClassifier(l1=2.0).set_params(**options).fit(X[:, 1:], np.nan_to_num(X[:, 0]).astype(int))
        ),
        "links": lambda **options: RelationalField(l1=2.0).set_params(**options).fit(data),
    }[kind]
    start(n_jobs=1).save(tmp_path / "1")
    with caplog.at_level("INFO", "sparsefield"):
        start(n_jobs=2, solver__checkpoint=tmp_path / "state").save(tmp_path / "2")
    assert "features have weights" in caplog.text
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    again = load(tmp_path / "2")
    assert (again.n_jobs, again.get_params()["solver__checkpoint"]) == (None, None)


def test_an_estimator_without_a_fit_cannot_be_saved(tmp_path) -> None:
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        MarkovField(l1=2.0).save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


# -- files that cannot be read ---------------------------------------------------------------------


def refused(path) -> str:
    with pytest.raises(ModelFileError) as caught:
        load(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def test_a_truncated_file_is_refused_at_any_length(saved, tmp_path) -> None:
    content = saved.read_bytes()
    lengths = {0, 1, 7, 8, 9, len(content) - 1, len(content) - 8, *range(0, len(content), len(content) // 40)}
    for length in lengths:
        (tmp_path / "short").write_bytes(content[:length])
        assert "truncated" in refused(tmp_path / "short")


@given(where=st.floats(0.0, 1.0, exclude_max=True), value=st.integers(0, 255))
@settings(max_examples=60)
def test_a_damaged_byte_is_refused_or_does_no_harm(saved, tmp_path_factory, where, value) -> None:
    content = bytearray(saved.read_bytes())
    content[int(where * len(content))] = value
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(bytes(content))
    try:
        field = load(path)
    except ModelFileError:
        return
    assert field.field_.biases.shape == (field.field_.schema.n_target_columns,)


def test_a_missing_file_and_a_folder_are_refused(tmp_path) -> None:
    assert "no such file" in refused(tmp_path / "nowhere")
    refused(tmp_path)


def test_a_safetensors_file_of_others_is_refused(tmp_path) -> None:
    save_file({"weight": np.zeros(3)}, tmp_path / "theirs")
    assert "not a sparsefield model" in refused(tmp_path / "theirs")
    save_file({"weight": np.zeros(3)}, tmp_path / "theirs", {"format": "pt"})
    assert "not a sparsefield model" in refused(tmp_path / "theirs")


@pytest.mark.parametrize("version", ["12", "new"])
def test_a_file_of_a_future_version_is_refused_with_the_remedy(saved, tmp_path, version) -> None:
    rewrite(saved, tmp_path / "new", version=version)
    assert "upgrade it" in refused(tmp_path / "new")


def test_an_estimator_of_another_name_is_refused(saved, tmp_path) -> None:
    rewrite(saved, tmp_path / "odd", document=lambda d: d["extra"].update(estimator="Oracle"))
    assert "'Oracle'" in refused(tmp_path / "odd")


@pytest.mark.parametrize(
    "change",
    [
        {"document": lambda d: d.pop("tables")},
        {"document": lambda d: d["tables"][0]["variables"][0].update(reference=17)},
        {"document": lambda d: d["templates"][0].update(ends=[0, 1])},
        {"document": lambda d: d["templates"][0]["template"].update(kind="beside")},
        {"document": lambda d: d["extra"].pop("params")},
        {"document": lambda d: d["extra"]["params"].update(magic=1)},
        {"document": lambda d: d["extra"]["params"].update(solver={"object": "System"})},
        {"document": lambda d: d["extra"]["params"].update(l1=[1.0])},
        {"document": lambda d: d["extra"]["params"].update(induction={"object": "CFI", "threshold": "x"})},
        {"document": lambda d: d["extra"]["params"].update(inference={"object": "Gibbs", "sweeps": "x"})},
        {"document": lambda d: d["extra"]["params"].update(kinds=3)},
        {"document": lambda d: d["extra"].update(kind="parchment")},
        {"arrays": lambda t: {"document": as_bytes("{")}},
        {"arrays": lambda t: {"document": as_bytes('{"extra": {"params": {"l1": ' + "[" * 100_000)}},
        {"arrays": lambda t: {"biases": t["biases"][:-1]}},
        {"arrays": lambda t: {"weights": np.full_like(t["weights"], np.nan)}},
        {"arrays": lambda t: {"pairs": t["pairs"] + 1000}},
    ],
)
def test_a_file_whose_parts_do_not_fit_is_refused(saved, tmp_path, change) -> None:
    rewrite(saved, tmp_path / "odd", **change)
    refused(tmp_path / "odd")


STABILITY = {
    "frequencies": [0.5], "resamples": 10, "seed": 0, "l1": 1.0, "halved": "rows", "given_graph": False,
    "mean_pairs": 2.0,
}  # fmt: skip
EVIDENCE = {"edges": [[0, 1]], "p_values": [0.5], "q_values": [0.5], "tested": 3}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"n_rows": -1}, "n_rows"),
        ({"l1": "2"}, "l1"),
        ({"objective": float("nan")}, "malformed"),
        ({"iterations": [{"iteration": 1}]}, r"record.iterations\[0\]"),
        ({"stability": STABILITY}, "does not match the features"),
        ({"evidence": EVIDENCE | {"edges": [[0, 10**30]]}}, "tests of edges do not match"),
        ({"evidence": EVIDENCE | {"p_values": []}}, "tests of edges do not match"),
        ({"source": {"file": 3}}, "source"),
        ({"more": 1}, "unknown field `more`"),
    ],
    ids=str,
)
def test_a_fit_record_that_no_fit_has_is_refused_with_its_place(saved, tmp_path, change, place) -> None:
    rewrite(saved, tmp_path / "odd", document=lambda d: d["record"].update(change))
    assert re.search(f"damaged contents .*{place}", refused(tmp_path / "odd"))


def test_an_array_of_a_type_that_numpy_lacks_is_refused(saved, tmp_path) -> None:
    content = saved.read_bytes()
    size = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:size])
    header["biases"] |= {"dtype": "F8_E4M3", "shape": [8 * n for n in header["biases"]["shape"]]}
    text = json.dumps(header).encode()
    (tmp_path / "odd").write_bytes(len(text).to_bytes(8, "little") + text + content[size:])
    assert "'biases' has a type" in refused(tmp_path / "odd")


def test_a_history_may_lack_some_times() -> None:
    field = MarkovField(l1=2.0, n_jobs=1).fit(X)
    rows = [replace(row, seconds=None) for row in field.field_.record.iterations[:1]]
    record = replace(field.field_.record, iterations=(*rows, *field.field_.record.iterations))
    again = MarkovField.from_field(field.field_)
    again.field_ = dataclasses.replace(field.field_, record=record)
    assert again.history_["seconds"].null_count() == 1

"""UAI files keep the distribution of a field, and malformed files are refused in one sentence."""

from __future__ import annotations

import contextlib
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slow_tables import exponentials, products, random_field, shares

from sparsefield import MarkovField
from sparsefield.app.tables.uai import LOG_ZERO, read_uai, write_uai
from sparsefield.data import Layout, Schema, Variable
from sparsefield.errors import DataError, ModelFileError
from sparsefield.model import Field
from sparsefield.model.model_file import check_field

SEEDS = st.integers(0, 2**32 - 1)

CHAIN = """MARKOV
3
2 2 3
2
2 0 1
2 1 2

4
 0.436 0.189
 0.128 0.920

6
 0.210 0.333 0.457
 0.811 0.000 0.189
"""
"""The example of the competition's own description of the format; it has one zero."""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("uai")


def written(folder: Path, text: str) -> Path:
    path = folder / "net.uai"
    path.write_text(text)
    return path


# -- round trips ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("orders", [(1, 2, 3), (1, 3, 4)], ids=str)
def test_a_round_trip_keeps_the_distribution(tmp_path_factory, orders) -> None:
    path = tmp_path_factory.mktemp("uai") / "net.uai"

    @given(seed=SEEDS)
    def holds(seed: int) -> None:
        field = random_field(seed, orders=orders)
        names = write_uai(field, path)
        truth = exponentials(field)
        values = products(path.read_text())
        assert {way: pytest.approx(value) for way, value in truth.items()} == values  # the partition function too
        back = read_uai(path, names=names)
        check_field(back)
        assert [v.name for v in back.schema.variables] == list(names) == [v.name for v in field.schema.variables]
        np.testing.assert_allclose(shares(exponentials(back)), shares(truth), rtol=1e-9)

    holds()


@given(seed=SEEDS)
def test_the_field_of_any_file_has_its_distribution(tmp_path_factory, seed) -> None:
    """Factors of up to four variables in any order, several over the same ones, and constants."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 4, size=4)
    scopes = [rng.permutation(4)[: rng.integers(0, 5)] for _ in range(6)]
    lines = ["BAYES", "4", " ".join(map(str, counts)), "6"]
    lines += [" ".join(map(str, [len(scope), *scope])) for scope in scopes]
    for scope in scopes:
        table = rng.uniform(0.01, 5.0, size=int(np.prod(counts[scope])))
        lines += [str(len(table)), "\t".join(f"{x:.12e}" for x in table)]
    path = tmp_path_factory.mktemp("uai") / "net.uai"
    path.write_text("\r\n\r\n ".join(lines))
    field = read_uai(path)
    check_field(field)
    np.testing.assert_allclose(shares(exponentials(field)), shares(products(path.read_text())), rtol=1e-9)


def test_the_file_is_conditioned_on_observed_columns(folder, make_problem) -> None:
    for seed in range(5):
        problem = make_problem(seed)
        schema, n = problem.schema, problem.schema.n_target_columns
        field = Field(problem.layout, problem.theta[:n], problem.pairs, problem.theta[n:])
        kind, number = schema.observed
        label, value = kind.states[seed % len(kind.states)], 0.3 * seed - 1
        names = write_uai(field, folder / "net.uai", given={kind.name: label, number.name: value})
        one_hot = [float(kind.states[k] == label) for k in kind.position_of_code[1:]]
        observed = [*one_hot, (value - number.center) / number.scale]
        truth = problem.slow.joint([-1] * len(schema.targets), observed)
        positions = [v.position_of_code for v in schema.targets]
        by_position = {tuple(int(p[c]) for p, c in zip(positions, way, strict=True)): x for way, x in truth.items()}
        np.testing.assert_allclose(shares(products((folder / "net.uai").read_text())), shares(by_position), rtol=1e-9)
        assert list(names) == [v.name for v in schema.targets]


def test_targets_may_be_given_and_missing_observed_values_are_means(folder, make_problem) -> None:
    problem = make_problem(3)
    schema, n = problem.schema, problem.schema.n_target_columns
    field = Field(problem.layout, problem.theta[:n], problem.pairs, problem.theta[n:])
    kind, number = schema.observed
    first = schema.targets[0]
    known = {kind.name: None, number.name: None, first.name: first.states[1], schema.targets[1].name: None}
    names = write_uai(field, folder / "net.uai", given=known)
    assert list(names) == [v.name for v in schema.targets[1:]]
    code = first.code_of_label[first.states[1]]
    truth = problem.slow.joint([code, -1, -1, -1], [*kind.column_means, 0.0])
    positions = [v.position_of_code for v in schema.targets[1:]]
    by_position = {tuple(int(p[c]) for p, c in zip(positions, way[1:], strict=True)): x for way, x in truth.items()}
    np.testing.assert_allclose(shares(products((folder / "net.uai").read_text())), shares(by_position), rtol=1e-9)


# -- files by hand -------------------------------------------------------------------------------------------


def test_the_known_example(folder) -> None:
    with pytest.warns(UserWarning, match=r"net\.uai: 1 table entries are 0; each is replaced by exp\(-50\)") as told:
        field = read_uai(written(folder, CHAIN))
    assert len(told) == 1
    truth = products(CHAIN)
    assert sum(truth.values()) == pytest.approx(0.436 + 0.189 + 0.128 + 0.920)
    np.testing.assert_allclose(shares(exponentials(field)), shares(truth), atol=1e-15)
    assert field.schema.order == ("x0", "x1", "x2")
    assert [v.states for v in field.schema.variables] == [(0, 1), (0, 1), (0, 1, 2)]


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffMARKOV\r\n\r\n2\r\n2\t2\r\n1\r\n2 0 1\r\n\r\n4\r\n1e0 2.0E+0\r\n.3e1 4e-0",
        "c a comment\nMARKOV # kind\n2\n2 2\nc\n1\n2 0 1\ncomment\n4\n1 2\n  c more\n3 4\n",
        "MARKOV 2 2 2 3  0  1 0  2 1 0   1 7   2 1 1   4 1 3 2 4",
        "MARKOV 2 2 2 2  2 0 1  2 0 1   4 1 2 3 2   4 1 1 1 2",
    ],
    ids=["other line ends", "comments", "constants", "twice"],
)
def test_all_layouts_of_one_network_are_read(folder, text) -> None:
    (folder / "net.uai").write_bytes(text.encode())
    field = read_uai(folder / "net.uai")
    np.testing.assert_allclose(shares(exponentials(field)), [0.1, 0.2, 0.3, 0.4])


def test_factors_of_three_variables_have_conjunctions_only_beyond_pairs(folder) -> None:
    by_pairs = np.exp(np.einsum("i,j->ij", [0, 1], [0, 2])[:, :, None] + np.array([0, 3.0]))
    text = "MARKOV 3 2 2 2 1  3 0 1 2   8 " + " ".join(map(repr, by_pairs.ravel().tolist()))
    field = read_uai(written(folder, text))
    assert len(field.conjunctions) == 0
    assert field.pairs.tolist() == [[0, 1]]
    assert field.weights == pytest.approx([2.0])
    assert field.biases == pytest.approx([0, 0, 3.0])
    field = read_uai(written(folder, "MARKOV 3 2 2 2 1  3 2 0 1   8 1 1 1 1 1 1 1 2"))
    assert field.conjunctions.tolist() == [[0, 1, 2]]
    assert field.conjunction_weights == pytest.approx([np.log(2)])
    assert len(field.pairs) == 0


def test_a_zero_is_less_likely_than_anything_else_in_its_table(folder) -> None:
    with pytest.warns(UserWarning, match="2 table entries"):
        field = read_uai(written(folder, "MARKOV 1 4 1  1 0  4 0 1e-60 1 0"))
    values = exponentials(field)
    assert np.log(values[0,] / values[1,]) == pytest.approx(LOG_ZERO)
    assert np.log(values[3,] / values[1,]) == pytest.approx(LOG_ZERO)
    assert values[2,] / values[1,] == pytest.approx(1e60)


def test_an_estimator_from_a_file_gives_exact_posteriors(folder) -> None:
    network = read_uai(written(folder, "BAYES 2 2 2 2  1 0  2 0 1   2 0.3 0.7   4 0.9 0.1 0.2 0.8"))
    field = MarkovField.from_field(network, n_jobs=1)
    found = field.predict_proba(np.array([[0.0, np.nan], [1.0, np.nan]]))
    np.testing.assert_allclose(found["x1"], [[0.9, 0.1], [0.2, 0.8]], atol=1e-6)
    write_uai(field, folder / "again.uai")
    np.testing.assert_allclose(shares(products((folder / "again.uai").read_text())), [0.27, 0.03, 0.14, 0.56])


# -- names ---------------------------------------------------------------------------------------------------


def test_names_are_written_to_a_separate_file_and_read_back(folder) -> None:
    field = random_field(1)
    names = write_uai(field, folder / "net.uai", names=folder / "names.json")
    assert json.loads((folder / "names.json").read_text()) == names
    assert names == {v.name: list(v.states) for v in field.schema.variables}
    back = read_uai(folder / "net.uai", names=folder / "names.json")
    assert [(v.name, v.states) for v in back.schema.variables] == [(v.name, v.states) for v in field.schema.variables]
    assert sorted(path.name for path in folder.iterdir()) == ["names.json", "net.uai"]


def test_names_that_do_not_fit_are_refused(folder) -> None:
    path = written(folder, "MARKOV 2 2 2 0")
    with pytest.raises(
        DataError, match="names are for 1 variables with 2 states, but the file has 2 variables with 2, 2"
    ):
        read_uai(path, names={"a": [0, 1]})
    for text in ("nonsense", "[1]", '{"a": [0, 0], "b": [0, 1]}', '{"a": 2, "b": [0, 1]}', '{"a": [[]], "b": [0, 1]}'):
        (folder / "names.json").write_text(text)
        with pytest.raises(DataError, match=r"names\.json: this is not a "):
            read_uai(path, names=folder / "names.json")


# -- bad files -----------------------------------------------------------------------------------------------

HEAD = "MARKOV 2 2 3 1 2 0 1 "

BAD = {
    "SPARSEMARKOV 1 2 0": "must start with MARKOV or BAYES, not with 'SPARSEMARKOV'",
    "MARKOV": "too early: the number of variables",
    "MARKOV -1": "'-1' is not a nonnegative integer",
    "MARKOV 99999999999 2": "too early: numbers of states: 99,999,999,999",
    "MARKOV 2 2 0 0": "variable 1 has 0 states",
    "MARKOV 1 999999999999 0": "999,999,999,999 states in total",
    "MARKOV 1 2 888888888": "888,888,888 factors are declared",
    "MARKOV 1 2 1 77777777 0": "too early: variables of factor 0",
    "MARKOV 2 2 3 1 2 0 2 6 1 1 1 1 1 1": "factor 0 contains variable 2, but there are 2",
    "MARKOV 2 2 3 1 2 0 0 4 1 1 1 1": "factor 0 names a variable twice",
    HEAD: "too early: size of table 0",
    HEAD + "6 1 2 3 4 5": "too early: table 0: 6 number.s. expected, 5 left",
    HEAD + "4 1 2 3 4": r"table 0 has 4 numbers, but its variables \(0, 1\) have 2 x 3 = 6 states",
    HEAD + "6 1 2 3 -4 5 6": "table 0: '-4' is not a finite nonnegative number",
    HEAD + "6 1 2 3 __import__('os') 5 6": "is not a number",
    HEAD + "6 0 0 0 0 0 0.0": "all entries of table 0 are 0",
    HEAD + "6 1 2 3 4 5 6 7": "1 unexpected token.s. after the last table, from '7'",
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_file_is_refused_in_one_sentence(folder, text) -> None:
    with pytest.raises(ModelFileError, match=BAD[text]) as caught:
        read_uai(written(folder, text))
    assert str(caught.value).startswith(f"{folder / 'net.uai'}: ")
    assert "\n" not in str(caught.value)


def test_missing_and_binary_files_are_refused(folder) -> None:
    (folder / "net.uai").write_bytes(b"\xff\xfe\x00MARKOV")
    with pytest.raises(ModelFileError, match="not a text file"):
        read_uai(folder / "net.uai")
    for path in (folder / "nope.uai", folder):
        with pytest.raises(ModelFileError, match="there is no such file"):
            read_uai(path)


@given(cut=st.integers(0, len(CHAIN.split()) - 1), word=st.sampled_from(["", "-1", "x", "1e999", "3"]))
def test_a_damaged_file_is_a_field_or_is_refused(tmp_path_factory, cut, word) -> None:
    words = CHAIN.split()
    words[cut : cut + 1] = word.split()
    path = tmp_path_factory.mktemp("uai") / "net.uai"
    path.write_text(" ".join(words))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(ModelFileError):
            check_field(read_uai(path))


# -- fields that cannot be written ---------------------------------------------------------------------------


def test_observed_columns_need_values(folder, make_problem) -> None:
    problem = make_problem(0, share=1.0)
    n = problem.schema.n_target_columns
    field = Field(problem.layout, problem.theta[:n], problem.pairs, problem.theta[n:])
    kind, number = (v.name for v in problem.schema.observed)
    wrong = {
        r"2 observed column.*given=": {},
        f"1 observed column.*'{number}'": {kind: 0},
        "no state 17; its states are 0, 1, 2": {kind: 17, number: 0.0},
        "holds numbers; given has 'warm'": {kind: 0, number: "warm"},
        "given names the column 'nonsense'": {"nonsense": 1},
    }
    for words, known in wrong.items():
        with pytest.raises(DataError, match=words):
            write_uai(field, folder / "net.uai", given=known)
    assert not list(folder.iterdir())


def test_too_large_weights_and_tables_are_refused(folder) -> None:
    binary = tuple(Variable(f"x{k}", "target", (0, 1), 0, (0.5, 0.5)) for k in range(30))
    layout = Layout.single(Schema(binary, tuple(v.name for v in binary)))
    none = np.empty((0, 2), dtype=np.int64)
    with pytest.raises(DataError, match="weights of x0 add up to 1000"):
        write_uai(Field(layout, np.full(30, 1000.0), none, np.empty(0)), folder / "net.uai")
    wide = np.arange(30)[None, :]
    with pytest.raises(DataError, match=r"full table over x0, .* has 1,073,741,824 numbers"):
        write_uai(Field(layout, np.zeros(30), none, np.empty(0), wide, np.ones(1)), folder / "net.uai")


def test_spaces_of_other_scripts_separate_numbers_as_well(folder) -> None:
    space = "\u2028"
    field = read_uai(written(folder, f"MARKOV{space}1{space}2\n1\n1 0\n2{space}1.0 3.0\n"))
    assert np.allclose(field.biases, np.log(3.0))


def test_names_that_are_nested_too_deeply_are_refused(folder) -> None:
    (folder / "deep.json").write_text("[" * 100_000)
    with pytest.raises(DataError, match="nested too deeply"):
        read_uai(written(folder, "MARKOV\n1\n2\n1\n1 0\n2 1 1\n"), names=folder / "deep.json")

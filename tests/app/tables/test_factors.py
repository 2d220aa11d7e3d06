"""UAI files have the distribution of a field, and fields that have no such file are refused in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixed_kinds import AGE, CITY, INCOME, SEX, mixed_field
from mixed_kinds import exponentials as mixed_exponentials
from slow_tables import exponentials, products, random_field, shares

from sparsefield.app.tables.export import write_uai
from sparsefield.data import Layout, Schema, Variable
from sparsefield.errors import DataError
from sparsefield.model import Field


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("uai")


@pytest.mark.parametrize("orders", [(1, 2, 3), (1, 3, 4)], ids=str)
def test_a_file_has_the_distribution_and_the_partition_function(tmp_path_factory, orders) -> None:
    path = tmp_path_factory.mktemp("uai") / "net.uai"

    @given(seed=st.integers(0, 2**32 - 1))
    def holds(seed: int) -> None:
        field = random_field(seed, orders=orders)
        names = write_uai(field, path)
        assert {way: pytest.approx(value) for way, value in exponentials(field).items()} == products(path.read_text())
        assert list(names) == [v.name for v in field.schema.variables]

    holds()


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


def test_names_are_written_to_a_separate_file(folder) -> None:
    field = random_field(1)
    names = write_uai(field, folder / "net.uai", names=folder / "names.json")
    assert json.loads((folder / "names.json").read_text()) == names
    assert names == {v.name: list(v.states) for v in field.schema.variables}
    assert sorted(path.name for path in folder.iterdir()) == ["names.json", "net.uai"]


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


def same_distribution(found: dict, truth: dict) -> None:
    assert set(found) == set(truth)
    assert [found[way] for way in sorted(truth)] == pytest.approx([truth[way] for way in sorted(truth)])


def test_a_uai_file_has_the_distribution_of_all_kinds(folder: Path) -> None:
    field = mixed_field()
    names = write_uai(field, folder / "net.uai")
    same_distribution(products((folder / "net.uai").read_text()), mixed_exponentials(field))
    assert names["answer"] == ["never", "rarely", "often"]
    assert names["income"] == [1.0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize("value", [12.0, 53])
def test_numbers_are_given_by_their_values(folder: Path, value: float) -> None:
    field = mixed_field(SEX, INCOME, AGE)
    write_uai(field, folder / "net.uai", given={"age": value})
    bins = [float(AGE.bins[AGE.codes_of(np.array([value]))[0]] == k) for k in range(3)]
    truth = mixed_exponentials(field, {"age": [(value - 40.0) / 15.5, *bins]})
    found = products((folder / "net.uai").read_text())
    scale = sum(truth.values()) / sum(found.values())
    same_distribution({way: scale * value for way, value in found.items()}, truth)


def test_a_target_number_is_given_by_a_value_in_its_level(folder: Path) -> None:
    field = mixed_field(CITY, INCOME)
    write_uai(field, folder / "net.uai", given={"income": 7.0})
    truth = mixed_exponentials(field)
    given = {way[:1]: value for way, value in truth.items() if way[1] == 3}
    found = products((folder / "net.uai").read_text())
    assert np.divide(*[np.array(list(one.values())) / sum(one.values()) for one in (found, given)]) == pytest.approx(1)
    with pytest.raises(DataError, match="holds numbers; given has 'much'"):
        write_uai(field, folder / "net.uai", given={"income": "much"})

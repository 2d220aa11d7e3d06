"""UAI evidence files are read and written in both layouts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsefield.app.tables.uai_evidence import read_evidence, write_evidence
from sparsefield.errors import DataError, ModelFileError

NAMES = {"a": [0, 1], "b c": ["low", "middle", "high"], "d": [False, True], "e": [1.5, 2.5]}

FILES = {
    "0": [{}],
    "1\n0": [{}],
    "2 0 1 3 1": [{"x0": 1, "x3": 1}],
    "2\n0 1\n3 1": [{"x0": 1, "x3": 1}],
    "1\n2 0 1 3 1": [{"x0": 1, "x3": 1}],
    "1 2 0 1 3 1": [{"x0": 1, "x3": 1}],
    "2\n0\n1 3 1": [{}, {"x3": 1}],
    "2\n1 0 0\n2 1 2 3 1\n": [{"x0": 0}, {"x1": 2, "x3": 1}],
    "2 1 0 0 2 1 2 3 1": [{"x0": 0}, {"x1": 2, "x3": 1}],
    "c of two\n\n  3\n1 0 1 # first\n\n0\n1 1 1": [{"x0": 1}, {}, {"x1": 1}],
    "2 0 1 0 1": [{"x0": 1}],
}


@pytest.mark.parametrize("text", FILES)
def test_both_layouts_are_read(tmp_path: Path, text) -> None:
    (tmp_path / "e").write_text(text)
    assert read_evidence(tmp_path / "e") == FILES[text]


SAMPLE = st.fixed_dictionaries({}, optional={name: st.sampled_from(states) for name, states in NAMES.items()})


@given(samples=st.lists(SAMPLE, min_size=1, max_size=4))
def test_there_and_back(tmp_path_factory, samples) -> None:
    path = tmp_path_factory.mktemp("evidence") / "e"
    write_evidence(samples, path, names=NAMES)
    assert read_evidence(path, names=NAMES) == samples
    assert len(read_evidence(path)) == len(samples)


BAD = {
    "": "the file is empty",
    "x": "'x' is not a nonnegative integer",
    "1 0 -1": "'-1' is not a nonnegative integer",
    "3 0 1 1 1": "5 numbers are neither one sample nor 3 samples",
    "1\n2 0 1 1": "neither one sample nor 1",
    "2 0 1 0 0": "variable 0 has two states",
    "1 4 0": "evidence for variable 4, but there are 4",
    "1 1 3": r"state 3 of variable 1 \(b c\), which has 3",
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_file_is_refused_in_one_sentence(tmp_path: Path, text) -> None:
    (tmp_path / "e").write_text(text)
    with pytest.raises(ModelFileError, match=BAD[text]) as caught:
        read_evidence(tmp_path / "e", names=NAMES)
    assert str(caught.value).startswith(f"{tmp_path / 'e'}: ")


def test_unknown_columns_and_states_are_not_written(tmp_path: Path) -> None:
    for samples in ([{"z": 0}], [{"a": 2}], [{"b c": "High"}]):
        with pytest.raises(DataError, match="no column"):
            write_evidence(samples, tmp_path / "e", names=NAMES)
    for samples in ([], {"a": 1}):
        with pytest.raises(DataError, match="a list of one or more"):
            write_evidence(samples, tmp_path / "e", names=NAMES)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("space", ["\u2028", "\x85"])
def test_spaces_of_other_scripts_do_not_end_a_line(tmp_path: Path, space: str) -> None:
    (tmp_path / "e").write_text(f"1{space}1{space}0\n", encoding="utf-8")
    assert read_evidence(tmp_path / "e") == [{"x1": 0}]

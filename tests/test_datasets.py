"""Data sets come from the named folder first, from their public address otherwise, and checked either way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pooch
import pytest

from sparsefield import datasets
from sparsefield.datasets import Animals, Splits, data_folder, load_dataset
from sparsefield.errors import DataError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "animals.csv").write_text("animal,stripes,big\nzebra,1,0\nantelope,0,1\n")
    nltcs = tmp_path / "debd" / "nltcs"
    nltcs.mkdir(parents=True)
    for rows, split in enumerate(("train", "valid", "test"), start=1):
        (nltcs / f"{split}.csv").write_text("0,1,1\n" * rows)
    monkeypatch.setenv("SPARSEFIELD_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """No folder is named; what stands in this dict is what the addresses hold."""
    contents: dict[str, str] = {}

    def retrieve(url: str, known_hash: str, fname: str, path: Path) -> str:
        if url not in contents:
            raise OSError("no network")
        assert known_hash.startswith("sha256:")
        file = tmp_path / fname
        file.write_text(contents[url])
        return str(file)

    monkeypatch.delenv("SPARSEFIELD_DATA", raising=False)
    monkeypatch.setattr(pooch, "retrieve", retrieve)
    return contents


def test_animals_are_sorted_by_name_and_attribute(folder: Path) -> None:
    animals = load_dataset("animals")
    assert animals.names == ("antelope", "zebra")
    assert animals.frame.columns == ["big", "stripes"]
    assert animals.frame.to_numpy().tolist() == [[1, 0], [0, 1]]


def test_fetched_animals_are_the_same_as_those_in_the_folder(folder: Path, monkeypatch, elsewhere) -> None:
    monkeypatch.setenv("SPARSEFIELD_DATA", str(folder))
    kept = load_dataset("animals")
    monkeypatch.delenv("SPARSEFIELD_DATA")
    elsewhere[datasets.ANIMALS_URL] = "1,stripes,zebra\n0,stripes,antelope\n1,big,antelope\n0,big,zebra\n"
    fetched = load_dataset("animals")
    assert fetched.frame.equals(kept.frame)
    assert fetched.names == kept.names


def test_splits_keep_their_parts_apart(folder: Path) -> None:
    splits = load_dataset("nltcs")
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [1, 2, 3]
    assert splits.train.dtype == np.int8


def test_what_the_folder_lacks_is_fetched(folder: Path, monkeypatch, elsewhere) -> None:
    monkeypatch.setenv("SPARSEFIELD_DATA", str(folder))
    for split in datasets.SPLITS:
        elsewhere[datasets.SPLITS_URL.format(name="dna", split=split)] = "1,0\n"
    assert load_dataset("dna").test.tolist() == [[1, 0]]


def test_data_that_cannot_be_had_name_the_variable(elsewhere) -> None:
    with pytest.raises(DataError, match=r"cannot be reached.*SPARSEFIELD_DATA"):
        load_dataset("plants")


def test_a_wrong_checksum_is_said(elsewhere, monkeypatch) -> None:
    def refuse(*args: object, **options: object) -> str:
        raise ValueError("hash of downloaded file does not match")

    monkeypatch.setattr(pooch, "retrieve", refuse)
    with pytest.raises(DataError, match=r"checksum differs.*SPARSEFIELD_DATA"):
        load_dataset("plants")


def test_a_file_with_other_cells_is_refused(folder: Path) -> None:
    (folder / "debd" / "nltcs" / "valid.csv").write_text("0,2,1\n")
    with pytest.raises(DataError, match=r"valid\.csv.*other than 0 and 1"):
        load_dataset("nltcs")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(DataError, match="no data set called 'wine'; there are animals, nltcs, plants, dna"):
        load_dataset("wine")


def test_the_named_folder_must_exist(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SPARSEFIELD_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="not a folder"):
        data_folder()


def test_no_variable_means_no_folder(monkeypatch) -> None:
    monkeypatch.delenv("SPARSEFIELD_DATA", raising=False)
    assert data_folder() is None


def test_real_data_have_their_known_sizes() -> None:
    if data_folder() is None:
        pytest.skip("SPARSEFIELD_DATA is not set")
    animals, plants = load_dataset("animals"), load_dataset("plants")
    assert isinstance(animals, Animals)
    assert isinstance(plants, Splits)
    assert animals.frame.shape == (50, 85)
    assert int(animals.frame.to_numpy().sum()) == 1562
    assert [len(part) for part in (plants.train, plants.valid, plants.test)] == [17412, 2321, 3482]

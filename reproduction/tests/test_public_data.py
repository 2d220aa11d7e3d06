"""Datasets are read from the local folder first, downloaded otherwise, and checked in both cases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pooch
import pytest

from reproduction import public_data
from reproduction.public_data import Animals, Nations, Splits, data_folder, load_dataset
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
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Unset the folder and serve downloads from this dict of URLs and contents."""
    contents: dict[str, str] = {}

    def retrieve(url: str, known_hash: str | None, fname: str, path: Path) -> str:
        if url not in contents:
            raise OSError("no network")
        assert known_hash is None or known_hash.startswith("sha256:")
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


def test_downloaded_animals_equal_those_in_the_folder(folder: Path, monkeypatch, downloads) -> None:
    monkeypatch.setenv("SPARSEFIELD_DATA", str(folder))
    local = load_dataset("animals")
    monkeypatch.delenv("SPARSEFIELD_DATA")
    url = public_data.ASSETS_URL.format(name="animals")
    downloads[url] = "1,stripes,zebra\n0,stripes,antelope\n1,big,antelope\n0,big,zebra\n"
    downloaded = load_dataset("animals")
    assert downloaded.frame.equals(local.frame)
    assert downloaded.names == local.names


def test_splits_have_their_own_rows(folder: Path) -> None:
    splits = load_dataset("nltcs")
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [1, 2, 3]
    assert splits.train.dtype == np.int8


def test_files_missing_from_the_folder_are_downloaded(folder: Path, monkeypatch, downloads) -> None:
    monkeypatch.setenv("SPARSEFIELD_DATA", str(folder))
    for split in public_data.SPLITS:
        downloads[public_data.SPLITS_URL.format(name="dna", split=split)] = "1,0\n"
    with pytest.raises(DataError, match="checksum differs"):
        load_dataset("dna")
    monkeypatch.setitem(public_data.SPLIT_TABLES, "dna", (public_data.blob_id(b"1,0\n"),) * 3)
    assert load_dataset("dna").test.tolist() == [[1, 0]]


def test_the_files_at_hand_have_the_ids_that_git_gives_them() -> None:
    if (folder := data_folder()) is None:
        pytest.skip("SPARSEFIELD_DATA is not set")
    assert len(public_data.SPLIT_TABLES) == 20
    for split, blob in zip(public_data.SPLITS, public_data.SPLIT_TABLES["nltcs"], strict=True):
        assert public_data.blob_id((folder / "debd" / "nltcs" / f"{split}.csv").read_bytes()) == blob


def test_a_failed_download_names_the_environment_variable(downloads) -> None:
    with pytest.raises(DataError, match=r"cannot be reached.*SPARSEFIELD_DATA"):
        load_dataset("plants")


def test_a_wrong_checksum_is_reported(downloads, monkeypatch) -> None:
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
    with pytest.raises(DataError, match="no dataset called 'wine'; choose from animals, nations, nltcs, msnbc, kdd"):
        load_dataset("wine")


def test_the_named_folder_must_exist(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SPARSEFIELD_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="not a folder"):
        data_folder()


def test_real_data_have_their_known_sizes() -> None:
    if data_folder() is None:
        pytest.skip("SPARSEFIELD_DATA is not set")
    animals, plants = load_dataset("animals"), load_dataset("plants")
    assert isinstance(animals, Animals)
    assert isinstance(plants, Splits)
    assert animals.frame.shape == (50, 85)
    assert int(animals.frame.to_numpy().sum()) == 1562
    assert [len(part) for part in (plants.train, plants.valid, plants.test)] == [17412, 2321, 3482]


NATION_LINES = """1,rich,Peru
0,rich,Chad
1,big,Chad
1,exports,Peru,Chad
0,exports,Chad,Peru
0,warns,Chad,Peru
1,big,Mali
"""


@pytest.fixture
def nations(downloads: dict[str, str]) -> Nations:
    downloads[public_data.ASSETS_URL.format(name="nations")] = NATION_LINES
    return load_dataset("nations")


def test_nations_are_sorted_and_have_nulls_for_unknown_cells(nations: Nations) -> None:
    assert nations.nations.columns == ["nation", "big", "rich"]
    assert nations.nations.rows() == [("Chad", 1, 0), ("Mali", 1, None), ("Peru", None, 1)]
    assert nations.relations.columns == ["subject", "object", "exports", "warns"]
    assert nations.relations.rows() == [("Chad", "Peru", 0, 0), ("Peru", "Chad", 1, None)]


def test_nations_in_the_folder_equal_those_downloaded(nations: Nations, tmp_path: Path, monkeypatch) -> None:
    nations.nations.reverse().select("rich", "nation", "big").write_csv(tmp_path / "nations.csv")
    nations.relations.reverse().write_csv(tmp_path / "nations_relations.csv")
    monkeypatch.setenv("SPARSEFIELD_DATA", str(tmp_path))
    monkeypatch.setattr(pooch, "retrieve", None)
    local = load_dataset("nations")
    assert local.nations.equals(nations.nations)
    assert local.relations.equals(nations.relations)


def test_in_a_closed_world_of_nations_unknown_cells_are_false(nations: Nations) -> None:
    data = nations.closed_world()
    assert data.tables["nation"].rows() == [("Chad", 1, 0), ("Mali", 1, 0), ("Peru", 0, 1)]
    assert data.tables["pair"].height == 9
    assert data.tables["pair"].null_count().sum_horizontal().item() == 0
    assert data.tables["pair"].filter(exports=1).rows() == [("Peru", "Chad", 1, 0)]
    assert [rows.tolist() for rows in data.linked_rows("object")] == [list(range(9)), [0, 1, 2] * 3]


def test_nations_with_cells_other_than_0_and_1_are_refused(downloads: dict[str, str]) -> None:
    downloads[public_data.ASSETS_URL.format(name="nations")] = NATION_LINES + "2,warns,Peru,Chad\n"
    with pytest.raises(DataError, match=r"nations\.unary\.obs.*other than 0 and 1"):
        load_dataset("nations")


def test_the_real_nations_have_their_known_sizes(public_data: Path, monkeypatch) -> None:
    if not (public_data / "nations.csv").is_file():
        pytest.skip("no nations in the folder of public data")
    monkeypatch.setenv("SPARSEFIELD_DATA", str(public_data))
    nations = load_dataset("nations")
    assert nations.nations.shape == (14, 112)
    assert nations.relations.shape == (182, 58)
    assert nations.relations.null_count().sum_horizontal().item() == 435
    tables = nations.closed_world().tables
    cells = [tables["nation"].drop("nation").to_numpy(), tables["pair"].drop("subject", "object").to_numpy()]
    assert sum(part.size for part in cells) == 12_530
    assert sum(int(part.sum()) for part in cells) == 2_565

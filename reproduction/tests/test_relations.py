"""Data sets of relations, read from triples and from MATLAB files, and their table."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.io import savemat

from reproduction import relations
from sparsefield.errors import DataError


@pytest.fixture
def cells() -> np.ndarray:
    """Ten people, of whom each is the parent of the next two, and grandparents."""
    parent = np.eye(10, k=1) + np.eye(10, k=2)
    return np.stack([parent, np.minimum(parent @ parent, 1.0), np.zeros((10, 10))], axis=2)


def test_triples_and_arrays_are_the_same_pairs(cells, tmp_path) -> None:
    i, j, r = np.nonzero(cells)
    names = np.array(["child", "grandchild", "never"])
    keys = np.array([f"p{k}" for k in range(10)])
    triples = pl.DataFrame({"subject": keys[i], "relation": names[r], "object": keys[j]})
    savemat(tmp_path / "uml.mat", {"Rs": cells.astype(np.uint8), "names": keys})
    one = relations.pairs_of_triples(triples).tables["pair"]
    other = relations.pairs_of_array(relations.read_array(tmp_path / "uml.mat")).tables["pair"]
    assert one.columns == ["subject", "object", "child", "grandchild"]  # what never holds cannot be predicted
    assert (one.drop("subject", "object").to_numpy() == other.drop("subject", "object").to_numpy()).all()
    assert one["child"].to_numpy().reshape(10, 10).tolist() == cells[:, :, 0].tolist()


def test_files_of_another_form_are_refused(cells, tmp_path) -> None:
    savemat(tmp_path / "numbers.mat", {"Rs": 3.5 * cells})
    savemat(tmp_path / "flat.mat", {"R": cells[:, :, 0]})
    (tmp_path / "text.mat").write_text("no matrix")
    for name in ("numbers", "flat", "text"):
        with pytest.raises(DataError, match=f"{name}.mat"):
            relations.read_array(tmp_path / f"{name}.mat")


def test_the_table_has_ours_the_model_run_here_and_cited_ones(cells, run, monkeypatch) -> None:
    monkeypatch.setattr(relations, "load_relations", lambda name: relations.pairs_of_array(cells.astype(np.int8)))
    code, printed, _ = run("relations", "--data", "kinship", "--folds", "2", "--irm")
    assert code == 0
    for words in ("sparsefield, auto", "IRM, run here", "RESCAL, cited", "0.950", "-0.029"):
        assert words in printed
    assert run("relations", "--data", "kin")[0] != 0

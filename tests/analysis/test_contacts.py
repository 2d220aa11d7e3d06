"""Alignments, weights of sequences, and scores of contacts."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from benchmarks.potts import make_potts
from sparsefield import MarkovField, Solver, contacts, read_alignment, sequence_weights
from sparsefield.errors import DataError

# Contacts are ranked by their scores.
pytestmark = pytest.mark.filterwarnings("ignore:The table is too wide for tests of edges")

ROWS = [tuple("MKV-"), tuple("M-VY")]
FILES = {
    "fasta": ">a one\nMK\nV-\n>b\nM-VY\n",
    "a3m": ">a\nMKV-\n>b\nMacd-VY\n",
    "a2m": ">a\nMK..V-\n>b\nM-acVY\n",
    "small letters": ">a\nmkv-\n>b\nm-vy\n",
    "unknown residues": ">a\nMKV*\n>b\nMXVY\n",
    "stockholm": "# STOCKHOLM 1.0\n#=GF ID x\na MK\nb M-\n#=GC SS HH\n\na V-\nb VY\n//\n",
    "clustal": "CLUSTAL W\n\na  MK 2\nb  M- 1\n   *\n\na  V- 3\nb  VY 3\n   *\n",
    "aln": "MKV-\nM-VY\n",
}


@pytest.mark.parametrize("form", FILES)
def test_alignments_are_read(tmp_path, form) -> None:
    path = tmp_path / "family"
    path.write_text(FILES[form])
    frame = read_alignment(path)
    assert frame.columns == ["1", "2", "3", "4"]
    assert frame.rows() == ROWS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (">a\nMKV\n>b\nMK\n", "line 3 has 2 positions, the first one 3"),
        ("# STOCKHOLM 1.0\na MKV\nb M7V\n", "sequence of b has '7'"),
        (">a\n>b\n", "line 1 has 0 positions"),
        ("\n", "no sequence"),
    ],
)
def test_damaged_alignments_are_refused_by_line(tmp_path, text, words) -> None:
    path = tmp_path / "family"
    path.write_text(text)
    with pytest.raises(DataError, match=words):
        read_alignment(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_alignment(tmp_path / "nothing")


def test_weights_count_similar_sequences() -> None:
    rng = np.random.default_rng(0)
    letters = np.repeat(rng.choice(list("ACD-"), (20, 30)), 3, axis=0)
    changed = rng.random(letters.shape) < 0.2
    letters[changed] = rng.choice(list("ACD-"), changed.sum())
    similar = [[np.mean(one == other) >= 0.8 for other in letters] for one in letters]
    np.testing.assert_allclose(sequence_weights(letters), 1.0 / np.sum(similar, axis=1))
    with pytest.raises(ValueError, match="identity must be a share"):
        sequence_weights(letters, identity=80)


def test_scores_are_corrected_norms_of_couplings_that_sum_to_zero() -> None:
    made = make_potts(9, 300, sweeps=20, seed=2)
    field = MarkovField(l1=3.0, solver=Solver(max_iter=30, certify=False)).fit(made.samples)
    table, norms = field.features_, np.zeros((9, 9))
    for i, j in combinations(range(9), 2):
        coupling = np.zeros((20, 20))
        letters = "ACDEFGHIKLMNPQRSTVWY"
        for a, s, b, t, weight in table.rows():
            a, s, b, t = (a, s, b, t) if int(a[1:]) < int(b[1:]) else (b, t, a, s)
            if (a, b) == (f"x{i}", f"x{j}") and "-" not in (s, t):
                coupling[letters.index(s), letters.index(t)] += weight
        coupling = coupling[np.ix_(*(np.isin(list(letters), made.samples[:, k]) for k in (i, j)))]
        coupling -= coupling.mean(axis=0)
        coupling -= coupling.mean(axis=1, keepdims=True)
        norms[i, j] = norms[j, i] = np.sqrt(np.square(coupling).sum())
    means = norms.sum(axis=1) / 8
    scores = norms - np.outer(means, means) / means.mean()
    found = contacts(field, separation=2)
    assert len(found) == 28
    assert (np.diff(found["score"]) <= 0).all()
    for a, b, score in found.rows():
        assert int(b[1:]) - int(a[1:]) >= 2
        assert score == pytest.approx(scores[int(a[1:]), int(b[1:])], abs=1e-10)


def test_planted_contacts_are_found() -> None:
    made = make_potts(20, 2000, contacts=0.6, strength=1.0, sweeps=50, seed=1)
    assert all(int(b[1:]) - int(a[1:]) >= 5 for a, b in made.edges)
    field = MarkovField(l1=12.0).fit(made.samples, sample_weight=sequence_weights(made.samples))
    best = {(a, b) for a, b, _ in contacts(field).rows()[: len(made.edges)]}
    assert len(best & set(made.edges)) >= 0.9 * len(made.edges)


def test_contacts_of_numbers_are_refused() -> None:
    field = MarkovField(l1=5.0).fit(np.random.default_rng(0).normal(size=(60, 3)))
    with pytest.raises(DataError, match="nominal columns of one table"):
        contacts(field)

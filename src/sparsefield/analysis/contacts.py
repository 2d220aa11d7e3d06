"""Contacts of proteins: alignments of sequences, weights of similar ones, and scores of pairs of positions.

A field over the positions of an alignment is a Potts model. Its couplings are strong where two residues touch; their
norms are corrected for positions that are coupled to all others (Dunn, Wahl and Gloor, 2008).
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsefield.data import as_source
from sparsefield.data.frame_building import Frame, make_frame
from sparsefield.errors import DataError
from sparsefield.estimators import FieldEstimator
from sparsefield.estimators.field_estimator import fitted_field
from sparsefield.model import Field

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
GAP = "-"
BLOCK_ROWS = 1024
"""Sequences that are compared with all others at a time."""


def read_alignment(path: str | os.PathLike[str]) -> Frame:
    """Read an alignment of proteins: FASTA, A2M and A3M, Stockholm, Clustal, or a sequence per line (aln).

    Insertions, which A2M and A3M write in small letters, are left out where the sequences have columns in capital
    letters besides. Residues other than the twenty become gaps.

    Parameters
    ----------
    path : path of a text file

    Returns
    -------
    frame
        A row for each sequence, and a column for each position, "1", "2" and so on, of letters and "-".

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".a3m") as file:
    ...     print(">one\\nMKV-\\n>two\\nMRaVX", file=file, flush=True)
    ...     read_alignment(file.name).rows()
    [('M', 'K', 'V', '-'), ('M', 'R', 'V', '-')]
    """
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: not a text file: decompress it first.") from None
    filled = [(number, line.rstrip()) for number, line in enumerate(lines, 1) if line.strip()]
    first = filled[0][1] if filled else ""
    sequences: dict[Any, str] = {}
    if first.startswith(">"):
        name = 0
        for number, line in filled:
            name = number if line.startswith(">") else name
            sequences[name] = sequences.get(name, "") + ("" if line.startswith(">") else line.strip())
    elif first.startswith(("# STOCKHOLM", "CLUSTAL")):  # lines of a name and a part of its sequence
        for _, line in filled[1:]:
            if not re.match(r"[#/\s]", line) and len(words := line.split()) > 1:
                sequences[words[0]] = sequences.get(words[0], "") + words[1]
    else:
        sequences = {number: line.strip() for number, line in filled}
    if not sequences:
        raise DataError(f"{path}: there is no sequence in this file.")
    if any(re.search("[A-Z]", sequence) for sequence in sequences.values()):
        sequences = {name: re.sub(r"[a-z.]", "", sequence) for name, sequence in sequences.items()}
    length = len(next(iter(sequences.values())))
    for name, sequence in sequences.items():
        where = f"line {name}" if isinstance(name, int) else name
        if odd := re.search(r"[^A-Za-z*.~-]", sequence):
            raise DataError(f"{path}: the sequence of {where} has {odd.group()!r}: give letters and '-' for gaps.")
        if len(sequence) != length or not length:
            raise DataError(f"{path}: the sequence of {where} has {len(sequence)} positions, the first one {length}.")
    text = re.sub(f"[^{RESIDUES}]", GAP, "".join(sequences.values()).upper())
    letters = np.array(list(text)).reshape(len(sequences), length)
    return make_frame({str(k + 1): letters[:, k] for k in range(length)}, "polars")


def sequence_weights(X: Any, identity: float = 0.8) -> np.ndarray:
    """Return the weights of aligned sequences, (rows,): one over the number of similar ones, itself included.

    Related sequences are copies rather than independent rows; the sum of the weights is the effective number of rows.

    Parameters
    ----------
    X : frame or array of letters
    identity : share of equal positions at which sequences are similar

    Examples
    --------
    >>> sequence_weights(np.array([list("ACDEF"), list("ACDEG"), list("WYWYW")]))
    array([0.5, 0.5, 1. ])
    """
    if not 0.0 < identity <= 1.0:
        raise ValueError(f"identity must be a share above 0, at most 1, got {identity!r}.")
    source = as_source(X)
    codes = np.column_stack([source.categories(name).codes for name in source.names])
    states = [codes == state for state in range(-1, int(codes.max(initial=0)) + 1)]
    coded = np.concatenate([state[:, state.any(axis=0)] for state in states], axis=1).astype(np.float32)
    counts = np.empty(len(coded))
    for start in range(0, len(coded), BLOCK_ROWS):
        equal = coded[start : start + BLOCK_ROWS] @ coded.T
        counts[start : start + BLOCK_ROWS] = (equal >= identity * codes.shape[1] - 1e-3).sum(axis=1)
    return 1.0 / counts


def contacts(field: FieldEstimator | Field, *, separation: int = 5, gap: Any = GAP) -> Frame:
    """Return how strongly the positions of an alignment are coupled: those in contact first.

    The score is the Frobenius norm of the couplings of two positions, in the gauge in which they sum to zero over the
    states of either, minus the average product correction.

    Parameters
    ----------
    field : fitted estimator, or its field
        Over nominal columns, in the order of the alignment.
    separation : least distance of two columns in that order, in columns
    gap : label of gaps, whose couplings do not count

    Returns
    -------
    frame
        A row for each pair of columns: column_a, column_b, score; the largest score first.

    Examples
    --------
    >>> from sparsefield.app.datasets import make_markov_field
    >>> made = make_markov_field(12, 1, states=5, neighbors=1.0, burn_in=1, seed=1)
    >>> best = contacts(made.field, separation=1).rows()[: len(made.edges)]
    >>> {(a, b) for a, b, score in best} == set(made.edges)
    True
    """
    fitted = fitted_field(field)
    schema, layout = fitted.schema, fitted.layout
    if layout.neighbor_views or any(variable.ordered for variable in schema.targets):
        raise DataError("contacts are of nominal columns of one table: fit a field to the letters of an alignment.")
    place = {name: k for k, name in enumerate(schema.order)}
    targets = [variable for variable in schema.targets if variable.role == "target"]
    number, n = [place[variable.name] for variable in targets], len(schema.order)
    norms, owner, first = np.zeros((n, n)), schema.variable_of_column, schema.offsets
    chosen = (owner[fitted.pairs] < len(targets)).all(axis=1)
    pairs, weights = fitted.pairs[chosen], fitted.weights[chosen]
    matrix = sp.csr_array((weights, pairs.T), shape=(schema.n_columns, schema.n_columns))
    for a, b in np.unique(owner[pairs], axis=0).tolist():
        coupling = matrix[first[a] : first[a + 1], first[b] : first[b + 1]].toarray()
        kept = [[label != gap for label in targets[v].states] for v in (a, b)]
        coupling = (targets[a].coded @ coupling @ targets[b].coded.T)[np.ix_(*kept)]
        coupling = coupling - coupling.mean(axis=0) - coupling.mean(axis=1, keepdims=True) + coupling.mean()
        norms[number[a], number[b]] = norms[number[b], number[a]] = np.linalg.norm(coupling)
    own = np.sort(number)
    norms = norms[np.ix_(own, own)]
    means, mean = norms.sum(axis=1) / max(len(own) - 1, 1), norms.sum() / max(len(own) * (len(own) - 1), 1)
    scores = norms - np.outer(means, means) / max(mean, np.finfo(float).tiny)
    left, right = np.triu_indices(len(own), max(separation, 1))
    best = np.argsort(-scores[left, right], kind="stable")
    names = np.array([str(schema.order[k]) for k in own], dtype=object)
    columns = {"column_a": names[left[best]].tolist(), "column_b": names[right[best]].tolist()}
    return make_frame(columns | {"score": scores[left, right][best]}, "polars")

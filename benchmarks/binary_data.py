"""This module makes dense and sparse 0/1 data on which learners of binary fields are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.ising import draw_ising
from benchmarks.planted import draw_planted

__all__ = ["DRAW", "BinaryData"]

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class BinaryData:
    """0/1 rows are drawn from a known field and split three ways.

    Attributes
    ----------
    name : str
    train : array or CSR matrix (rows, nodes)
        In the form that every method gets.
    validation, held_out : array (rows, nodes) of int8
    biases : array (nodes,)
    weights : array (nodes, nodes)
        Symmetric, 0 where there is no edge.
    """

    name: str
    train: Any
    validation: Array
    held_out: Array
    biases: Array
    weights: Array


def _draw_dense(nodes: int, split: tuple[int, int, int], seed: int) -> BinaryData:
    data = draw_ising(nodes, sum(split), seed=seed)
    train, validation, held_out = np.split(data.samples, np.cumsum(split)[:2])
    return BinaryData(f"Ising N={nodes}", train, validation, held_out, data.biases, data.weight_matrix())


def _draw_sparse(nodes: int, split: tuple[int, int, int], seed: int) -> BinaryData:
    on = max(5.0, 0.015 * nodes) if nodes >= 40 else 0.1 * nodes
    data = draw_planted(nodes, split[0], on=on, held_out=split[1] + split[2], seed=seed)
    validation, held_out = np.split(data.held_out.toarray(), [split[1]])
    weights = data.weight_matrix().toarray()
    return BinaryData(f"sparse N={nodes}", data.matrix, validation, held_out, data.biases, weights)


DRAW: dict[str, Callable[[int, tuple[int, int, int], int], BinaryData]] = {
    "dense": _draw_dense,
    "sparse": _draw_sparse,
}

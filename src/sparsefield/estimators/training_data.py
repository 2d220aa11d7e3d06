"""This module defines what a fit starts from: compiled tables, and where their rows are."""

from __future__ import annotations

from dataclasses import dataclass

from sparsefield.compute import Engine
from sparsefield.data import Dataset
from sparsefield.solver import WarmStart

__all__ = ["TrainingData"]


@dataclass(frozen=True)
class TrainingData:
    """Compiled tables of one fit.

    Attributes
    ----------
    dataset : Dataset
    kind : str
        Kind of the tables that the user passed: "array", "sparse" or the name of a frame library.
    engine : Engine or None
        An open engine that holds the rows already; None if the fit opens its own.
    start : WarmStart or None
        Initial weights of latent variables.
    without_latent : Dataset or None
        The tables without latent variables, on which l1 is selected. A path starts where all weights are 0, and from
        there the states of a latent variable would never become different.
    """

    dataset: Dataset
    kind: str
    engine: Engine | None = None
    start: WarmStart | None = None
    without_latent: Dataset | None = None

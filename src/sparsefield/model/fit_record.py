"""This module defines the record of a fit: options, outcome, iterations, regularization path and stability."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self

from sparsefield.model.record_checks import check_record


@dataclass(frozen=True)
class IterationRecord:
    """One line of the training log."""

    iteration: int
    objective: float
    """Loss and penalties, a sum over rows."""
    loss: float
    l1_norm: float
    features: int
    """Size of the working set."""
    active: int
    """Size of the active set: features with a weight other than 0."""
    phase: str
    """``"biases"``, ``"induce"``, ``"optimize"``, ``"certify"`` or ``"path"``."""
    seconds: float | None = None
    """Time since the fit began. It differs between runs, so model files do not contain it."""
    scoring_seconds: float | None = None
    """Time spent on scoring candidates so far; not in model files."""
    traffic: int | None = None
    """Bytes sent to and from the workers of a cluster so far, without the rows themselves; not in model files."""

    def as_row(self) -> dict[str, float | int | str]:
        """Return the values that are known, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def without_timing(self) -> IterationRecord:
        """Return the record without the values that differ between two runs of the same fit."""
        return replace(self, seconds=None, scoring_seconds=None, traffic=None)


@dataclass(frozen=True)
class PathRow:
    """One value of l1 on a regularization path."""

    l1: float
    features: int
    """Features of two and more columns in the field at this l1."""
    score: float
    """Larger is better."""
    error: float
    """Standard error of the score; NaN where there is a single score."""
    selected: bool


@dataclass(frozen=True)
class LeftOutFeature:
    """A feature that is not in the field although many resamples select it."""

    columns: tuple[int, ...]
    weight: float
    """Mean weight over the resamples that select it."""
    frequency: float


@dataclass(frozen=True)
class StabilityRecord:
    """The outcome of stability selection."""

    frequencies: tuple[float, ...]
    """(features,): share of the resamples that selected each feature of the field."""
    resamples: int
    seed: int
    l1: float
    halved: Literal["rows", "components", "linked rows"]
    """The unit that was halved; connected components of linked rows where these are small."""
    given_graph: bool
    """Whether the candidates were a given graph."""
    mean_pairs: float
    """Mean number of pairs that a resample selects."""
    left_out: tuple[LeftOutFeature, ...] = ()


@dataclass(frozen=True)
class WideColumns:
    """Columns that depend on each other too widely for the exact likelihood."""

    columns: tuple[str, ...]
    """Names; with their table, as in "person.age", if there are several."""
    table_size: int
    """Joint states of the first table that is beyond the limit."""


@dataclass(frozen=True)
class LikelihoodRecord:
    """How weights were estimated by the exact likelihood."""

    max_cells: int
    """Limit of the joint states of a table."""
    selected_by: Literal["ml", "pl", "cd"]
    """The objective that selected the features: that of the likelihood itself, or of a fit before it."""
    wide: tuple[WideColumns, ...] = ()
    """Connected components that keep the weights of the fit before."""


@dataclass(frozen=True)
class FitRecord:
    """What is known of the fit that produced a field; all defaults for a field that was given, not learned."""

    version: str = ""
    """Version of sparsefield that produced the field."""
    n_rows: int = 0
    l1: float | None = None
    objective: float | None = None
    """Loss and penalties at the end, a sum over rows; before a refit."""
    kkt_violation: float | None = None
    """Largest violation of the optimality conditions over all candidates; before a refit."""
    converged: bool = False
    mc_error: float | None = None
    """Monte Carlo error of the weights, in standard errors; 0 where no cell was missing, None if it is not known."""
    refit: bool = False
    iterations: tuple[IterationRecord, ...] = ()
    path: tuple[PathRow, ...] = ()
    """The values of l1 that were tried; empty where l1 was given."""
    criterion: str | None = None
    """Name of the criterion that selected l1; None where l1 was given."""
    stability: StabilityRecord | None = None
    likelihood: LikelihoodRecord | None = None
    """None unless weights were estimated by the exact likelihood."""
    source: str = ""
    """How the table was read, a text of whoever read it; empty unless it is one table of a file."""

    @property
    def is_learned(self) -> bool:
        """Whether the field came from a fit."""
        return self.objective is not None

    @property
    def n_iter(self) -> int:
        """Number of iterations."""
        return len(self.iterations)

    def without_timing(self) -> FitRecord:
        """Return the record without the values that differ between two runs of the same fit."""
        return replace(self, iterations=tuple(row.without_timing() for row in self.iterations))

    def as_plain(self) -> dict[str, Any]:
        """Return the record as values that JSON can express."""
        return asdict(self) | {"iterations": [row.as_row() for row in self.iterations]}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Return the record that `as_plain` described.

        Raises
        ------
        ValueError, TypeError
            Where entries are missing or unknown, of another type, or out of range.
        """
        check_record(plain)
        plain = dict(plain)
        plain["iterations"] = tuple(IterationRecord(**row) for row in plain["iterations"])
        plain["path"] = tuple(PathRow(**row) for row in plain["path"])
        if plain["stability"] is not None:
            stability = dict(plain["stability"])
            left_out = (LeftOutFeature(**{**one, "columns": tuple(one["columns"])}) for one in stability["left_out"])
            stability |= {"frequencies": tuple(stability["frequencies"]), "left_out": tuple(left_out)}
            plain["stability"] = StabilityRecord(**stability)
        if plain["likelihood"] is not None:
            likelihood = dict(plain["likelihood"])
            wide = (WideColumns(**{**one, "columns": tuple(one["columns"])}) for one in likelihood["wide"])
            plain["likelihood"] = LikelihoodRecord(**{**likelihood, "wide": tuple(wide)})
        return cls(**plain)

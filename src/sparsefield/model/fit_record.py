"""Records of a fit: options, outcome, iterations, regularization path and stability, as model files hold them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

Count = Annotated[int, Meta(ge=0)]
NotNegative = Annotated[float, Meta(ge=0.0)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]


FALSE_DISCOVERY_RATE = 0.05
"""Share of wrong edges, at most and on average, among those that hold."""


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base class of what model files say in JSON: types, ranges and names of entries are checked when one is read."""


class IterationRecord(Record, frozen=True):
    """One line of the training log."""

    iteration: Count
    objective: float
    """Loss and penalties, a sum over rows."""
    loss: float
    l1_norm: NotNegative
    features: Count
    """Size of the working set."""
    active: Count
    """Size of the active set: features with a weight other than 0."""
    phase: str
    """``"biases"``, ``"induce"``, ``"optimize"``, ``"certify"`` or ``"path"``."""
    seconds: NotNegative | None = None
    """Time since the fit began. It differs between runs, so model files do not contain it."""
    scoring_seconds: NotNegative | None = None
    """Time spent on scoring candidates so far; not in model files."""

    def without_timing(self) -> IterationRecord:
        """Return the record without the values that differ between two runs of the same fit."""
        return replace(self, seconds=None, scoring_seconds=None)


class PathRow(Record, frozen=True):
    """One value of l1 on a regularization path."""

    l1: NotNegative
    features: Count
    """Features of two and more columns in the field at this l1."""
    score: float
    """Larger is better."""
    error: NotNegative | None
    """Standard error of the score; None where there is a single score."""
    selected: bool


class StabilityRecord(Record, frozen=True, forbid_unknown_fields=False):  # early files also list other features
    """The outcome of stability selection."""

    frequencies: tuple[Share, ...]
    """(features,): share of the resamples that selected each feature of the field."""
    resamples: Count
    seed: Count
    l1: NotNegative
    halved: Literal["rows", "components", "linked rows"]
    """The unit that was halved; connected components of linked rows where these are small."""
    given_graph: bool
    """Whether the candidates were a given graph."""
    mean_pairs: NotNegative
    """Mean number of pairs that a resample selects."""


class EdgeEvidence(Record, frozen=True):
    """How sure the edges of a field are: the tests that they are not needed beside all others."""

    edges: tuple[tuple[Count, Count], ...]
    """Numbers of the variables of each edge of the field, ascending."""
    p_values: tuple[Share, ...]
    q_values: tuple[Share, ...]
    """The least false discovery rate among all tested edges at which each edge holds (Benjamini and Hochberg)."""
    tested: Count
    """Number of tested edges: all that the table could have."""

    @property
    def n_holding(self) -> int:
        """Number of edges that hold at `FALSE_DISCOVERY_RATE`."""
        return sum(q_value <= FALSE_DISCOVERY_RATE for q_value in self.q_values)


class WideColumns(Record, frozen=True):
    """Columns that depend on each other too widely for the exact likelihood."""

    columns: tuple[str, ...]
    """Names; with their table, as in "person.age", if there are several."""
    table_size: Count
    """Joint states of the first table that is beyond the limit."""


class LikelihoodRecord(Record, frozen=True):
    """How weights were estimated by the exact likelihood."""

    max_cells: Count
    """Limit of the joint states of a table."""
    selected_by: Literal["ml", "pl", "cd"]
    """The objective that selected the features: that of the likelihood itself, or of a fit before it."""
    wide: tuple[WideColumns, ...] = ()
    """Connected components that keep the weights of the fit before."""


class FitRecord(Record, frozen=True):
    """What is known of the fit that produced a field; all defaults for a field that was given, not learned."""

    version: str = ""
    """Version of sparsefield that produced the field."""
    n_rows: Count = 0
    l1: NotNegative | None = None
    objective: float | None = None
    """Loss and penalties at the end, a sum over rows; before a refit."""
    kkt_violation: NotNegative | None = None
    """Largest violation of the optimality conditions over all candidates; before a refit."""
    converged: bool = False
    mc_error: NotNegative | None = None
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
    evidence: EdgeEvidence | None = None
    """None where there are no tests: see `MarkovField.edges_`."""
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

    def history(self) -> dict[str, list[Any]]:
        """Return the log by columns, without those that are not known."""
        columns = {name: [getattr(row, name) for row in self.iterations] for name in IterationRecord.__struct_fields__}
        return {name: values for name, values in columns.items() if not values or set(values) != {None}}

    def without_timing(self) -> FitRecord:
        """Return the record without the values that differ between two runs of the same fit."""
        return replace(self, iterations=tuple(row.without_timing() for row in self.iterations))

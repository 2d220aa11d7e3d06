"""This module defines the infinite relational model as an estimator that `evaluate` takes in the place of a field."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator

from reproduction.irm import Array, Chain, Relation, compile_problem, pad_ends, sample_chain
from sparsefield.data import Relational, Variable
from sparsefield.errors import DataError
from sparsefield.estimators import MarkovField, RelationalField
from sparsefield.solver import Solver

__all__ = ["InfiniteRelationalModel"]


@dataclass(frozen=True)
class CellGrid:
    """All cells of a table as those of one relation: of its entities, and of its columns as a further type."""

    variables: Sequence[Variable]
    types: tuple[int, ...]
    ends: Array
    """(rows, ends without the column)"""
    values: Array
    """(rows, columns): NaN where a cell is missing."""

    def cells(self, which: Array) -> tuple[Array, Array]:
        """Return the ends (cells, ends) and the values of the cells where ``which`` (rows, columns) is true."""
        rows, columns = np.nonzero(which)
        return np.column_stack([self.ends[rows], columns]), self.values[which]


@dataclass(frozen=True)
class Record:
    """What `evaluate` reads of a fit record; a sampler induces no features and has no optimality violation."""

    n_iter: int
    iterations: tuple[Any, ...] = ()
    kkt_violation: float = 0.0
    converged: bool = True


@dataclass(frozen=True)
class Fitted:
    """The layout of the tables, which defines the folds, and the record."""

    layout: Any
    record: Record


@dataclass(frozen=True)
class CellProbabilities:
    """Probabilities of the states 0 and 1 of each cell of a table; observed cells have their value."""

    variables: Sequence[Variable]
    of_one: Array
    """(rows, columns)"""

    def state_probabilities(self, column: str) -> Array:
        """Return the probabilities (rows, states) of the states of a column; that of a single state is 1."""
        place = next(k for k, variable in enumerate(self.variables) if variable.name == column)
        of_one, states = self.of_one[:, place], self.variables[place].states
        found = np.column_stack([of_one if state == 1 else 1.0 - of_one for state in states])
        return found if len(states) > 1 else np.ones_like(found)


class InfiniteRelationalModel(BaseEstimator):
    """The infinite relational model of 0/1 tables, see `reproduction.irm`.

    The rows of a table without links are entities of one type, and its columns are entities of another. A row of a
    table with links is a tuple of linked entities: the pairs of Nation are cells of a relation between two nations
    and a predicate. Missing cells are predicted in `fit` by the average over all samples of all chains.

    Parameters
    ----------
    chains : number of independent chains, from different draws of the prior
    sweeps : Gibbs sweeps of a chain over all entities; the first half is not averaged over
    random_state : seed of all chains
    kinds : not used; `evaluate` sets it
    """

    def __init__(
        self,
        chains: int = 10,
        sweeps: int = 1000,
        random_state: int = 0,
        kinds: Any = "auto",
    ) -> None:
        self.chains, self.sweeps, self.random_state = chains, sweeps, random_state
        self.kinds = kinds

    def set_params(self, **params: Any) -> InfiniteRelationalModel:
        """Set parameters; the iteration limit of a solver is the number of sweeps; without callbacks and tests."""
        renamed = {"sweeps" if name == "solver__max_iter" else name: value for name, value in params.items()}
        for name in ("solver__callbacks", "solver__test_edges"):
            renamed.pop(name, None)
        return super().set_params(**renamed)

    def fit(self, X: Any, y: Any = None, *, observed: Any = None, states: Any = None) -> InfiniteRelationalModel:
        """Run the chains on the observed cells of one frame, or of linked ones."""
        if observed:
            raise DataError("The infinite relational model predicts all columns: leave observed out.")
        self.field_ = Fitted(_layout(X, self.kinds, states), Record(self.sweeps))
        grids, n_entities = _grids(X, self.field_.layout)
        known = {name: ~np.isnan(grid.values) for name, grid in grids.items()}
        problem = compile_problem(
            n_entities, [Relation(grid.types, *grid.cells(known[name])) for name, grid in grids.items()]
        )
        missing = [pad_ends(grid.cells(~known[name])[0]) for name, grid in grids.items()]
        asked = np.repeat(np.arange(len(missing)), [len(ends) for ends in missing]), np.concatenate(missing)
        seeds = np.random.SeedSequence(self.random_state).spawn(self.chains)
        self.chains_: list[Chain] = [
            sample_chain(problem, asked, self.sweeps, self.sweeps // 2, np.random.default_rng(seed)) for seed in seeds
        ]
        mean = np.mean([chain.probabilities for chain in self.chains_], axis=0)
        self._answers = {}
        for (name, grid), part in zip(
            grids.items(), np.split(mean, np.cumsum([len(m) for m in missing])[:-1]), strict=True
        ):
            of_one = grid.values.copy()
            of_one[~known[name]] = part
            self._answers[name] = known[name], CellProbabilities(grid.variables, of_one)
        return self

    def infer(self, X: Any) -> Any:
        """Return the probabilities of all cells of the table that was fitted, or {table: probabilities}."""
        for name, grid in _grids(X, self.field_.layout)[0].items():
            if not np.array_equal(~np.isnan(grid.values), self._answers[name][0]):
                raise DataError(
                    "The infinite relational model predicts the missing cells of the table that it was fitted to."
                )
        found = {name: probabilities for name, (_, probabilities) in self._answers.items()}
        return found if isinstance(X, Relational) else next(iter(found.values()))


def _layout(X: Any, kinds: Any, states: Any) -> Any:
    """Return the layout that a field has for these tables: the order of tables and columns, and their states."""
    field: Any = RelationalField if isinstance(X, Relational) else MarkovField
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one_iteration = Solver(max_iter=1, certify=False)
        return (
            field(l1=2.0, solver=one_iteration, kinds=kinds, missing="mean-field").fit(X, states=states).field_.layout
        )


def _grids(X: Any, layout: Any) -> tuple[dict[str, CellGrid], list[int]]:
    """Return the cells of each table, and the number of entities of each type."""
    tables: Mapping[str, pl.DataFrame] = X.tables if isinstance(X, Relational) else {layout.tables[0]: X}
    schemas = dict(zip(layout.tables, layout.schemas, strict=True))
    n_entities, types = [], {}
    for name in tables:
        if not _links(X, name):
            types[name] = len(n_entities)
            n_entities.append(tables[name].height)
    grids = {}
    for name in layout.tables:
        variables = schemas[name].targets
        ends = _links(X, name)
        places = [_places(tables[name][end.column], tables[end.to], X.keys[end.to]) for end in ends]
        rows = np.column_stack(places) if ends else np.arange(tables[name].height)[:, None]
        kinds = tuple(types[end.to] for end in ends) if ends else (types[name],)
        grids[name] = CellGrid(variables, (*kinds, len(n_entities)), rows, _zero_one(name, tables[name], variables))
        n_entities.append(len(variables))
    return grids, n_entities


def _links(X: Any, name: str) -> list[Any]:
    return [link for link in X.links.values() if link.table == name] if isinstance(X, Relational) else []


def _places(ends: pl.Series, table: pl.DataFrame, key: str) -> Array:
    """Return the row of each linked entity."""
    row_of = {entity: row for row, entity in enumerate(table[key])}
    return np.array([row_of[entity] for entity in ends])


def _zero_one(name: str, table: pl.DataFrame, variables: Sequence[Variable]) -> Array:
    for variable in variables:
        if not set(variable.states) <= {0, 1}:
            where = f"table '{name}', column '{variable.name}'" if name else f"column '{variable.name}'"
            raise DataError(f"The infinite relational model needs cells of 0 and 1; {where} has others: leave it out.")
    return table.select(pl.col(variable.name).cast(pl.Float64) for variable in variables).to_numpy().copy()

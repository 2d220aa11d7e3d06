"""This module evaluates the pseudo-likelihood of fixed features with an L2 penalty, for many weightings of the rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sparsefield.data import Arcs, Block, Layout, SparseDataset, Table
from sparsefield.data.memory import refuse_beyond_memory
from sparsefield.data.table import cut_into_blocks, dense_bytes, join_blocks, missing_cells
from sparsefield.kernels.batched_errors import weighted_errors
from sparsefield.model import Field
from sparsefield.objectives.variable_regressions import (
    VariableRegression,
    column_designs,
    regression_hessian,
    variable_regressions,
)

FLOAT = np.float32
"""Type of the numbers in batches: rounding errors are far below the tolerance of the weights."""

KEPT_NUMBERS = 2**16
"""Size of the designs of a variable up to which they are kept: those of large problems need too much memory, and take
little of the time."""

ABSENT = 1e-6
"""Number of rows that a state is given at a start where it has none, whose bias would go to minus infinity."""


@dataclass(frozen=True)
class RefitProblem:
    """The loss of a refit of fixed features: minus the pseudo-log-likelihood of rows, plus ``l2 theta^2 / 2``.

    Parameters theta are the biases of all target columns, then the weights of the features.
    """

    layout: Layout
    arcs: Arcs
    block: Block
    """All rows of the one table."""
    l2: np.ndarray
    """(parameters,)"""

    @classmethod
    def of(cls, field: Field, table: Table, l2: float, *, penalize_biases: bool = False) -> RefitProblem:
        """Return the refit of the features of a field to the rows of a table."""
        layout, schema = field.layout, table.schema
        on_biases = schema.unseen | penalize_biases
        strengths = np.concatenate([l2 * on_biases, np.full(len(field.features), float(l2))])
        return cls(layout, layout.arcs(field.features), join_blocks(table.blocks), strengths)

    @property
    def n_rows(self) -> int:
        return self.block.n_rows

    def subset(self, rows: np.ndarray) -> RefitProblem:
        """Return the refit of the same features to some rows."""
        codes = np.ascontiguousarray(self.block.codes[:, rows])
        offsets, missing_rows = missing_cells(codes)
        own = {"codes": codes, "beliefs": np.ascontiguousarray(self.block.beliefs[:, rows])}
        own |= {"weight": self.block.weight[rows], "cell_offsets": offsets, "missing_rows": missing_rows}
        return replace(self, block=self.block._replace(**own))

    @property
    def n_biases(self) -> int:
        """Number of biases, which are the first parameters."""
        return self.layout.n_target_columns

    @cached_property
    def narrow_values(self) -> np.ndarray:
        """The values of all columns in the precision of batches, (columns, rows)."""
        return self.block.beliefs.astype(FLOAT)

    @cached_property
    def conditionals(self) -> tuple[Conditional, ...]:
        """The regressions of all variables."""
        found = variable_regressions(self.layout, self.arcs, without_arcs=True)
        return tuple(Conditional(self, regression) for regression in found)

    def loss(self, theta: np.ndarray, weight: np.ndarray) -> float:
        """Return the loss at theta with weights of the rows, (rows,)."""
        return float(sum(part.loss(theta, weight) for part in self.conditionals) + 0.5 * self.l2 @ np.square(theta))

    def gradient(self, theta: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the gradient at theta with weights of the rows, (rows,)."""
        found = self.l2 * theta
        for part in self.conditionals:
            for parameters, sums in part.gradient(theta, weight):
                found[parameters] += sums
        return found

    def hessian(self, theta: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the Hessian of the loss without its penalty, (parameters, parameters)."""
        found = np.zeros((len(theta), len(theta)))
        for part in self.conditionals:
            mine = np.concatenate(part.parameters)  # no parameter is twice in the regression of one variable
            found[np.ix_(mine, mine)] += part.hessian(theta, weight)
        return found

    def scores(self, theta: np.ndarray, rows: slice) -> np.ndarray:
        """Return the gradients of the losses of single rows of weight 1, without the penalty, (parameters, rows)."""
        found = np.zeros((len(theta), len(range(self.n_rows)[rows])))
        for part in self.conditionals:
            for parameters, design, error in part.errors(theta, rows):
                found[parameters] += design * error
        return found

    def starts(self, theta: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return points (parameters, batch) near the optima for weights of the rows, from the optimum for all rows.

        Free biases of states change by the logarithms of how much more frequent their states are. Newton steps would
        take many iterations to move a bias to where the probability of an absent state is negligible.

        Parameters
        ----------
        theta : (parameters,)
        weights : (rows, batch)
        """
        found = np.repeat(theta[:, None], weights.shape[1], axis=1)
        for part in self.conditionals:
            biases, shifts = part.bias_shifts(weights)
            found[biases] += np.where(self.l2[biases] == 0.0, 1.0, 0.0)[:, None] * shifts
        return found

    def batch_gradient(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the gradients (parameters, batch) at points (parameters, batch), each with its weights of the rows.

        Parameters
        ----------
        thetas : (parameters, batch)
        weights : (rows, batch)
        """
        points, found = thetas.astype(FLOAT), self.l2[:, None] * thetas
        for part in self.conditionals:
            for parameters, product in part.batch_gradient(points, weights):
                found[parameters] += product
        return found


class Conditional:
    """The regression of one variable on the sources of its arcs, over the rows of a problem."""

    def __init__(self, problem: RefitProblem, regression: VariableRegression) -> None:
        layout, schema = problem.layout, problem.layout.schemas[0]
        variable = schema.targets[regression.target]
        self._problem, self._regression = problem, regression
        self._coded, self._log_base = variable.coded.T, variable.log_base
        self._n_scores, self._has_reference = variable.n_scores, variable.has_reference
        self._present = problem.block.codes[regression.target] >= 0
        self._values = problem.block.beliefs[regression.columns]
        self.parameters = tuple(
            np.append(layout.n_target_columns + problem.arcs.feature[mine], bias)
            for bias, mine in enumerate(regression.arcs, start=regression.columns.start)
        )
        """For each column, the numbers in theta of the weights of its arcs, and of its bias."""
        self._biases = np.array([mine[-1] for mine in self.parameters], dtype=np.int64)
        self._with_arcs = [c for c, mine in enumerate(self.parameters) if len(mine) > 1]

    def _designs(self, values: np.ndarray) -> list[np.ndarray]:
        """Return the design of each column, from the values of the columns in some rows."""
        return column_designs(self._problem.layout, self._regression, self._problem.arcs, values)

    @cached_property
    def _kept_designs(self) -> list[np.ndarray] | None:
        size = sum(map(len, self.parameters)) * self._problem.n_rows
        return self._designs(self._problem.block.beliefs) if size <= KEPT_NUMBERS else None

    def _own_designs(self) -> list[np.ndarray]:
        """Return the design of each column in all rows of the problem."""
        kept = self._kept_designs
        return self._designs(self._problem.block.beliefs) if kept is None else kept

    def loss(self, theta: np.ndarray, weight: np.ndarray) -> float:
        """Return minus the weighted sum of the log-probabilities of the observed cells."""
        logits = self._logits(theta, self._own_designs())
        top = logits.max(axis=0)
        normalizers = top + np.log(np.exp(logits - top).sum(axis=0))
        codes = np.maximum(self._problem.block.codes[self._regression.target], 0)
        return float((weight * self._present) @ (normalizers - logits[codes, np.arange(len(codes))]))

    def errors(self, theta: np.ndarray, rows: slice) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield for each column its parameters, its design and its errors E[t | others] - t, 0 for missing cells."""
        designs = self._designs(self._problem.block.beliefs[:, rows])
        expected = self._coded @ _softmax(self._logits(theta, designs))
        errors = (expected - self._values[:, rows]) * self._present[rows]
        yield from zip(self.parameters, designs, errors, strict=True)

    def gradient(self, theta: np.ndarray, weight: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield parameters, and their gradients: the biases, then the weights of each column."""
        designs = self._own_designs()
        expected = self._coded @ _softmax(self._logits(theta, designs))
        errors = (expected - self._values) * (weight * self._present)
        yield self._biases, errors.sum(axis=1)
        for c in self._with_arcs:
            yield self.parameters[c][:-1], designs[c][:-1] @ errors[c]

    def bias_shifts(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the biases of states, and how their log-frequencies (biases, batch) differ from those of all rows.

        Frequencies are relative to that of the reference state, or to all rows where there is none.
        """
        biases = self._biases[self._n_scores :]
        weights = np.column_stack([self._problem.block.weight, weights]) * self._present[:, None]
        counts = self._values[self._n_scores :] @ weights
        others = weights.sum(axis=0) - (counts.sum(axis=0) if self._has_reference else 0.0)
        logs = np.log(counts + ABSENT) - np.log(np.maximum(others, 0.0) + ABSENT)
        return biases, logs[:, 1:] - logs[:, :1]

    def hessian(self, theta: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the Hessian over the parameters of all columns, one after the other."""
        designs = self._own_designs()
        probabilities = _softmax(self._logits(theta, designs))
        return regression_hessian(designs, self._coded, probabilities, weight * self._present)

    def batch_gradient(self, thetas: np.ndarray, weights: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield parameters, and their gradients (parameters, batch): the biases, then the weights of each column."""
        if not self._present.all():
            weights = weights * self._present[:, None].astype(FLOAT)
        coded, with_arcs, biases = self._coded, self._with_arcs, self._biases
        designs = [design[:-1] for design in self._designs(self._problem.narrow_values) if len(design) > 1]
        errors = np.empty((len(with_arcs), *weights.shape), dtype=FLOAT)
        for k, (c, design) in enumerate(zip(with_arcs, designs, strict=True)):
            np.matmul(design.T, thetas[self.parameters[c][:-1]], out=errors[k])
        constant = self._log_base[:, None] + coded.T @ thetas[biases]
        totals, own = np.empty(constant.shape), self._narrow_values[with_arcs]
        weighted_errors(errors, coded[with_arcs].astype(FLOAT), constant.astype(FLOAT), own, weights, totals)
        yield biases, coded @ totals - self._narrow_values @ weights
        for error, c, design in zip(errors, with_arcs, designs, strict=True):
            yield self.parameters[c][:-1], design @ error

    @cached_property
    def _narrow_values(self) -> np.ndarray:
        return self._values.astype(FLOAT)

    def _logits(self, theta: np.ndarray, designs: list[np.ndarray]) -> np.ndarray:
        """Return the logits of all states, (states, rows)."""
        columns = np.repeat(theta[self._biases][:, None], designs[0].shape[1], axis=1)
        for c in self._with_arcs:
            columns[c] = theta[self.parameters[c]] @ designs[c]
        return self._coded.T @ columns + self._log_base[:, None]


def densify(sample: SparseDataset) -> Table:
    """Return a sparse table with all of its cells; a field with few parameters has few columns."""
    sparse, schema = sample.table, sample.table.schema
    what = f"{sparse.n_rows:,} rows x {schema.n_columns:,} columns"
    refuse_beyond_memory(dense_bytes(sparse.n_rows * schema.n_columns), what, lambda: "use fewer rows or columns.")
    row, column = np.repeat(np.arange(sparse.n_rows), np.diff(sparse.offsets)), sparse.columns
    codes = np.zeros((len(schema.targets), sparse.n_rows), dtype=np.int32)
    covariates = np.zeros((schema.n_columns - schema.n_target_columns, sparse.n_rows))
    own = column < schema.n_target_columns
    variable = schema.variable_of_column[column[own]]
    codes[variable, row[own]] = column[own] - schema.offsets[variable] + 1
    covariates[column[~own] - schema.n_target_columns, row[~own]] = 1.0
    blocks = cut_into_blocks(schema, codes, covariates, sparse.weight, schema.n_columns)
    return Table(schema, tuple(blocks), sparse.n_rows)


def _softmax(logits: np.ndarray) -> np.ndarray:
    states = np.exp(logits - logits.max(axis=0))
    return states / states.sum(axis=0)

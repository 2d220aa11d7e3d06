"""Variables with their states and roles, and their flat numbering: the schema of a table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import pairwise
from typing import Literal, overload

import numpy as np

from sparsefield.data.coding import PENALTY_FACTORS, Coding, ColumnClass
from sparsefield.data.column_types import ColumnType, write_distinct
from sparsefield.data.labels import Label

Role = Literal["target", "observed", "latent"]

Kind = Literal["nominal", "ordinal", "numeric"]

LARGEST_SCORE = 1e6
"""Size to which the score of a number is clipped: products with weights would overflow beyond 1e300."""

Transform = Literal["linear-scores", "normal-scores"]
"""How numbers become scores: standardized values, or normal quantiles of ranks."""

YES = re.compile(r"(?i)\s*(yes|y|true|t|ja|j|jep|oui|o|s[ií]|sim|tak|да|evet|igen|ano|da)\b")
"""How a text that says yes begins: of two states it is the upper one."""

MOST_DECIMALS = 12
"""Numbers with more decimals are results of measurements or computations that nobody rounded."""


@dataclass(frozen=True)
class Variable:
    """A column of a table: its kind, its states, and the columns of the flat numbering that code it.

    A nominal or ordinal variable has the labels that occur as states, an ordinal one in their order. The values of a
    numeric variable are grouped into levels, and its states are their means. See `Coding` for the columns.
    """

    name: str
    role: Role
    states: tuple[Label, ...] = ()
    reference: int = 0
    """The state without a column, where one has none: the most frequent one, but 0 or False of two states 0 and 1."""
    frequencies: tuple[float, ...] = ()
    center: float = 0.0
    scale: float = 1.0
    """Mean and standard deviation of a numeric variable."""
    kind: Kind = "nominal"
    symmetric: bool = False
    """Whether every state of a nominal variable of more than two states has a column."""
    scores: tuple[float, ...] = ()
    """Score of each state of an ordinal or numeric variable, with mean 0 and variance 1 over the training cells."""
    cuts: tuple[float, ...] = ()
    """The values of a numeric variable between two levels, ascending, (states - 1,)."""
    bins: tuple[int, ...] = ()
    """The bin of each level of a numeric variable: 0, 1, ..."""
    transform: Transform = "linear-scores"
    limits: tuple[float, ...] = ()
    """Smallest and largest value of a numeric variable whose levels are groups of values; else empty."""
    decimals: int | None = None
    """Decimals of the values of a numeric variable, 0 if all are whole; None if they are not rounded to decimals."""
    dtype: str = ""
    """The type of a column of dates, times, durations or categories: see `ColumnType`; empty for other columns."""
    categories: tuple[Label, ...] = ()
    """The categories of a categorical column, those that do not occur included."""

    @property
    def numeric(self) -> bool:
        return self.kind == "numeric"

    @property
    def whole(self) -> bool:
        """Whether all values of a numeric variable are whole numbers."""
        return self.decimals == 0

    @property
    def column_type(self) -> ColumnType:
        """The type of the column in tables."""
        return ColumnType(self.dtype, self.categories)

    @property
    def ordered(self) -> bool:
        """Whether the order of the states means something."""
        return self.kind != "nominal"

    @property
    def upper(self) -> int:
        """Position of the upper state of two: the higher one, one that says yes, or the last by the alphabet."""
        if self.ordered or all(isinstance(state, (int, float)) for state in self.states):
            return max(range(len(self.states)), key=(lambda k: k) if self.ordered else self.states.__getitem__)
        texts = list(map(str, self.states))
        return max(range(len(texts)), key=lambda k: (bool(YES.match(texts[k])), texts[k].casefold(), texts[k]))

    @property
    def width(self) -> int:
        return self.coded.shape[1]

    @cached_property
    def has_reference(self) -> bool:
        """Whether the reference state has no column, and every other state has one that is 1 for this state alone."""
        if self.numeric and self.role == "observed":
            return len(self.states) == 1
        return len(self.states) <= 2 or not (self.ordered or self.symmetric)

    @property
    def n_scores(self) -> int:
        """Number of columns that are scores; the indicators of states or bins follow."""
        if self.has_reference or not self.ordered:
            return 0
        return 2 if self.numeric and self.role != "observed" else 1

    @cached_property
    def indicators(self) -> np.ndarray:
        """The column that is 1 for each code, among the columns of the variable, -1 for none, (states,)."""
        if self.has_reference:
            return np.arange(-1, len(self.states) - 1)
        if self.numeric and not self.bins:
            return np.full(len(self.states), -1)
        groups = np.asarray(self.bins if self.numeric else range(len(self.states)), dtype=np.int64)
        return self.n_scores + groups

    @cached_property
    def coded(self) -> np.ndarray:
        """The values of the columns for each code, (states, width)."""
        n_scores, indicators = self.n_scores, self.indicators
        table = np.zeros((len(self.states), max(n_scores, int(indicators.max(initial=-1)) + 1)))
        for k in range(n_scores):
            table[:, k] = np.asarray(self.scores) if k == 0 else np.square(self.scores) - 1.0
        on = indicators >= 0
        table[on, indicators[on]] = 1.0
        return table

    @cached_property
    def log_base(self) -> np.ndarray:
        """The logit of each code without any weight, (states,): log-frequencies of the levels of a number, else 0."""
        if self.numeric and not self.has_reference:
            return np.log(self.frequencies)
        return np.zeros(len(self.states))

    @cached_property
    def column_classes(self) -> np.ndarray:
        """The `ColumnClass` of each column, (width,)."""
        if self.has_reference or not self.ordered:
            return np.full(self.width, ColumnClass.PLAIN)
        observed = self.role == "observed"
        scores = (ColumnClass.OBSERVED_SCORE if observed else ColumnClass.SCORE, ColumnClass.SQUARE)[: self.n_scores]
        level = ColumnClass.OBSERVED_LEVEL if observed else ColumnClass.LEVEL
        return np.array([*scores, *[level] * (self.width - self.n_scores)])

    @cached_property
    def position_of_code(self) -> np.ndarray:
        """Index into ``states`` of the codes 0, 1, ..., K - 1, (K,): the reference state, if there is one, is first."""
        if not self.has_reference:
            return np.arange(len(self.states))
        others = [k for k in range(len(self.states)) if k != self.reference]
        return np.array([self.reference, *others], dtype=np.int64)

    @cached_property
    def code_of_label(self) -> dict[Label, int]:
        return {self.states[position]: code for code, position in enumerate(self.position_of_code)}

    @cached_property
    def code_frequencies(self) -> np.ndarray:
        """Training frequency of each code, (states,)."""
        return np.asarray(self.frequencies, dtype=float)[self.position_of_code] if self.states else np.empty(0)

    def codes_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return the codes of numbers, int32: those of the levels in which they are."""
        levels = np.searchsorted(np.asarray(self.cuts), numbers, side="left")
        return np.argsort(self.position_of_code)[levels].astype(np.int32)

    def round(self, numbers: np.ndarray) -> np.ndarray:
        """Return numbers with no more decimals than the values of a numeric variable.

        Examples
        --------
        >>> Variable("height", "target", kind="numeric", decimals=1).round(np.array([1.26, 3.0]))
        array([1.3, 3. ])
        """
        return numbers if self.decimals is None else np.round(numbers, self.decimals)

    def values_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return the columns of an observed numeric variable for numbers, (width, numbers)."""
        columns = np.zeros((self.width, len(numbers)))
        if not self.width:
            return columns
        columns[0] = self.scores_of(numbers)
        if self.bins:
            columns[1 + np.asarray(self.bins)[self.codes_of(numbers)], np.arange(len(numbers))] = 1.0
        return columns

    def scores_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return the scores of numbers."""
        if self.transform == "normal-scores":
            return np.interp(numbers, np.asarray(self.states, dtype=float), self.scores)
        with np.errstate(over="ignore"):
            return np.clip((numbers - self.center) / self.scale, -LARGEST_SCORE, LARGEST_SCORE)

    @cached_property
    def edges(self) -> np.ndarray:
        """The values between which the levels of a numeric variable lie, (states + 1,); empty if levels are values."""
        return np.array([self.limits[0], *self.cuts, self.limits[1]]) if self.limits else np.empty(0)

    @cached_property
    def is_point(self) -> np.ndarray:
        """Whether each level of a numeric variable is a single value, (states,)."""
        if not self.limits:
            return np.ones(len(self.states), dtype=bool)
        return np.diff(self.edges) <= np.spacing(np.abs(self.edges[1:]))

    @cached_property
    def widths(self) -> np.ndarray:
        """The widths of levels in standard deviations, (states,); 1 for single values, which have no density."""
        return (
            np.where(self.is_point, 1.0, np.diff(self.edges) / self.scale) if self.limits else np.ones(len(self.states))
        )

    @cached_property
    def log_widths(self) -> np.ndarray:
        """The logarithms of `widths` by code, (states,)."""
        return np.log(self.widths)[self.position_of_code]

    @cached_property
    def column_means(self) -> np.ndarray:
        """Mean of each column over the training cells, (width,)."""
        return self.code_frequencies @ self.coded

    @cached_property
    def column_labels(self) -> tuple[Label | None, ...]:
        """The state or bin of each column; None for a score, (width,)."""
        if self.has_reference:
            return tuple(self.states[k] for k in self.position_of_code[1:])
        if not self.ordered:
            return self.states
        if not self.numeric:
            return (None, *self.states)
        return (*[None] * self.n_scores, *self.bin_labels)

    @cached_property
    def bin_labels(self) -> tuple[str, ...]:
        """The bins of a numeric variable in words, such as "12 to 18.5"; those of dates have dates."""
        bins = np.asarray(self.bins, dtype=np.int64)
        ends = [self.cuts[k] for k in np.flatnonzero(np.diff(bins))]
        if not ends:
            return ()
        shown = write_distinct(ends, self.dtype)
        between = [f"{low} to {high}" for low, high in pairwise(shown)]
        return (f"up to {shown[0]}", *between, f"over {shown[-1]}")


class LazyVariables(Sequence[Variable]):
    """Some variables of a schema, each made when it is asked for."""

    def __init__(self, schema: Schema, numbers: range) -> None:
        self._schema, self._numbers = schema, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Variable: ...
    @overload
    def __getitem__(self, index: slice) -> LazyVariables: ...
    def __getitem__(self, index: int | slice) -> Variable | LazyVariables:
        if isinstance(index, slice):
            return LazyVariables(self._schema, self._numbers[index])
        return self._schema.variable(self._numbers[index])


@dataclass(frozen=True, eq=False)
class Schema:
    """All variables, targets first: target states are numbered 0 .. n_target_columns - 1, and observed columns follow.

    Latent variables are the last targets: they are predicted like missing cells.

    Columns that may number millions are *plain*: arrays describe them, and a `Variable` is made of one when it is asked
    for. They are either all columns of a 0/1 matrix, or sparse covariates, observed numbers whose values are used as
    they are; described variables, which are targets then, come first.
    """

    described: tuple[Variable, ...]
    order: tuple[str, ...]
    """Column names in the order of the input, then the names of latent variables."""
    plain_names: tuple[str, ...] = ()
    n_plain_targets: int = 0
    """How many plain columns are targets; those come first."""
    shares: np.ndarray = field(default_factory=lambda: np.empty(0))
    """Weighted share of training rows in which each plain column is 1, (plain columns,)."""
    has_zero: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=bool))
    """Whether 0 occurs in each plain column, bool, (plain columns,); neither 0 nor 1 do in covariates."""
    has_one: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=bool))

    def __getstate__(self) -> dict[str, object]:
        """Return what is pickled: no computed arrays, since kernels are compiled anew if these are read-only later."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        pairs = [(getattr(self, part.name), getattr(other, part.name)) for part in fields(self)]
        return all(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b for a, b in pairs)

    def __hash__(self) -> int:
        return hash(self.order)

    @classmethod
    def uniform(cls, states: Mapping[str, Sequence[Label]]) -> Schema:
        """Return a schema of targets with equally frequent states, the first of which is the reference state."""
        variables = [Variable(name, "target", tuple(s), 0, (1.0 / len(s),) * len(s)) for name, s in states.items()]
        return cls(tuple(variables), tuple(states))

    def with_covariates(self, names: tuple[str, ...]) -> Schema:
        """Return the schema of these variables, all of them targets, given sparse covariates."""
        none = np.zeros(len(names), dtype=bool)
        return Schema(self.described, (*self.order, *names), names, 0, np.zeros(len(names)), none, none)

    @cached_property
    def labels(self) -> Schema:
        """The schema without sparse covariates."""
        return Schema(self.described, self.order[: len(self.described)]) if self.has_sparse_covariates else self

    @property
    def has_sparse_covariates(self) -> bool:
        return bool(self.described) and bool(self.plain_names)

    @property
    def is_binary(self) -> bool:
        """Whether all columns are plain 0/1 columns."""
        return bool(self.plain_names) and not self.described

    def variable(self, number: int) -> Variable:
        """Return a variable by its number."""
        k = number - len(self.described)
        if k < 0:
            return self.described[number]
        if self.has_sparse_covariates:
            return Variable(self.plain_names[k], "observed", kind="numeric")
        share, occurs = float(self.shares[k]), (self.has_zero[k], self.has_one[k])
        states = tuple(state for state in (0, 1) if occurs[state])
        frequencies = tuple((1.0 - share, share)[state] for state in states)
        role = "target" if k < self.n_plain_targets else "observed"
        return Variable(self.plain_names[k], role, states, 0, frequencies)

    @property
    def n_variables(self) -> int:
        return len(self.described) + len(self.plain_names)

    @cached_property
    def n_targets(self) -> int:
        """Number of variables that are predicted, latent ones included."""
        return sum(v.role != "observed" for v in self.described) + self.n_plain_targets

    @cached_property
    def n_latent(self) -> int:
        return sum(v.role == "latent" for v in self.described)

    @property
    def variables(self) -> Sequence[Variable]:
        return self._variables(0, self.n_variables)

    @property
    def targets(self) -> Sequence[Variable]:
        """Variables that are predicted, including latent ones."""
        return self._variables(0, self.n_targets)

    @property
    def observed(self) -> Sequence[Variable]:
        return self._variables(self.n_targets, self.n_variables)

    @property
    def latent(self) -> Sequence[Variable]:
        """Variables without a column in the input."""
        return self._variables(self.n_targets - self.n_latent, self.n_targets)

    def _variables(self, start: int, stop: int) -> Sequence[Variable]:
        return LazyVariables(self, range(start, stop)) if self.plain_names else self.described[start:stop]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of all variables, in the order of their numbers."""
        return (*(variable.name for variable in self.described), *self.plain_names)

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the input columns."""
        return self.order[: len(self.order) - self.n_latent]

    def without_latent(self) -> Schema:
        """Return the schema of the input columns."""
        if not self.n_latent:
            return self
        return Schema(tuple(v for v in self.described if v.role != "latent"), self.input_names)

    @cached_property
    def widths(self) -> np.ndarray:
        """Number of columns of each variable in the flat numbering, (variables,)."""
        plain = (self.has_zero == self.has_one).astype(np.int64)  # a constant column has none
        return np.concatenate([np.array([v.width for v in self.described], dtype=np.int64), plain])

    @cached_property
    def offsets(self) -> np.ndarray:
        """Variable v has the columns offsets[v]:offsets[v + 1] of the flat numbering, (variables + 1,)."""
        return np.concatenate([[0], np.cumsum(self.widths)]).astype(np.int64)

    @property
    def target_offsets(self) -> np.ndarray:
        """`offsets` of the targets, (targets + 1,)."""
        return self.offsets[: self.n_targets + 1]

    @property
    def n_target_columns(self) -> int:
        """Number of target states with a bias."""
        return int(self.offsets[self.n_targets])

    @property
    def n_columns(self) -> int:
        """Number of target states and observed columns."""
        return int(self.offsets[-1])

    @cached_property
    def variable_of_column(self) -> np.ndarray:
        return np.repeat(np.arange(self.n_variables), self.widths)

    @cached_property
    def index_of_name(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.names)}

    def column_name(self, column: int) -> tuple[str, Label | None]:
        """Return (variable, state) of a column of the flat numbering; the state of a numeric column is None."""
        k = int(self.variable_of_column[column])
        if k >= len(self.described):
            return self.plain_names[k - len(self.described)], None if self.has_sparse_covariates else 1
        return self.described[k].name, self.described[k].column_labels[column - int(self.offsets[k])]

    @property
    def column_names(self) -> tuple[tuple[str, Label | None], ...]:
        return tuple(self.column_name(column) for column in range(self.n_columns))

    @cached_property
    def column_classes(self) -> np.ndarray:
        """The `ColumnClass` of each column, int8, (columns,)."""
        count = self.n_columns - int(self.offsets[len(self.described)])
        plain = np.full(count, ColumnClass.OBSERVED_SCORE if self.has_sparse_covariates else ColumnClass.PLAIN)
        return np.concatenate([*(v.column_classes for v in self.described), plain]).astype(np.int8)

    @cached_property
    def is_score(self) -> np.ndarray:
        """Whether a target column is a score or its square, bool, (target columns,)."""
        return np.isin(self.column_classes[: self.n_target_columns], (ColumnClass.SCORE, ColumnClass.SQUARE))

    @cached_property
    def coding(self) -> Coding:
        """How the states of the targets are coded, for kernels."""
        if self.is_binary:
            widths = self.widths[: self.n_targets]
            return Coding.binary(widths, self.shares[: self.n_targets][widths > 0])
        return Coding.of(self.described[: self.n_targets])

    @cached_property
    def column_of_state(self) -> np.ndarray:
        """The target column that is 1 for each state of the targets alone, -1 for none, (states,)."""
        indicator, sizes = self.coding.indicator, np.diff(self.coding.state_offsets)
        return np.where(indicator >= 0, np.repeat(self.target_offsets[:-1], sizes) + indicator, -1)

    @cached_property
    def unseen(self) -> np.ndarray:
        """Whether a target column is the indicator of a state without a training example, (target columns,)."""
        coding, column, absent = self.coding, self.column_of_state, self.coding.frequencies == 0.0
        seen = np.bincount(column[(column >= 0) & ~absent], minlength=self.n_target_columns) > 0
        no_reference = coding.has_reference & absent[coding.state_offsets[:-1]]
        return ~(seen | self.is_score) | np.repeat(no_reference, self.widths[: self.n_targets])

    def initial_biases(self, rare: float) -> np.ndarray:
        """Return the biases of a field without pairs, (target columns,); frequencies below ``rare`` count as that."""
        coding, column, biases = self.coding, self.column_of_state, np.zeros(self.n_target_columns)
        starts, sizes = coding.state_offsets[:-1], np.diff(coding.state_offsets)
        logs = np.log(np.maximum(coding.frequencies, rare))
        means = np.bincount(np.repeat(np.arange(len(sizes)), sizes), logs, len(sizes)) / sizes
        origins = np.where(coding.has_reference, logs[starts], means)
        chosen = (column >= 0) & np.repeat(coding.n_scores < 2, sizes)  # numbers have base measures instead
        biases[column[chosen]] = (logs - np.repeat(origins, sizes))[chosen]
        return biases

    @property
    def n_candidate_pairs(self) -> int:
        """Number of pairs of columns of two variables, at least one of which is a target."""
        last, n_classes = self.n_target_columns, len(ColumnClass)
        cells = self.variable_of_column[:last] * n_classes + self.column_classes[:last]
        targets = np.bincount(cells, minlength=self.n_targets * n_classes).reshape(-1, n_classes)
        observed = np.bincount(self.column_classes[last:], minlength=n_classes)
        allowed, total = np.isfinite(PENALTY_FACTORS), targets.sum(axis=0)
        among = (total @ allowed @ total - ((targets @ allowed) * targets).sum()) // 2
        return int(among + total @ allowed @ observed)

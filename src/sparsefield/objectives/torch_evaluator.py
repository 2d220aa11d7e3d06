"""Pseudo-likelihood on a device of torch, such as a GPU: gradients of all pairs are a product of two matrices.

The logits of all cells are a product of weights and columns, and the gradients of all pairs one of errors and columns
(Eq. 13), so that exact scores of all candidates cost about as much as an evaluation. Where the working set is a small
share of all pairs, only its products are computed in an evaluation.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial, reduce
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from sparsefield.compute import BlockCollection, Engine, identity
from sparsefield.compute.threads import plus
from sparsefield.compute.torch_engine import import_torch, memory_errors, memory_of
from sparsefield.data import Arcs, Block, Dataset, Layout, Schema
from sparsefield.data.coding import PENALTY_FACTORS, ColumnClass
from sparsefield.data.table import join_blocks
from sparsefield.errors import DataError
from sparsefield.inference.completions import BURN_IN, Drawn, FieldWeights, drawn_block, rows_of_block
from sparsefield.inference.method import InferenceMethod
from sparsefield.model import Adjacency, compile_adjacency
from sparsefield.objectives.block_evaluation import EvaluatedBlock
from sparsefield.objectives.dense_evaluator import CellObjective, DenseEvaluator, mean_and_variance
from sparsefield.objectives.objective import PairQuery
from sparsefield.objectives.training_rows import EM

Tensor = Any
"""A `torch.Tensor`: torch is imported only where a device is used."""

MATRIX_SHARE = 1 / 100
"""Share of all pairs that are arcs, above which two products of whole matrices are faster than products of single
columns: 10,000 columns x 20,000 rows take 128 ms on an H200, and 128,000 arcs 15 ms."""

RUN = 32
"""Arcs of one target that are multiplied together: a row with thousands of them would hold up all others."""

TILE_NUMBERS = 2**28
"""Numbers of a tile of the matrices that are computed at a time (2 GiB)."""

ROWS_SHARE = 1 / 2
"""Share of a device's memory for rows and errors: of all of it, not of what is free, or bits would depend on that."""


def send(array: np.ndarray, device: Any) -> Tensor:
    return import_torch().from_numpy(np.require(array, requirements=["C", "W"])).to(device)


def runs_of(sizes: np.ndarray, limit: float) -> Iterator[tuple[int, int]]:
    """Return the bounds of runs of items whose sizes are about ``limit`` together, or that are one item."""
    ends = sizes.cumsum()
    inner = np.searchsorted(ends, np.arange(limit, ends[-1], limit))
    return pairwise(np.unique([0, *inner, len(sizes)]).tolist())


class Coded(NamedTuple):
    """Variables that have the same numbers of states and of columns.

    Attributes
    ----------
    columns : (variables, columns), among those of a tile
    values, log_base : (variables, states, columns) and (variables, states, 1), those of each state
    """

    columns: Tensor
    values: Tensor
    log_base: Tensor

    @classmethod
    def of(cls, schema: Schema, variables: np.ndarray, first: int, device: Any) -> list[Self]:
        """Return variables by their shape; columns are numbered from ``first``."""
        shapes, groups = [schema.targets[v].coded.shape for v in variables], []
        for own, width in [(variables[[s == t for t in shapes]], s[1]) for s in dict.fromkeys(shapes) if s[1]]:
            columns = schema.target_offsets[own, None] - first + np.arange(width)
            coded, bases = ([getattr(schema.targets[v], name) for v in own] for name in ("coded", "log_base"))
            groups.append((columns, np.array(coded), np.array(bases)[..., None]))
        return [cls(*(send(part, device) for part in group)) for group in groups]


class Tile(NamedTuple):
    """Consecutive variables, whose errors are computed together."""

    columns: slice
    coded: Sequence[Coded]
    binary: Tensor | slice
    """Columns of binary variables among those of the tile."""


class DeviceArcs:
    """The arcs of features of two columns on a device, sorted by target and source.

    Attributes
    ----------
    source, parameter : (arcs,), columns and indices into theta
    offsets : (states + 1,)
    places : (arcs,), positions in a matrix (states, columns)
    of_feature : (2, features), the arcs of each feature; the number of arcs where it has one only
    matrix : (states, columns), of the weights; None where arcs are few
    parts : their layout, and the arcs as they were
    """

    def __init__(self, layout: Layout, arcs: Arcs, device: Any) -> None:
        torch, self.parts, n = import_torch(), (layout, arcs), len(arcs.target)
        target, source, feature = (send(part, device) for part in arcs[:3])
        order = torch.argsort(target * layout.n_columns + source, stable=True)
        states = torch.arange(layout.n_target_columns + 1, device=device)
        self.source, self.offsets = source[order], torch.searchsorted(target[order], states)
        self.parameter = layout.n_target_columns + feature[order]
        self.places = target[order] * layout.n_columns + self.source
        count, place = int(arcs.feature.max(initial=-1)) + 1, torch.argsort(order)
        self.of_feature = torch.full((2, count), n, device=device)
        # Arcs are those of all features in their order, then the second ones.
        self.of_feature[0], self.of_feature[1, feature[count:]] = place[:count], place[count:]
        self._padding, shape = torch.zeros(1, dtype=torch.float64, device=device), (len(states) - 1, layout.n_columns)
        self.matrix = self._padding.new_zeros(shape) if n > MATRIX_SHARE * np.prod(shape) else None

    @cached_property
    def runs(self) -> tuple[Tensor, list[int]]:
        """The targets of runs of at most `RUN` arcs, (runs,), and the bounds of these runs, (runs + 1,)."""
        torch, target = import_torch(), self.places // self.parts[0].n_columns
        place = torch.arange(len(target), device=target.device) - self.offsets[target]
        starts = torch.nonzero(place % RUN == 0)[:, 0]
        return target[starts], [*starts.tolist(), len(target)]

    def set_weights(self, theta: Tensor) -> None:
        self._weights = theta[self.parameter]
        if self.matrix is not None:
            self.matrix.view(-1)[self.places] = self._weights

    def sums(self, columns: slice, values: Tensor) -> Tensor:
        """Return the sums over the arcs of some target columns of weights x values (columns, ...) of their sources."""
        if self.matrix is not None:
            return self.matrix[columns] @ values
        offsets = self.offsets[columns.start : columns.stop + 1]
        if (first := int(offsets[0])) == (last := int(offsets[-1])):
            return values.new_zeros(columns.stop - columns.start, values.shape[1])
        return import_torch().nn.functional.embedding_bag(
            self.source[first:last], values, offsets - first, mode="sum",
            per_sample_weights=self._weights[first:last], include_last_offset=True,
        )  # fmt: skip

    def sum_features(self, of_arcs: Tensor) -> Tensor:
        """Return the sums of numbers of arcs (arcs,) over the arcs of each feature, (features,)."""
        return import_torch().cat([of_arcs, self._padding])[self.of_feature].sum(dim=0)

    def sampled(self, errors: Tensor, values: Tensor) -> Tensor:
        """Return errors (states, rows) of the target x values (columns, rows) of the source of each arc, (arcs,)."""
        torch, (targets, bounds) = import_torch(), self.runs
        found, most = [errors.new_zeros(0)], max(TILE_NUMBERS // max(errors.shape[1], 1), 1)
        for first in range(0, len(targets), most):
            rows = targets[first : first + most]
            part = slice(bounds[first], bounds[first + len(rows)])
            offsets = send(np.array(bounds[first : first + len(rows) + 1]) - part.start, rows.device)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch calls its sparse matrices a beta version
                zeros, shape = errors.new_zeros(part.stop - part.start), (len(rows), len(values))
                wanted = torch.sparse_csr_tensor(offsets, self.source[part], zeros, shape, check_invariants=False)
            found.append(torch.sparse.sampled_addmm(wanted, errors[rows], values.T, beta=0.0).values())
        return torch.cat(found)

    @cached_property
    def adjacency(self) -> tuple[Adjacency, ...]:
        return compile_adjacency(*self.parts)


class DeviceRows(NamedTuple):
    """Rows on a device, and their errors at the last evaluation.

    Attributes
    ----------
    values : (columns, rows), the coded columns
    weight : (rows,)
    observed : (targets, rows), as numbers; None where no cell is missing
    errors : (target columns, rows), as in `EvaluatedBlock`
    constant : the sum of the logarithms of the base measures of observed cells
    """

    values: Tensor
    weight: Tensor
    observed: Tensor
    errors: Tensor
    constant: float


class DeviceTable:
    """A table on a device. Rows beyond its memory are sent in parts, in each evaluation and scoring again."""

    def __init__(self, layout: Layout, blocks: Sequence[Any], device: Any) -> None:
        self._torch, self._layout, self._schema, self.device = import_torch(), layout, layout.schemas[0], device
        self._send, sizes = partial(send, device=device), np.array([block.n_rows for block in blocks])
        self._zeros = partial(self._torch.zeros, dtype=self._torch.float64, device=device)
        self.n_targets, self.n_columns, self.n_rows = layout.n_target_columns, layout.n_columns, int(sizes.sum())
        most = ROWS_SHARE * memory_of(device) / (8.0 * (self.n_columns + self.n_targets))
        # While a part is replaced by the next one, both are there.
        parts = list(runs_of(sizes, most / 2)) if self.n_rows > most else [(0, len(blocks))]
        self._parts, self._most = [blocks[slice(*part)] for part in parts], max(sizes[slice(*p)].sum() for p in parts)
        needed = 8.0 * self._most * (self.n_columns + 2 * self.n_targets)
        self.memory = lambda: memory_errors(device, needed, f"{self._most:,} rows x {self.n_columns:,} columns")
        self.owner = self._send(self._schema.variable_of_column.astype(np.int64))
        self._is_score = self._send(self._schema.is_score)
        self._classes = self._send(layout.column_classes.astype(np.int64))
        with self.memory():
            self._whole = [self._send_rows(blocks)] if len(parts) == 1 else []
        self.variances: Tensor = None

    def rows(self) -> Iterable[DeviceRows]:
        """Return the rows: all of them, or part by part."""
        return self._whole or map(self._send_rows, self._parts)

    def _send_rows(self, blocks: Sequence[Any]) -> DeviceRows:
        weight, coding = np.concatenate([block.weight for block in blocks]), self._schema.coding
        observed, constant = None, 0.0
        if hasattr(blocks[0], "codes"):
            values = self._torch.cat([self._send(block.beliefs) for block in blocks], dim=1)
            codes = np.concatenate([block.codes for block in blocks], axis=1)
            if coding.log_base.any():
                log_base = np.append(coding.log_base, 0.0)[coding.state_offsets[:-1, None] + codes]
                constant = float((np.where(codes >= 0, log_base, 0.0) @ weight).sum())
            if (codes < 0).any():
                observed = self._send((codes >= 0).astype(np.float64))
        else:  # a sparse table, whose variables have no base measures
            counts = np.concatenate([np.diff(block.offsets) for block in blocks])
            columns = self._send(np.concatenate([block.columns for block in blocks]).astype(np.int64))
            values = self._zeros(self.n_columns, len(weight))
            values[columns, self._send(np.repeat(np.arange(len(weight)), counts))] = 1.0
        return DeviceRows(values, self._send(weight), observed, self._zeros(self.n_targets, len(weight)), constant)

    # -- one evaluation ----------------------------------------------------------------------------------------------

    @cached_property
    def _tiles(self) -> list[Tile]:
        """Runs of variables, whose logits are in memory at a time."""
        offsets, coding, tiles = self._schema.target_offsets, self._schema.coding, []
        widths = np.maximum(np.diff(offsets), np.diff(coding.state_offsets))
        is_binary = coding.has_reference & (np.diff(offsets) == 1)
        for first, last in runs_of(widths * self._most, TILE_NUMBERS):
            every, binary = np.arange(first, last), is_binary[first:last]
            coded = Coded.of(self._schema, every[~binary], offsets[first], self.device)
            binary = self._send(offsets[every[binary]] - offsets[first]) if coded else slice(None)
            tiles.append(Tile(slice(int(offsets[first]), int(offsets[last])), coded, binary))
        return tiles

    def evaluate(self, arcs: DeviceArcs, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Return loss (1,) and gradient (parameters,) at the weights of arcs; set errors and `variances` to theirs."""
        self._point = arcs, theta
        gradient = self.gradient(arcs, self._evaluated())
        return self._loss, gradient

    def _evaluated(self) -> Iterator[DeviceRows]:
        """Yield the rows with their errors at the last point, whose loss and variances are then known."""
        (arcs, theta), loss, variances = self._point, self._zeros(1), None
        for rows in self.rows():
            loss -= rows.constant
            of_tiles = []
            for tile in self._tiles:
                logits = arcs.sums(tile.columns, rows.values)
                logits += theta[tile.columns, None]
                of_tiles.append(self._set_errors(rows, tile, logits, loss))
                del logits
            variances = plus(variances, self._torch.cat(of_tiles))
            yield rows
        self._loss, self.variances = loss, variances

    def with_errors(self) -> Iterable[DeviceRows]:
        """Return the rows with their errors at the last point: parts of a table are evaluated again."""
        self._point[0].set_weights(self._point[1])
        return self._whole or self._evaluated()

    def _set_errors(self, rows: DeviceRows, tile: Tile, logits: Tensor, loss: Tensor) -> Tensor:
        """Set the errors of a tile, whose logits are overwritten; add its loss, and return its variances (columns,)."""
        torch, values, errors, of_cells = self._torch, rows.values[tile.columns], rows.errors[tile.columns], rows.weight
        if rows.observed is not None:
            of_cells = rows.observed[self.owner[tile.columns]] * of_cells
        for group in tile.coded:
            loss += self._set_coded(group, logits, errors, of_cells)
        own = logits[tile.binary]
        # Beyond the threshold the normalizer is the logit itself.
        loss += self._weigh(torch.nn.functional.softplus(own, threshold=50.0), of_cells, tile.binary)
        errors[tile.binary] = torch.sigmoid(own)
        loss -= self._weigh(logits.mul_(values), of_cells)
        errors.sub_(values).mul_(of_cells)
        squares = torch.mul(errors, errors, out=logits) @ (1.0 / (rows.weight + 1e-300))
        sizes = torch.abs(errors, out=logits).sum(dim=1)
        return torch.where(self._is_score[tile.columns], squares, sizes - squares)

    def _set_coded(self, group: Coded, logits: Tensor, expected: Tensor, of_cells: Tensor) -> Tensor:
        """Set the expected columns of variables with several states, and return the sum of their log-normalizers."""
        columns = group.columns.view(-1)
        states = (group.values @ logits[columns].view(*group.columns.shape, -1)).add_(group.log_base)
        normalizers = self._torch.logsumexp(states, dim=1)
        expected[columns] = (group.values.mT @ states.sub_(normalizers[:, None]).exp_()).flatten(0, 1)
        return self._weigh(normalizers, of_cells, group.columns[:, 0])

    def _weigh(self, numbers: Tensor, of_cells: Tensor, rows: Any = slice(None)) -> Tensor:
        """Return the sum of numbers of cells times their weights; ``rows`` are those of ``of_cells`` that they have."""
        return ((numbers @ of_cells) if of_cells.dim() == 1 else numbers * of_cells[rows]).sum()

    def gradient(self, arcs: DeviceArcs, parts: Iterable[DeviceRows] | None = None) -> Tensor:
        """Return the gradient (parameters,): errors x columns, summed over rows and over the arcs of a feature."""
        biases, sums = None, None
        for rows in self.with_errors() if parts is None else parts:
            if arcs.matrix is None:
                of_arcs = arcs.sampled(rows.errors, rows.values)
            else:
                of_arcs = (rows.errors @ rows.values.T).view(-1)[arcs.places]
            biases, sums = plus(biases, rows.errors.sum(dim=1)), plus(sums, of_arcs)
        return self._torch.cat([biases, arcs.sum_features(sums)])

    # -- scores of all candidates ------------------------------------------------------------------------------------

    def propose(self, rule: Any, query: PairQuery) -> Any:
        """Return the pairs that a rule proposes: on a device, all whose gradients exceed l1."""
        with self.memory():
            return rule.score_on_device(self, query)

    def pairs_above(self, query: PairQuery, *, exact: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the pairs that a query asks for (pairs, 2), their gradients and scores; of equal scores all.

        Where products are not ``exact``, in 64 bits, a GPU rounds factors to 11 bits and takes an eighth of the time.
        """
        torch, block = self._torch, self._layout.candidate_blocks[0]
        known = self._send(np.asarray(query.known, dtype=np.int64))
        row, column = known // self.n_columns, known % self.n_columns
        found, offsets = [[np.empty((0, 2), dtype=np.int64), np.empty(0), np.empty(0)]], self._schema.target_offsets
        for run in runs_of(np.diff(offsets) * self.n_columns, TILE_NUMBERS):
            rows = slice(*offsets[list(run)].tolist())
            if rows.start == rows.stop:  # constant columns alone
                continue
            gradient, first = self._pair_gradients(rows, exact=exact), rows.start
            score, candidates = gradient.abs(), self.owner[first:] > self.owner[rows, None]
            if query.edges is not None or not block.has_unit_factors:
                factors = self._send(PENALTY_FACTORS)[self._classes[rows]][:, self._classes[first:]]
                factors[:, : self.n_targets - first] *= self._layout.target_factor
                score, candidates = score / factors, candidates & (factors < np.inf)
            score.masked_fill_(~candidates, 0.0)
            here = (row >= rows.start) & (row < rows.stop)
            if query.edges is not None:
                score = self._edge_norms(rows, score, row[here], column[here]).masked_fill_(~candidates, 0.0)
            score[row[here] - first, column[here] - first] = 0.0
            places = torch.nonzero(score.view(-1) > query.l1)[:, 0]
            if query.limit is not None and len(places) > query.limit:
                smallest = torch.topk(score.view(-1)[places], query.limit, sorted=False).values.min()
                places = places[score.view(-1)[places] >= smallest]
            a, b = places // score.shape[1], places % score.shape[1]
            values = gradient.view(-1)[places].double(), score.view(-1)[places].double()
            found.append([part.cpu().numpy() for part in (torch.stack([a, b], dim=1) + first, *values)])
            del gradient, score, candidates
        pairs, gradients, scores = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return pairs, gradients, scores

    def _pair_gradients(self, rows: slice, *, exact: bool) -> Tensor:
        """Return the gradients of pairs of some target columns with those and all later columns."""
        torch, first, n = self._torch, rows.start, self.n_targets
        matmul, kind = torch.backends.cuda.matmul, torch.float64 if exact else torch.float32
        total = torch.zeros(rows.stop - first, self.n_columns - first, dtype=kind, device=self.device)
        before, matmul.allow_tf32 = matmul.allow_tf32, not exact
        try:
            for part in self.with_errors():
                total.addmm_(part.errors[rows].to(kind), part.values[first:].to(kind).T)
                total[:, : n - first].addmm_(part.values[rows].to(kind), part.errors[first:].to(kind).T)
        finally:
            matmul.allow_tf32 = before
        return total

    def _edge_norms(self, rows: slice, scaled: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Return the norm of the scaled gradients of the edge of each pair, infinite for the edges of known pairs."""
        torch, first = self._torch, rows.start
        degrees = self._send(self._layout.edge_factors(np.arange(self.n_columns).repeat(2).reshape(-1, 2)))
        left, right = self.owner[rows] - self.owner[first], self.owner[first:] - self.owner[first]
        members = torch.nn.functional.one_hot(right).double()
        squares = (scaled.double() / torch.sqrt(degrees[rows, None] * degrees[first:])).square()
        norms = torch.sqrt(members[: rows.stop - first, : int(left[-1]) + 1].T @ squares @ members)
        norms[left[row - first], right[column - first]] = torch.inf
        return norms[left][:, right]


class DeviceCompletions:
    """Completions of incomplete rows on a device, by Gibbs chains side by side.

    Variables without a feature between them are independent given all others, and drawn at once. Random numbers are
    stratified over the copies of a row.
    """

    def __init__(self, layout: Layout, blocks: Sequence[Block], seed: int, device: Any) -> None:
        self._layout, self._schema, self._block, self._device = layout, layout.schemas[0], join_blocks(blocks), device
        self._generator = import_torch().Generator(device).manual_seed(seed)
        self._missing, self._copies, self._arcs = self._block.codes < 0, 0, None

    def draw(self, arcs: DeviceArcs, theta: Tensor, copies: int) -> DeviceTable:
        """Return completed rows, drawn at the weights of arcs one sweep after the draws before."""
        sweeps = 1 if self._copies else 1 + BURN_IN
        if copies != self._copies:
            self._begin(copies)
        if arcs is not self._arcs:
            self._arcs, self._draws = arcs, self._color(arcs.parts[1])
        with self.table.memory():
            weights = theta.new_zeros(self._layout.n_target_columns, self._layout.n_columns)
            weights.view(-1)[arcs.places] = theta[arcs.parameter]
            for coded in self._draws * sweeps:
                self._draw(weights, theta, coded)
        return self.table

    def _begin(self, copies: int) -> None:
        """Make as many copies of each incomplete row, whose chains continue those before."""
        block, incomplete, before = self._block, np.flatnonzero(self._missing.any(axis=0)), self._copies
        drawn = Drawn(incomplete, np.repeat(block.beliefs[:, incomplete], copies, axis=1), copies)
        complete = rows_of_block(block, np.flatnonzero(~self._missing.any(axis=0)))
        self.block = join_blocks([complete, drawn_block(block, drawn)])
        self.table = DeviceTable(self._layout, [self.block], self._device)
        (rows,) = self.table.rows()
        state, self._observed = rows.values[:, complete.n_rows :], rows.observed[:, complete.n_rows :] > 0.0
        if before:
            place = np.arange(len(incomplete))[:, None] * before + np.arange(copies) % before
            state[:] = self._state[:, send(place.ravel(), self._device)]
        self._state, self._copies, self._arcs = state, copies, None

    def _color(self, arcs: Arcs) -> list[Coded]:
        """Return the variables that are drawn at once: colors of a graph, greedily, by their shapes."""
        schema, owner, size = self._schema, self._schema.variable_of_column, len(self._schema.variables)
        graph = sp.csr_array((np.ones(len(arcs.target)), (owner[arcs.target], owner[arcs.source])), (size, size))
        missing, colors, runs = np.flatnonzero(self._missing.any(axis=1)), np.full(size, -1), list[np.ndarray]()
        for v in missing[np.argsort(-np.diff(graph.indptr)[missing], kind="stable")].tolist():
            taken = colors[graph.indices[graph.indptr[v] : graph.indptr[v + 1]]]
            colors[v] = np.setdiff1d(np.arange(len(taken) + 1), taken)[0]
        numbers = np.diff(schema.coding.state_offsets) * self._state.shape[1]
        for own in (np.flatnonzero(colors == color) for color in range(colors.max() + 1)):
            runs += [own[slice(*run)] for run in runs_of(numbers[own], TILE_NUMBERS)]
        return [coded for own in runs for coded in Coded.of(schema, own, 0, self._device)]

    def _draw(self, weights: Tensor, theta: Tensor, coded: Coded) -> None:
        torch, columns, (k, width), copies = import_torch(), coded.columns.view(-1), coded.columns.shape, self._copies
        logits = (weights[columns] @ self._state).add_(theta[columns, None]).view(k, width, -1)
        p = torch.softmax(coded.values @ logits + coded.log_base, dim=1)
        uniform = p.new_empty(k, p.shape[2] // copies, 1 + copies).uniform_(generator=self._generator)
        strata = uniform[..., 1:].argsort(dim=2) + uniform[..., :1]
        # The bits of a cumulative sum may vary on a GPU, those of a product do not.
        below = torch.ones_like(p[0, :, :1] * p[0, :, 0]).tril() @ p
        codes = (below < strata.view(k, 1, -1) / copies).sum(dim=1).clamp_(max=p.shape[1] - 1)
        drawn = coded.values[torch.arange(k, device=p.device)[:, None], codes].mT
        observed = self._observed[self.table.owner[coded.columns[:, 0]], None]
        self._state[columns] = torch.where(observed, self._state[columns].view(k, width, -1), drawn).flatten(0, 1)


class TorchEvaluator(DenseEvaluator):
    """Pseudo-likelihood of one table, dense or sparse, on a device, where missing cells are drawn, too."""

    def __init__(
        self, dataset: Dataset, objective: CellObjective, engine: Engine, missing: EM | InferenceMethod | None = None
    ) -> None:
        paired = np.count_nonzero(dataset.layout.column_classes != ColumnClass.SQUARE)
        whole = [block.within and len(block.left.columns) == paired for block in dataset.layout.candidate_blocks]
        if not dataset.is_single or dataset.layout.has_latent or whole != [True]:
            what = "one table without latent variables, all of whose columns are paired"
            raise DataError(f"A device (Solver(engine=...), --gpu) learns from {what}: leave engine (--gpu) out.")
        super().__init__(dataset, objective, engine, missing)
        self.device = engine.device
        self.has_wald_statistics = dataset.is_dense
        self._table: DeviceTable | None = None
        self._rows: BlockCollection | None = None
        self._completions: DeviceCompletions | None = None

    @property
    def table(self) -> DeviceTable:
        """The rows on the device: sent again where missing cells were replaced."""
        if self._table is None or self._rows is not self.source.rows:
            self._table = None  # frees its memory
            blocks = [part.block for part in self.source.rows.map(identity)]
            self._rows, self._table = self.source.rows, DeviceTable(self.layout, blocks, self.device)
        return self._table

    def draw(self, graphs: DeviceArcs, theta: np.ndarray, copies: int) -> None:
        if self._completions is None:
            blocks = [part.block for part in self.source.rows.map(identity)]
            self._completions = DeviceCompletions(self.layout, blocks, self.source.seed, self.device)
        self._table = self._completions.draw(graphs, send(theta, self.device), copies)
        self._rows = self.source.rows = self._engine.distribute([EvaluatedBlock(0, self._completions.block)])

    def compile(self, arcs: Arcs) -> DeviceArcs:
        n, m = self.layout.n_target_columns, self.layout.n_columns
        with memory_errors(self.device, 8.0 * n * m, f"The weights of {n:,} x {m:,} columns"):
            return DeviceArcs(self.layout, arcs, self.device)

    def evaluate(self, graphs: DeviceArcs, theta: np.ndarray) -> tuple[float, np.ndarray]:
        self.set_point(graphs, theta)
        with self.table.memory():
            there = send(theta, self.device)
            graphs.set_weights(there)
            loss, gradient = np.split(import_torch().cat(self.table.evaluate(graphs, there)).cpu().numpy(), [1])
        return float(loss[0]), gradient

    def set_point(self, graphs: DeviceArcs, theta: np.ndarray) -> None:
        self._point = graphs, theta

    def weights_of_field(self, graphs: DeviceArcs, theta: np.ndarray) -> FieldWeights:
        return super().weights_of_field(graphs.adjacency, theta)

    def bias_hessian(self) -> np.ndarray:
        return self.table.variances.cpu().numpy()

    def gradient(self, graphs: DeviceArcs, size: int) -> np.ndarray:
        with self.table.memory():
            return self.table.gradient(graphs).cpu().numpy()

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        parts = ((rows.values @ rows.weight, rows.values.square() @ rows.weight) for rows in self.table.rows())
        sums, squares = (part.cpu().numpy() for part in reduce(plus, parts))
        return mean_and_variance(sums, squares, np.array(self.total_weights))

    def gradient_factors(self) -> DeviceTable:
        return self.table

    @property
    def evaluated(self) -> BlockCollection:
        bounds = np.cumsum(self.source.rows.map(lambda part: part.block.n_rows))[:-1]
        parts = [(rows.errors.cpu().numpy(), rows.values.cpu().numpy()) for rows in self.table.with_errors()]
        arrays = [np.split(np.concatenate(part, axis=1), bounds, axis=1) for part in zip(*parts, strict=True)]
        each = [(errors.copy(), values.copy()) for errors, values in zip(*arrays, strict=True)]
        return self.source.rows.map_update(
            lambda part, own: (EvaluatedBlock(0, part.block._replace(beliefs=own[1]), *own), None), each=each
        )[0]

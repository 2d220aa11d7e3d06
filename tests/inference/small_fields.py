"""Small random fields over one table (trees, loops or complete graphs), and their slow counterparts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from oracle import SlowField

from sparsefield.compute import Threads
from sparsefield.data import Block, Dataset, Layout, Schema, Table, Variable, as_source, compile_table
from sparsefield.inference import CellProbabilities, InferenceMethod, infer
from sparsefield.model import Field


def slow_of(field: Field) -> SlowField:
    features = field.pairs, field.weights, field.conjunctions, field.conjunction_weights
    return SlowField(field.schema, field.biases, *features)


@dataclass(frozen=True)
class Small:
    """A field over one table, and rows with missing cells."""

    field: Field
    table: Table
    slow: SlowField

    @property
    def sample(self) -> Dataset:
        return Dataset.single(self.table)

    @property
    def block(self) -> Block:
        (block,) = self.table.blocks
        return block

    def codes(self, row: int) -> tuple[int, ...]:
        return tuple(self.table.codes()[:, row].tolist())

    def observed(self, row: int) -> list[float]:
        return self.block.beliefs[self.field.schema.n_target_columns :, row].tolist()

    def infer(self, method: InferenceMethod, threads: int = 1) -> CellProbabilities:
        with Threads(threads) as engine:
            return infer(self.field, self.sample, method, engine)

    def states(self, v: int) -> slice:
        """Return the places of the states of a target among all states."""
        offsets = self.field.schema.coding.state_offsets
        return slice(offsets[v], offsets[v + 1])

    def worst(self, probabilities: np.ndarray) -> float:
        """Return the largest distance of the probabilities (states, rows) of missing cells from enumeration."""
        return max((abs(found - wanted) for found, wanted in self.compare(probabilities)), default=0.0)

    def compare(self, probabilities: np.ndarray):
        """Yield (probability, exact probability) of every state of every missing cell."""
        for row in range(self.table.n_rows):
            codes = self.codes(row)
            exact = self.slow.marginals(codes, self.observed(row))
            for v, code in enumerate(codes):
                if code < 0:
                    yield from zip(probabilities[self.states(v), row].tolist(), exact[v], strict=True)


def random_tree(rng: np.random.Generator, n: int) -> list[tuple[int, int]]:
    return [(int(rng.integers(k)), k) for k in range(1, n)]


def small_field(
    seed: int,
    *,
    states: Sequence[int] = (2, 3, 2, 4, 2),
    structure: str = "tree",
    size: float = 1.0,
    rows: int = 6,
    missing: float = 0.7,
    triples: int = 0,
) -> Small:
    """Make a random field with a "tree", a "loop" or "all" pairs of targets, and a numeric covariate."""
    rng = np.random.default_rng(seed)
    n = len(states)
    edges = {
        "tree": random_tree(rng, n),
        "loop": [(k, k + 1) for k in range(n - 1)] + [(0, n - 1)],
        "all": list(itertools.combinations(range(n), 2)),
        "none": [],
    }[structure]
    variables = [
        Variable(f"x{k}", "target", tuple(range(count)), 0, (1.0 / count,) * count) for k, count in enumerate(states)
    ]
    variables.append(Variable(f"x{n}", "observed", center=0.0, scale=1.0, kind="numeric"))
    schema = Schema(tuple(variables), tuple(v.name for v in variables))
    columns = [range(schema.offsets[v], schema.offsets[v + 1]) for v in range(n + 1)]
    pairs = [pair for a, b in edges for pair in itertools.product(columns[a], columns[b])]
    pairs += [(a, columns[n][0]) for v in range(n) for a in columns[v]]
    chosen = [sorted(rng.choice(n, size=int(rng.integers(3, min(n, 4) + 1)), replace=False)) for _ in range(triples)]
    members = {tuple(int(rng.choice(list(columns[v]))) for v in some) for some in chosen}
    conjunctions = np.array([(*m, -1)[:4] for m in sorted(members)], dtype=np.int64).reshape(-1, 4)
    field = Field(
        Layout.single(schema),
        rng.normal(scale=size, size=schema.n_target_columns),
        np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2),
        rng.normal(scale=size, size=len(pairs)),
        conjunctions=conjunctions,
        conjunction_weights=rng.normal(scale=size, size=len(conjunctions)),
    )
    return Small(field, random_rows(schema, rng, rows, missing), slow_of(field))


def latent_field(
    seed: int,
    *,
    states: Sequence[int] = (2, 3, 2),
    latent: Sequence[int] = (3,),
    size: float = 1.0,
    rows: int = 6,
    missing: float = 0.5,
) -> Small:
    """Make a random field over all pairs of targets, latent variables and a numeric covariate."""
    rng = np.random.default_rng(seed)

    def variable(name: str, role: str, count: int) -> Variable:
        return Variable(name, role, tuple(range(count)), 0, (1.0 / count,) * count)

    targets = [variable(f"x{k}", "target", count) for k, count in enumerate(states)]
    hidden = [variable(f"h{k}", "latent", count) for k, count in enumerate(latent)]
    covariate = Variable("z", "observed", center=0.0, scale=1.0, kind="numeric")
    known = Schema((*targets, covariate), (*(v.name for v in targets), "z"))
    schema = Schema((*targets, *hidden, covariate), (*known.order, *(v.name for v in hidden)))
    owner, columns = schema.variable_of_column, range(schema.n_columns)
    pairs = np.array([(a, b) for a, b in itertools.combinations(columns, 2) if owner[a] != owner[b]])
    biases, weights = rng.normal(scale=size, size=schema.n_target_columns), rng.normal(scale=size, size=len(pairs))
    field = Field(Layout.single(schema), biases, pairs, weights)
    X = random_cells(known, rng, rows, missing)
    table = compile_table(replace(as_source(X), names=known.order), schema)
    return Small(field, table, slow_of(field))


def random_rows(schema: Schema, rng: np.random.Generator, rows: int, missing: float) -> Table:
    return compile_table(replace(as_source(random_cells(schema, rng, rows, missing)), names=schema.order), schema)


def random_cells(schema: Schema, rng: np.random.Generator, rows: int, missing: float) -> np.ndarray:
    X = np.empty((rows, schema.n_variables), dtype=object)
    for v, variable in enumerate(schema.variables):
        if variable.numeric:
            X[:, v] = rng.normal(size=rows).round(3).tolist()
        else:
            X[:, v] = rng.integers(0, len(variable.states), rows).tolist()
            X[rng.random(rows) < missing, v] = None
    return X

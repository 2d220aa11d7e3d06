"""This module times fits on a GPU beside those on the CPU, and compares contacts with CCMpred's recipe and adabmDCA."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command_line import Json, Row, Seed, choose_parts, print_rows
from benchmarks.dependent_data import draw_factors, draw_texts
from benchmarks.measure import QUICK_SECONDS, Report
from benchmarks.planted import draw_planted
from benchmarks.potts import make_potts
from benchmarks.scale import default_l1
from sparsefield import MarkovField, Solver, contacts, sequence_weights
from sparsefield.app.cli.console import print_message
from sparsefield.app.datasets import SyntheticField
from sparsefield.compute.torch_engine import import_torch, open_device, open_engine
from sparsefield.data import Dataset, as_source, compile_sparse, learn_schema
from sparsefield.objectives import PseudoLikelihood
from sparsefield.objectives.torch_evaluator import TorchEvaluator

__all__ = ["fit_ccmpred", "precision_of", "run_gpu"]

Array = np.ndarray[Any, np.dtype[Any]]

PAIR_PENALTY, BIAS_PENALTY, CCMPRED_STEPS = 0.2, 0.01, 50
"""CCMpred's defaults: the L2 penalty of couplings is the first one times the number of positions less one."""

CASES: dict[str, tuple[Callable[..., Any], float | str | None]] = {
    "texts": (partial(draw_texts, 1058, 1670), 8.48),
    "texts, choice": (partial(draw_texts, 1058, 1670), "auto"),
    "factors": (partial(draw_factors, 1359, 1214), 16.0),
    "factors, small l1": (partial(draw_factors, 1359, 1214), 4.0),
    "planted 10,000": (lambda seed: draw_planted(10_000, 20_000, seed=seed).matrix, None),
    "planted 20,000": (lambda seed: draw_planted(20_000, 100_000, seed=seed).matrix, None),
    "potts 75": (lambda seed: make_potts(75, 3068, sweeps=20, seed=seed), 8.0),
    "potts 150, 300 rows": (lambda seed: make_potts(150, 300, sweeps=20, seed=seed), 0.3),
    "potts 150, 1,000 rows": (lambda seed: make_potts(150, 1000, sweeps=20, seed=seed), 0.3),
    "potts 150": (lambda seed: make_potts(150, 10_000, sweeps=20, seed=seed), 8.0),
}
"""Data by name, and l1; None is the default of `python -m benchmarks scale`. Potts models have CCMpred's L2 penalty."""

SHORT_CASES: dict[str, tuple[Callable[..., Any], float | str | None]] = {
    "texts": (partial(draw_texts, 30, 100), 4.0),
    "potts": (lambda seed: make_potts(12, 300, sweeps=5, seed=seed), 4.0),
}
LONG_ON_CPU = ("planted 20,000", "potts 150, 300 rows", "potts 150, 1,000 rows", "potts 150", "texts, choice")
"""Cases that the CPU fits with ``--long`` only."""


def run_gpu(
    parts: Sequence[str] | None = None,
    *,
    device: str = "cuda",
    short: bool = False,
    long: bool = False,
    seed: int = 0,
    report: Report = print_message,
) -> list[Row]:
    """Return a row for each case and method: seconds, weights, objective, and precision of contacts.

    Parameters
    ----------
    parts : names of cases; None takes all
    device : engine of the fits beside those on the CPU
    short : small data, for tests
    long : whether the CPU fits the largest cases, too
    """
    cases, rows = SHORT_CASES if short else CASES, list[Row]()
    for engine, l1 in product((device, None), (4.0, "auto")):  # compiles kernels, and loads the device's libraries
        fit_field(draw_texts(40, 60, seed=seed), l1, engine)
    for name in choose_parts(parts, cases):
        draw, l1 = cases[name]
        report(f"{name}: drawing")
        data: Any = draw(seed=seed)
        l1 = default_l1(data) if l1 is None else l1
        made = data if isinstance(data, SyntheticField) else None
        X: Any = data if made is None else made.samples
        weight = None if made is None else sequence_weights(X)
        l2 = 1.0 if made is None else 2.0 * PAIR_PENALTY * (X.shape[1] - 1)
        engines = [device, None] if long or name not in LONG_ON_CPU else [device]
        for engine in engines:
            report(f"{name}: fit by {engine or 'the CPU'}")
            field, seconds = fit_field(X, l1, engine, weight, l2)
            record = field.field_.record
            row = {"data": name, "method": engine or "cpu", "l1": field.l1_, "seconds": seconds}
            row |= {"weights": len(field.field_.weights), "objective": record.objective}
            row |= {"steps": len(record.iterations), "certified": record.converged}
            rows.append(row | ({} if made is None else {"precision": precision_of(contacts(field).rows(), made)}))
        if made is not None and weight is not None:
            report(f"{name}: CCMpred's recipe")
            started = time.perf_counter()
            found = fit_ccmpred(X, weight, open_device(device))
            seconds = time.perf_counter() - started
            rows.append({"data": name, "method": "ccmpred", "seconds": seconds, "precision": precision_of(found, made)})
            report(f"{name}: adabmDCA" + ("" if shutil.which("adabmDCA") else " is not installed, and left out"))
            if shutil.which("adabmDCA"):
                started = time.perf_counter()
                found = fit_adabmdca(X, device)
                seconds, precision = time.perf_counter() - started, precision_of(found, made)
                rows.append({"data": name, "method": "adabmDCA", "seconds": seconds, "precision": precision})
    if device.startswith("cuda") and parts is None and not short:
        rows += _share_of_matrix_rate(device, seed)
    return rows


def fit_field(
    X: Any, l1: float | str, engine: str | None, weight: Array | None = None, l2: float = 1.0
) -> tuple[MarkovField, float]:
    """Return a fitted field, and the seconds from the table to the field: of a quick fit the least of two."""
    solver = Solver(engine=engine, test_edges=weight is None)  # contacts are ranked by their scores
    field, times = MarkovField(l1=l1, l2=l2, solver=solver, random_state=0), list[float]()
    while not times or (times[0] < QUICK_SECONDS and len(times) < 2):
        started = time.perf_counter()
        field.fit(X, sample_weight=weight)
        times.append(time.perf_counter() - started)
    return field, min(times)


def precision_of(ranked: Sequence[tuple[str, str, float]], made: SyntheticField) -> float:
    """Return the share of planted contacts among as many first pairs as there are positions."""
    planted, best = set(made.edges), ranked[: made.samples.shape[1]]
    return float(np.mean([(a, b) in planted for a, b, _ in best]))


def fit_ccmpred(letters: Array, weight: Array, device: Any) -> list[tuple[str, str, float]]:
    """Return all pairs of positions by CCMpred's recipe: pseudo-likelihood with L2 penalties alone, norms, correction.

    Couplings have 32 bits, as there. The limit of steps is CCMpred's.
    """
    torch, n = import_torch(), letters.shape[1]
    symbols = np.array(list("ACDEFGHIKLMNPQRSTVWY-"))
    codes = torch.from_numpy(np.argmax(letters[..., None] == symbols, axis=2)).to(device)
    weights, k = torch.from_numpy(weight).float().to(device), len(symbols)
    cells = torch.nn.functional.one_hot(codes, k).float().flatten(1)
    shares = (weights @ cells).view(n, k) / weights.sum()
    biases = torch.log(shares + 1e-3).requires_grad_()
    couplings = torch.zeros((n * k, n * k), device=device, requires_grad=True)
    owner = torch.arange(n * k, device=device) // k
    allowed = (owner[:, None] != owner).float()
    optimizer = torch.optim.LBFGS(
        [biases, couplings], max_iter=CCMPRED_STEPS, history_size=10, line_search_fn="strong_wolfe"
    )
    center = biases.detach().clone()

    def symmetric() -> Any:
        return 0.5 * (couplings + couplings.T) * allowed

    def closure() -> Any:
        optimizer.zero_grad()
        matrix = symmetric()
        logits = (cells @ matrix).view(-1, n, k) + biases
        losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), codes, reduction="none").sum(dim=1)
        penalty = BIAS_PENALTY * (biases - center).square().sum()
        loss = weights @ losses + penalty + 0.5 * PAIR_PENALTY * (n - 1) * matrix.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    blocks = symmetric().detach().view(n, k, n, k)[:, : k - 1, :, : k - 1]
    norms = blocks.square().sum(dim=(1, 3)).sqrt().cpu().double().numpy()
    means = norms.sum(axis=1) / (n - 1)
    scores = norms - np.outer(means, means) / means.mean()
    return _ranked(scores)


def fit_adabmdca(letters: Array, device: str) -> list[tuple[str, str, float]]:
    """Return all pairs of positions by the program adabmDCA: a Boltzmann machine, with the program's own defaults."""
    with tempfile.TemporaryDirectory() as folder:
        path, device = Path(folder), "cpu" if device == "torch" else device
        sequences = (f">{k}\n{''.join(row)}\n" for k, row in enumerate(letters))
        (path / "alignment.fasta").write_text("".join(sequences))
        common = ["-o", path / "model", "--device", device]
        subprocess.run(["adabmDCA", "train", "-d", path / "alignment.fasta", *common], check=True)
        (parameters,) = (path / "model").glob("*params*")
        subprocess.run(["adabmDCA", "contacts", "-p", parameters, *common], check=True)
        first, second, scores = np.loadtxt(path / "model" / "contact_map.txt", delimiter=",").T
    matrix = np.zeros((letters.shape[1], letters.shape[1]))
    matrix[first.astype(int), second.astype(int)] = scores
    return _ranked(matrix)


def _ranked(scores: Array) -> list[tuple[str, str, float]]:
    first, second = np.triu_indices(len(scores), 5)
    order = np.argsort(-scores[first, second])
    return [(f"x{first[k]}", f"x{second[k]}", float(scores[first[k], second[k]])) for k in order]


def _share_of_matrix_rate(device: str, seed: int) -> list[Row]:
    """Return the share of the device's rate of matrix products that an evaluation with all pairs reaches."""
    torch, engine = import_torch(), open_engine(device)
    source = as_source(draw_planted(10_000, 20_000, seed=seed).matrix)
    compiled = compile_sparse(source, learn_schema(source))
    assert compiled is not None
    problem = PseudoLikelihood().make_problem(Dataset.single(compiled), engine)
    assert isinstance(problem, TorchEvaluator)
    layout = problem.layout
    pairs = np.unique(np.sort(np.random.default_rng(seed).integers(0, layout.n_columns, (600_000, 2))), axis=0)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]  # so many that whole matrices are multiplied
    graphs = problem.compile(layout.arcs(pairs))
    theta = torch.zeros(layout.n_target_columns + len(pairs), dtype=torch.float64, device=engine.device)
    graphs.set_weights(theta)
    square = torch.ones((8192, 8192), dtype=torch.float64, device=engine.device)
    rate = 2.0 * 8192**3 / _least_seconds(lambda: square @ square)
    seconds = _least_seconds(lambda: problem.table.evaluate(graphs, theta))
    share = 4.0 * layout.n_columns**2 * problem.table.n_rows / seconds / rate
    return [{"data": "all pairs of 10,000", "method": device, "seconds": seconds, "share": share, "rate": rate}]


def _least_seconds(function: Callable[[], Any]) -> float:
    torch, times = import_torch(), []
    for _ in range(4):
        torch.cuda.synchronize()
        started = time.perf_counter()
        function()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return min(times)


def command(
    part: Annotated[list[str] | None, typer.Option(help=f"Cases: {', '.join(CASES)}; by default all.")] = None,
    device: Annotated[str, typer.Option(help="Engine that is compared with the CPU.")] = "cuda",
    short: Annotated[bool, typer.Option("--short", help="Small data.")] = False,
    long: Annotated[bool, typer.Option("--long", help="Fit the largest cases on the CPU, too.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Time fits on a GPU and on the CPU, and compare contacts with those of CCMpred's recipe and of adabmDCA."""
    rows = run_gpu(part, device=device, short=short, long=long, seed=seed)
    shown = ("data", "method", "l1", "seconds", "weights", "objective", "steps", "certified", "precision", "share")
    print_rows(rows, shown, as_json)

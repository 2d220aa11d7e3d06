"""This module fits one L1 logistic regression per node with R's glmnet, as a script that R itself times."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from benchmarks.nodewise import NodeFit, constant_logit
from benchmarks.r_scripts import has_packages, read_cpu_seconds, run_script

__all__ = ["TimedFits", "fit_glmnet", "has_glmnet"]

SCRIPT = """
suppressMessages({library(Matrix); library(glmnet)})
args <- commandArgs(trailingOnly = TRUE)
folder <- args[1]
lambda <- as.numeric(args[2])
lambdas <- lambda * as.numeric(args[4])^seq(1, 0, length.out = as.integer(args[5]))
X <- as(readMM(file.path(folder, "samples.mtx")), "CsparseMatrix") * 1.0
if (args[3] == "dense") X <- as.matrix(X)
nodes <- scan(file.path(folder, "nodes.txt"), what = integer(), quiet = TRUE)
ys <- lapply(nodes, function(j) as.numeric(X[, j]))
fits <- vector("list", length(nodes))
started <- proc.time()
for (k in seq_along(nodes)) {
  # A short path: glmnet asks for warm starts rather than for a single lambda. exclude= spares a copy of the matrix.
  fits[[k]] <- tryCatch(
    glmnet(X, ys[[k]], family = "binomial", lambda = lambdas, standardize = FALSE, exclude = nodes[k]),
    error = function(e) NULL)
}
taken <- proc.time() - started
out <- file(file.path(folder, "weights.txt"), "w")
for (k in seq_along(nodes)) {
  fit <- fits[[k]]
  if (is.null(fit)) { cat(nodes[k], -1, 0, "\\n", file = out); next }
  last <- length(fit$lambda)
  reached <- abs(fit$lambda[last] / lambda - 1) < 1e-6
  cat(nodes[k], 0, format(fit$a0[[last]], digits = 17), "\\n", file = out)
  if (!reached) cat(nodes[k], -2, 0, "\\n", file = out)
  beta <- fit$beta[, last]
  for (j in which(beta != 0)) cat(nodes[k], j, format(beta[[j]], digits = 17), "\\n", file = out)
}
close(out)
cat(taken[["elapsed"]], taken[["user.self"]] + taken[["sys.self"]], "\\n", file = file.path(folder, "seconds.txt"))
"""
"""weights.txt: a node; 0 for its intercept, a column from 1 on for a weight, -1 for no fit, -2 for a path cut short."""


@dataclass(frozen=True)
class TimedFits:
    """Timed fits are regressions with the wall and CPU seconds that R measured for them."""

    fits: list[NodeFit]
    seconds: float
    cpu_seconds: float = 0.0


def has_glmnet() -> bool:
    """Return whether R and its package glmnet are installed."""
    return has_packages("glmnet", "Matrix")


def fit_glmnet(
    samples: Any, l1: float, chosen: Sequence[int] | None = None, *, start: float = 8.0, steps: int = 4
) -> TimedFits:
    """Fit the regressions of some nodes, or of all.

    Parameters
    ----------
    samples : array or sparse matrix (rows, nodes) of 0/1
        glmnet gets a dense or a sparse matrix, as given here.
    l1 : float
        For losses summed over rows; glmnet's lambda is this over the rows.
    chosen : sequence of int, optional
    start, steps : float, int
        The path begins at ``start`` times the value that is wanted, and has so many values: 8, 4, 2 and 1 times by
        default. Where columns depend strongly on each other, a path that begins too low does not converge.
    """
    rows, nodes = samples.shape
    counts = np.asarray(samples.sum(axis=0, dtype=np.int64)).ravel()
    wanted = list(range(nodes) if chosen is None else chosen)
    varying = [node for node in wanted if 0 < counts[node] < rows]
    with tempfile.TemporaryDirectory(prefix="sparsefield-glmnet-") as name:
        folder = Path(name)
        scipy.io.mmwrite(folder / "samples.mtx", sp.coo_matrix(samples), field="real", symmetry="general")
        (folder / "nodes.txt").write_text("\n".join(str(node + 1) for node in varying) + "\n")
        kind = "sparse" if sp.issparse(samples) else "dense"
        seconds = run_script(folder, SCRIPT, repr(float(l1) / rows), kind, start, steps)
        cpu_seconds = read_cpu_seconds(folder)
        fits = read_weights((folder / "weights.txt").read_text(), seconds / max(len(varying), 1))
    found = {fit.node: fit for fit in fits}
    for node in wanted:
        if node not in found or not np.isfinite(found[node].bias):
            bias = constant_logit(counts[node] / rows, rows)
            found[node] = NodeFit(node, bias, np.empty(0, dtype=np.int64), np.empty(0), node not in found)
    return TimedFits([found[node] for node in wanted], seconds, cpu_seconds)


def read_weights(text: str, seconds: float = 0.0) -> list[NodeFit]:
    """Parse the output of the script; a node without a fit has the bias NaN.

    Examples
    --------
    >>> (fit,) = read_weights("2 0 -1.5\\n2 1 0.25\\n")
    >>> fit.node, fit.bias, fit.columns.tolist(), fit.weights.tolist()
    (1, -1.5, [0], [0.25])
    """
    lines: dict[int, list[tuple[int, float]]] = {}
    for line in text.splitlines():
        node, column, value = line.split()
        lines.setdefault(int(node) - 1, []).append((int(column), float(value)))
    fits = []
    for node, entries in lines.items():
        columns = np.array([column - 1 for column, _ in entries if column > 0], dtype=np.int64)
        weights = np.array([value for column, value in entries if column > 0])
        bias = next((value for column, value in entries if column == 0), float("nan"))
        fits.append(NodeFit(node, bias, columns, weights, all(column >= 0 for column, _ in entries), seconds))
    return fits

"""This module calls packages of R for tables of mixed columns: mice to impute them, huge, qgraph and glmnet for graphs.

A table is (rows, columns) numbers, NaN for a missing cell; the states of a nominal or ordinal column are 0, 1, ...
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.r_scripts import run_script

__all__ = [
    "TimedByR",
    "draw_with_mice",
    "estimate_with_glmnet",
    "estimate_with_huge",
    "estimate_with_qgraph",
    "impute_with_mice",
]

Array = np.ndarray[Any, np.dtype[Any]]
Edges = set[tuple[int, int]]


class TimedByR(NamedTuple):
    """A result of R, and the seconds that R measured for it: without starting, and without reading files."""

    result: Any
    seconds: float


MICE = """
suppressMessages(library(mice))
args <- commandArgs(trailingOnly = TRUE)
folder <- args[1]
table <- read.csv(file.path(folder, "table.csv"), header = FALSE, na.strings = "nan")
kinds <- scan(file.path(folder, "kinds.txt"), what = character(), quiet = TRUE)
for (k in seq_along(kinds)) {
  if (kinds[k] == "nominal") table[[k]] <- factor(table[[k]])
  if (kinds[k] == "ordinal") table[[k]] <- factor(table[[k]], ordered = TRUE)
}
started <- proc.time()[["elapsed"]]
imputed <- mice(table, m = as.integer(args[2]), seed = as.integer(args[3]), printFlag = FALSE)
seconds <- proc.time()[["elapsed"]] - started
for (k in seq_len(imputed$m)) {
  completed <- complete(imputed, k)
  # The labels of a factor, not its codes.
  completed[] <- lapply(completed, function(column) as.numeric(as.character(column)))
  write.table(format(completed, digits = 17), file.path(folder, paste0("completed", k, ".csv")),
              sep = ",", quote = FALSE, row.names = FALSE, col.names = FALSE, na = "nan")
}
cat(seconds, "\\n", file = file.path(folder, "seconds.txt"))
"""


def impute_with_mice(table: Array, kinds: Sequence[str], imputations: int = 5, *, seed: int = 0) -> TimedByR:
    """Return a table filled by R's mice with its defaults for each kind: pmm, logreg, polyreg and polr.

    A number is the mean of its imputations, and a state the most frequent of them, the smallest of equally frequent
    ones. The kind "levels" is an ordinal column that mice gets as numbers.
    """
    found, seconds = draw_with_mice(table, kinds, imputations, seed=seed)
    filled = found.mean(axis=0)
    for k, kind in enumerate(kinds):
        if kind != "numeric":
            counts = (found[:, :, k, None] == np.unique(found[:, :, k])).sum(axis=0)
            filled[:, k] = np.unique(found[:, :, k])[counts.argmax(axis=1)]
    return TimedByR(filled, seconds)


def draw_with_mice(table: Array, kinds: Sequence[str], imputations: int = 5, *, seed: int = 0) -> TimedByR:
    """Return the tables (imputations, rows, columns) that mice imputes with its defaults for each kind."""
    with tempfile.TemporaryDirectory(prefix="sparsefield-mice-") as name:
        folder = Path(name)
        _write(folder, table, kinds)
        seconds = run_script(folder, MICE, imputations, seed)
        return TimedByR(np.stack([_read(folder / f"completed{k + 1}.csv") for k in range(imputations)]), seconds)


GLASSO = """
args <- commandArgs(trailingOnly = TRUE)
folder <- args[1]
X <- as.matrix(read.csv(file.path(folder, "table.csv"), header = FALSE))
suppressMessages(library(args[2], character.only = TRUE))
started <- proc.time()[["elapsed"]]
if (args[2] == "huge") {
  path <- huge(X, method = "glasso", nlambda = 30, lambda.min.ratio = 0.05, verbose = FALSE)
  # The log-likelihoods that huge.select uses (1.3.5) fall when the first edges enter, so that it selects none.
  S <- cor(X)
  likelihood <- sapply(path$icov, function(K) determinant(as.matrix(K))$modulus - sum(S * K))
  ebic <- -nrow(X) * likelihood + path$df * (log(nrow(X)) + 4 * 0.5 * log(ncol(X)))
  found <- as.matrix(path$path[[which.min(ebic)]])
} else {
  found <- suppressMessages(suppressWarnings(EBICglasso(cor(X), nrow(X), verbose = FALSE)))
}
seconds <- proc.time()[["elapsed"]] - started
write.table((found != 0) * 1, file.path(folder, "edges.csv"), sep = ",", row.names = FALSE, col.names = FALSE)
cat(seconds, "\\n", file = file.path(folder, "seconds.txt"))
"""


def estimate_with_huge(table: Array) -> TimedByR:
    """Return the edges of the graphical lasso of R's huge with the best EBIC (gamma 0.5) of its path."""
    return _estimate(table, [], GLASSO, "huge")


def estimate_with_qgraph(table: Array) -> TimedByR:
    """Return the edges of EBICglasso of R's qgraph (gamma 0.5)."""
    return _estimate(table, [], GLASSO, "qgraph")


NODEWISE = """
suppressMessages(library(glmnet))
args <- commandArgs(trailingOnly = TRUE)
folder <- args[1]
table <- read.csv(file.path(folder, "table.csv"), header = FALSE)
kinds <- scan(file.path(folder, "kinds.txt"), what = character(), quiet = TRUE)
n <- nrow(table)
nominal <- kinds == "nominal"
table[nominal] <- lapply(table[nominal], factor)
table[!nominal] <- lapply(table[!nominal], function(column) as.vector(scale(column)))
# As in mgm: indicators of all states but the first.
designs <- lapply(table, function(column) model.matrix(~ column)[, -1, drop = FALSE])
threshold <- function(weights) {
  weights[abs(weights) < sqrt(sum(weights^2)) * sqrt(log(length(weights)) / n)] <- 0
  weights
}
started <- proc.time()[["elapsed"]]
neighbors <- matrix(0, length(kinds), length(kinds))
for (v in seq_along(kinds)) {
  X <- do.call(cbind, designs[-v])
  owner <- rep(seq_along(kinds)[-v], sapply(designs[-v], ncol))
  family <- if (nominal[v]) "multinomial" else "gaussian"
  fit <- glmnet(X, table[[v]], family = family)
  # The deviance of a number is that of a variance of 1, as in mgm.
  deviance <- (1 - fit$dev.ratio) * fit$nulldev
  size <- if (nominal[v]) colSums(Reduce(`+`, lapply(fit$beta, function(b) as.matrix(b) != 0)) > 0) else fit$df
  ebic <- deviance + size * (log(n) + 2 * 0.25 * log(ncol(X)))
  weights <- coef(fit, s = fit$lambda[which.min(ebic)])
  weights <- if (nominal[v]) lapply(weights, as.vector) else list(as.vector(weights))
  for (part in weights) {
    used <- owner[threshold(part[-1]) != 0]
    neighbors[v, used] <- 1
  }
}
seconds <- proc.time()[["elapsed"]] - started
write.table(neighbors * t(neighbors), file.path(folder, "edges.csv"), sep = ",", row.names = FALSE, col.names = FALSE)
cat(seconds, "\\n", file = file.path(folder, "seconds.txt"))
"""


def estimate_with_glmnet(table: Array, kinds: Sequence[str]) -> TimedByR:
    """Return the edges of regressions of every column on all others by R's glmnet, as R's mgm combines them.

    Nominal columns have multinomial regressions, and others linear ones, with the best EBIC (gamma 0.25) of glmnet's
    path. Weights below the threshold of Loh and Wainwright (2012) are dropped, and edges are those that both
    regressions have.
    """
    return _estimate(table, kinds, NODEWISE)


def _estimate(table: Array, kinds: Sequence[str], script: str, *arguments: Any) -> TimedByR:
    with tempfile.TemporaryDirectory(prefix="sparsefield-graph-") as name:
        folder = Path(name)
        _write(folder, table, kinds)
        seconds = run_script(folder, script, *arguments)
        found = _read(folder / "edges.csv")
    edges: Edges = {(int(a), int(b)) for a, b in zip(*np.nonzero(np.triu(found, 1)), strict=True)}
    return TimedByR(edges, seconds)


def _write(folder: Path, table: Array, kinds: Sequence[str]) -> None:
    np.savetxt(folder / "table.csv", table, fmt="%.17g", delimiter=",")
    (folder / "kinds.txt").write_text(" ".join(kinds) + "\n")


def _read(path: Path) -> Array:
    return np.loadtxt(path, delimiter=",", ndmin=2)

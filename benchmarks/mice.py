"""This module imputes 0/1 tables many times with R's mice, and pools column means and pair weights."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.r_scripts import has_packages, run_script

__all__ = ["PooledImputations", "has_mice", "impute_with_mice"]

Array = np.ndarray[Any, np.dtype[Any]]

SCRIPT = """
suppressMessages(library(mice))
args <- commandArgs(trailingOnly = TRUE)
folder <- args[1]
table <- read.csv(file.path(folder, "table.csv"), header = FALSE, na.strings = "nan")
table[] <- lapply(table, factor, levels = c(0, 1))
started <- proc.time()[["elapsed"]]
imputed <- mice(table, m = as.integer(args[2]), seed = as.integer(args[3]), method = "logreg", printFlag = FALSE)
seconds <- proc.time()[["elapsed"]] - started
means <- 0
weights <- 0
for (k in seq_len(imputed$m)) {
  X <- sapply(complete(imputed, k), function(column) as.numeric(column) - 1)
  means <- means + colMeans(X) / imputed$m
  # Row j has the coefficients of column j on the others.
  found <- matrix(0, ncol(X), ncol(X))
  for (j in seq_len(ncol(X))) found[j, -j] <- glm.fit(cbind(1, X[, -j]), X[, j], family = binomial())$coefficients[-1]
  weights <- weights + found / imputed$m
}
write.table(format(t(means), digits = 17), file.path(folder, "means.csv"),
            sep = ",", quote = FALSE, row.names = FALSE, col.names = FALSE)
write.table(format(weights, digits = 17), file.path(folder, "weights.csv"),
            sep = ",", quote = FALSE, row.names = FALSE, col.names = FALSE)
cat(seconds, "\\n", file = file.path(folder, "seconds.txt"))
"""


@dataclass(frozen=True)
class PooledImputations:
    """Pooled imputations are estimates that are averaged over the imputed tables.

    Attributes
    ----------
    means : array (columns,)
    weights : array (columns, columns)
        Coefficients of logistic regressions of each column on the others, averaged over both directions of a pair.
    seconds : float
        What R measured for the imputations.
    """

    means: Array
    weights: Array
    seconds: float


def has_mice() -> bool:
    """Return whether R and its package mice are installed."""
    return has_packages("mice")


def impute_with_mice(table: Array, imputations: int = 20, *, seed: int = 0) -> PooledImputations:
    """Impute a table by chained logistic regressions (``method="logreg"``, five iterations, mice's default).

    Parameters
    ----------
    table : array (rows, columns) of 0.0 and 1.0
        NaN marks a missing cell.
    imputations : int
        Number of imputed tables, mice's ``m``.
    seed : int
    """
    with tempfile.TemporaryDirectory(prefix="sparsefield-mice-") as name:
        folder = Path(name)
        np.savetxt(folder / "table.csv", table, fmt="%.0f", delimiter=",")
        seconds = run_script(folder, SCRIPT, imputations, seed)
        means, weights = (np.loadtxt(folder / f"{which}.csv", delimiter=",") for which in ("means", "weights"))
        return PooledImputations(means, (weights + weights.T) / 2.0, seconds)

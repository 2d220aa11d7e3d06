"""This module follows the regularization path of one L1 logistic regression per column with R's glmnet."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from benchmarks.dependent_data import SplitRows
from benchmarks.r_scripts import read_cpu_seconds, run_script

__all__ = ["PathFits", "fit_paths"]

Array = np.ndarray[Any, np.dtype[Any]]

VALUES = 20
RATIO = 0.01
"""Values of a path, and the last of them as a share of the first."""

SCRIPT = """
suppressMessages({library(Matrix); library(glmnet)})
args <- commandArgs(trailingOnly = TRUE)
folder <- args[1]
read <- function(name) {
  cells <- as(readMM(file.path(folder, paste0(name, ".mtx"))), "CsparseMatrix") * 1.0
  if (args[4] == "dense") as.matrix(cells) else cells
}
X <- read("train"); V <- read("validation"); H <- read("held_out")
nodes <- scan(file.path(folder, "nodes.txt"), what = integer(), quiet = TRUE)
ys <- lapply(nodes, function(j) as.numeric(X[, j]))
fits <- vector("list", length(nodes))
started <- proc.time()
for (k in seq_along(nodes)) {
  fits[[k]] <- glmnet(X, ys[[k]], family = "binomial", nlambda = as.integer(args[2]),
                      lambda.min.ratio = as.numeric(args[3]), standardize = FALSE, exclude = nodes[k])
}
taken <- proc.time() - started
log_likelihood <- function(fit, cells, node) {
  logits <- as.matrix(predict(fit, cells))
  signs <- 2 * as.numeric(cells[, node]) - 1
  colMeans(-log1p(exp(-abs(logits))) + pmin(signs * logits, 0))
}
out <- file(file.path(folder, "scores.txt"), "w")
for (k in seq_along(nodes)) {
  best <- which.max(log_likelihood(fits[[k]], V, nodes[k]))
  score <- log_likelihood(fits[[k]], H, nodes[k])[best]
  cat(format(score, digits = 17), fits[[k]]$df[best], "\\n", file = out)
}
close(out)
cat(taken[["elapsed"]], taken[["user.self"]] + taken[["sys.self"]], "\\n", file = file.path(folder, "seconds.txt"))
"""


@dataclass(frozen=True)
class PathFits:
    """Paths of some columns: their time, and the held-out score of the value that is best on validation rows.

    Attributes
    ----------
    seconds, cpu_seconds : float
        Of all paths together; reading the data and choosing a value are not in them.
    scores : array (columns,)
        Mean log-likelihood of the column's held-out cells.
    weights : int
        Weights of all columns together, at the chosen values.
    """

    seconds: float
    cpu_seconds: float
    scores: Array
    weights: int


def fit_paths(data: SplitRows, chosen: Sequence[int], *, sparse: bool = False) -> PathFits:
    """Follow the paths of some columns, which must vary, over 20 values of lambda."""
    with tempfile.TemporaryDirectory(prefix="sparsefield-glmnet-") as name:
        folder = Path(name)
        for part in ("train", "validation", "held_out"):
            cells = sp.coo_matrix(getattr(data, part))
            scipy.io.mmwrite(folder / f"{part}.mtx", cells, field="real", symmetry="general")
        (folder / "nodes.txt").write_text("\n".join(str(node + 1) for node in chosen) + "\n")
        seconds = run_script(folder, SCRIPT, VALUES, RATIO, "sparse" if sparse else "dense")
        found = np.loadtxt(folder / "scores.txt", ndmin=2)
        return PathFits(seconds, read_cpu_seconds(folder), found[:, 0], int(found[:, 1].sum()))

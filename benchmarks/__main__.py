"""This module runs a benchmark: ``python -m benchmarks NAME``."""

import sys

import typer

from benchmarks import (
    ablations,
    centrality,
    cluster,
    comparison,
    cores,
    coverage,
    denoising,
    density,
    dependent,
    files,
    fill,
    gpu,
    heldout,
    imputation,
    inference,
    latent,
    likelihood,
    missing,
    mixed,
    multilabel,
    network,
    objectives,
    pages,
    paper,
    peers,
    policy,
    profile,
    scale,
    selection,
    sequences,
    shop,
    small,
    startup,
)
from sparsefield.app.cli import run_app

app = typer.Typer(help="Measure sparsefield and other tools on the same data.", add_completion=False)
for module in (
    peers, scale, paper, small, startup, fill, imputation, missing, mixed, heldout, latent,
    inference, selection, ablations, network, sequences, denoising, likelihood, objectives, multilabel, cluster,
    dependent, cores, profile, centrality, coverage, comparison, pages,
    files, policy, density, gpu, shop,
):  # fmt: skip
    app.command(module.__name__.removeprefix("benchmarks."))(module.command)
app.command("hyphenation")(sequences.hyphenation_command)

if __name__ == "__main__":
    sys.exit(run_app(app, "python -m benchmarks"))

"""Run a benchmark: ``python -m benchmarks NAME``."""

import sys

from benchmarks import cluster_command
from benchmarks.commands import app
from sparsefield.cli import run_app

app.command("cluster")(cluster_command.cluster)

if __name__ == "__main__":
    sys.exit(run_app(app, "python -m benchmarks"))

"""This module reproduces results of the paper: ``python -m reproduction --help`` lists them."""

import sys

from reproduction.table1_command import app
from sparsefield.app.cli import run_app

if __name__ == "__main__":
    sys.exit(run_app(app, "python -m reproduction"))

"""This module reproduces a result of the paper: ``python -m reproduction table1 | figures | claims``."""

import sys

from reproduction.table1_command import app
from sparsefield.cli import run_app

if __name__ == "__main__":
    sys.exit(run_app(app, "python -m reproduction"))

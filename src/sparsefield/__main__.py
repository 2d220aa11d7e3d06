"""``python -m sparsefield`` is the command ``sparsefield``."""

from sparsefield.app.cli import main

main()

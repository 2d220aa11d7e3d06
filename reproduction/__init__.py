"""This package reproduces the paper's table, figures and claims: ``python -m reproduction --help``."""

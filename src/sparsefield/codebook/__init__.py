"""This package describes the columns of a table before anything is learned from it."""

from __future__ import annotations

from sparsefield.codebook.codebook import Codebook, inspect
from sparsefield.codebook.column_entries import Advice, ColumnEntry, Finding, LevelCount

__all__ = ["Advice", "Codebook", "ColumnEntry", "Finding", "LevelCount", "inspect"]

"""Data with a known answer, and comparisons with what else there is."""

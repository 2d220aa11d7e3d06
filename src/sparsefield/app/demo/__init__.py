"""Demonstrations of the command line."""

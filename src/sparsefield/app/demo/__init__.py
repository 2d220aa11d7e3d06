"""This package contains the demonstrations of the command line."""

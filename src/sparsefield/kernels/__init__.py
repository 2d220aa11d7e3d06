"""This package holds Numba functions on arrays. Each runs serially and without the GIL, on one block of rows."""

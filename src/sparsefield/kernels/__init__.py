"""Numba functions, arrays in and arrays out: serial, without the interpreter's lock, over one block of rows."""

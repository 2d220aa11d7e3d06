"""Tools around the library: tables, pages, command line, and synthetic data."""

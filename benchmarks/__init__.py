"""This package compares sparsefield with other tools; ``python -m benchmarks --help`` lists the benchmarks."""

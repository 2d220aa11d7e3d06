"""Benchmarks of sparsefield beside other tools; ``python -m benchmarks --help`` lists them."""

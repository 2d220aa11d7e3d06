"""Synthetic fields and rows drawn from them."""

from sparsefield.app.datasets.synthetic import SyntheticField, make_markov_field, make_potts

__all__ = ["SyntheticField", "make_markov_field", "make_potts"]

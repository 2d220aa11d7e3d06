"""Public datasets for examples and benchmarks, and synthetic fields."""

from sparsefield.app.datasets.public import DATASETS, Animals, Nations, Splits, data_folder, load_dataset, load_mixed
from sparsefield.app.datasets.synthetic import SyntheticField, make_markov_field, make_potts

__all__ = [
    "DATASETS",
    "Animals",
    "Nations",
    "Splits",
    "SyntheticField",
    "data_folder",
    "load_dataset",
    "load_mixed",
    "make_markov_field",
    "make_potts",
]

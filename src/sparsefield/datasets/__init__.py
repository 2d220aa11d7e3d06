"""Public data sets for examples and benchmarks, and fields that are made up."""

from sparsefield.datasets.public import DATASETS, Animals, Nations, Splits, data_folder, load_dataset
from sparsefield.datasets.synthetic import SyntheticField, make_markov_field

__all__ = [
    "DATASETS",
    "Animals",
    "Nations",
    "Splits",
    "SyntheticField",
    "data_folder",
    "load_dataset",
    "make_markov_field",
]

"""Public data sets for examples and benchmarks, and fields that are made up."""

from sparsefield.datasets.public import DATASETS, Animals, Nations, Splits, data_folder, load_dataset
from sparsefield.datasets.synthetic import MadeField, make_field

__all__ = ["DATASETS", "Animals", "MadeField", "Nations", "Splits", "data_folder", "load_dataset", "make_field"]

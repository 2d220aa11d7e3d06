"""This module defines the options of features that have three and more columns."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Literal

import numpy as np

from sparsefield.option_objects import OptionObject

__all__ = ["HigherOrder"]


@dataclass(frozen=True)
class HigherOrder(OptionObject):
    """Which conjunctions of states are candidates, and how strongly they are penalized.

    Parameters
    ----------
    max_order : int
        Largest number of columns in a feature.
    expand : {"active", "all"}
        "active" extends features with a weight by one column. "all" extends every pair of states, too: for
        dependencies such as an exclusive or, which no pair shows. It scores all triples, so it is for tables of at most
        some hundred states.
    order_penalty : float
        Factor on l1 for each column beyond two: there are so many triples that some look useful by chance.
    """

    max_order: int = 3
    expand: Literal["active", "all"] = "active"
    order_penalty: float = 2.0

    def check(self) -> None:
        """Raise a ValueError for an option that makes no sense."""
        if not isinstance(self.max_order, Integral) or self.max_order < 2:
            raise ValueError(f"max_order must be a whole number from 2, got {self.max_order}.")
        if self.expand not in ("active", "all"):
            raise ValueError(f"expand must be 'active' or 'all', got {self.expand!r}.")
        if not np.isfinite(self.order_penalty) or self.order_penalty < 1.0:
            raise ValueError(f"order_penalty must be a number from 1, got {self.order_penalty}.")

"""This module defines the type of the frames that estimators return: of pandas, polars or another library."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

TableT = TypeVar("TableT")
"""A table that a method returns in the kind in which it was passed: a frame, an array or a sparse matrix."""


class Frame(Protocol):
    """A data frame of the library that the training data came in; polars where these were arrays.

    Only what all libraries share is declared here; other attributes are those of the library.
    """

    @property
    def columns(self) -> Any: ...

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any) -> Any: ...

    def __getattr__(self, name: str) -> Any: ...

    def drop(self, *args: Any, **kwargs: Any) -> Any: ...

    def join(self, *args: Any, **kwargs: Any) -> Any: ...

"""This module lets a package import its public names on first use, so that the command line starts quickly."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(package: str, names_of_module: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package that imports names from their modules when they are first used.

    Parameters
    ----------
    package : name of the package
    names_of_module : {module, relative to the package: public names}
    """
    module_of_name = {name: module for module, names in names_of_module.items() for name in names}

    def get(name: str) -> Any:
        if name not in module_of_name:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{module_of_name[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get

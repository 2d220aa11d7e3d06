"""Engine on a device of torch: a GPU, or the CPU by the same code. Needs the extra ``gpu``."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sparsefield.compute.threads import Threads
from sparsefield.errors import DataError, DeviceWarning


def is_device(name: Any) -> bool:
    """Return whether the ``engine`` of a solver names a device of torch.

    Examples
    --------
    >>> is_device("cuda:1"), is_device("auto"), is_device("dask://host:8786"), is_device(None)
    (True, True, False, False)
    """
    return isinstance(name, str) and re.fullmatch(r"auto|torch|cuda(:\d+)?", name) is not None


def import_torch() -> Any:
    """Return the module torch, or raise a ValueError that says how to install it."""
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except (ImportError, OSError) as error:  # OSError: a library of the GPU's maker that does not load
        reason = "" if isinstance(error, ModuleNotFoundError) else f" ({str(error).splitlines()[0]})"
        raise ValueError(f"A GPU needs torch{reason}: pip install 'sparsefield[gpu]'.") from None
    return torch


def open_device(name: str) -> Any:
    """Return the `torch.device` of an engine's name, after a trial that it works; otherwise raise a ValueError."""
    torch = import_torch()
    if name == "torch":
        return torch.device("cpu")
    name = "cuda" if name == "auto" else name
    remedy = "use engine='torch' for the same code on the CPU, or leave engine (--gpu) out."
    with warnings.catch_warnings(record=True) as caught:  # torch warns of a driver that is too old
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    if not available:
        reason = str(caught[0].message).splitlines()[0].rstrip(". ") if caught else "it finds no GPU"
        built = f"torch {torch.__version__}: " + (reason if torch.version.cuda else "it was built without CUDA")
        raise ValueError(f"engine={name!r} cannot be used by {built}; {remedy}")
    count, number = torch.cuda.device_count(), int(name.partition(":")[2] or 0)
    if number >= count:
        raise ValueError(f"engine={name!r} cannot be used: the GPUs here have the numbers 0 to {count - 1}; {remedy}")
    device = torch.device("cuda", number)
    try:
        torch.ones(1, dtype=torch.float64, device=device).sum().item()
    except RuntimeError as error:
        raise ValueError(f"engine={name!r} cannot be used: {str(error).splitlines()[0]}; {remedy}") from None
    return device


def open_engine(name: str, n_jobs: int | None = None) -> Threads:
    """Return the engine of a device's name; "auto" is the CPU's threads, with a warning, where there is no GPU."""
    try:
        return TorchEngine(open_device(name), n_jobs)
    except ValueError as error:
        if name != "auto":
            raise
        warnings.warn(f"The fit runs on the CPU: {error}", DeviceWarning, stacklevel=2)
        return Threads(n_jobs)


class TorchEngine(Threads):
    """Threads of this process, and a device on which the loss, its gradient and all scores are computed.

    Parameters
    ----------
    device : `torch.device`
    n_jobs : threads for what the CPU does, such as draws of missing cells
    """

    def __init__(self, device: Any, n_jobs: int | None = None) -> None:
        super().__init__(n_jobs)
        self.device = device


@contextmanager
def memory_errors(device: Any, needed: float, what: str) -> Iterator[None]:
    """Raise a DataError with figures where the memory of a device does not suffice; ``needed`` are bytes at least."""
    torch = import_torch()
    try:
        yield
    except torch.OutOfMemoryError:
        free = torch.cuda.mem_get_info(device)[1]
        raise DataError(
            f"{what} take more than {needed / 2**30:.1f} GiB on {device}, which has {free / 2**30:.1f} GiB: use fewer "
            "rows or columns, a larger l1, or leave engine (--gpu) out."
        ) from None

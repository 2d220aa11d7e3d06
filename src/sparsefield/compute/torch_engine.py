"""Engine on a device of torch: a GPU, or the CPU by the same code. Needs the extra ``gpu``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sparsefield.compute.threads import Threads
from sparsefield.errors import DataError, DeviceWarning


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of a driver that is too old, and says so again in its error
        try:
            torch.ones(1, dtype=torch.float64, device=name).sum().item()
        except (RuntimeError, AssertionError) as error:  # AssertionError: of a torch that was built without CUDA
            reason = str(error).splitlines()[0].rstrip(". ")
            raise ValueError(
                f"engine={name!r} cannot be used by torch {torch.__version__}: {reason}; "
                "use engine='torch' for the same code on the CPU, or leave engine (--gpu) out."
            ) from None
    return torch.device(name)


def open_engine(name: str, n_jobs: int | None = None) -> Threads:
    """Return threads for the CPU, with the device of a name: none, and a warning, for "auto" without a GPU."""
    engine = Threads(n_jobs)
    try:
        engine.device = open_device(name)
    except ValueError as error:
        if name != "auto":
            raise
        warnings.warn(f"The fit runs on the CPU: {error}", DeviceWarning, stacklevel=2)
    return engine


def memory_of(device: Any) -> float:
    """Return the bytes of a GPU's memory; infinite for the CPU, whose memory is checked where rows are compiled."""
    return float(import_torch().cuda.mem_get_info(device)[1]) if device.type == "cuda" else float("inf")


@contextmanager
def memory_errors(device: Any, needed: float, what: str) -> Iterator[None]:
    """Raise a DataError with figures where the memory of a device does not suffice; ``needed`` are bytes at least."""
    torch = import_torch()
    try:
        yield
    except torch.OutOfMemoryError:
        whole = memory_of(device) / 2**30
        raise DataError(
            f"{what} take more than {needed / 2**30:.1f} GiB on {device}, which has {whole:.1f} GiB: use fewer "
            "rows or columns, a larger l1, or leave engine (--gpu) out."
        ) from None

"""Ctrl-C at any moment of a command ends it as such, with a complete result or none."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from fuzz.campaigns.model_files import table
from fuzz.recipes import Campaign, Step, WrongResultError, first_step
from sparsefield import load


def draw(rng: random.Random) -> list[Step]:
    """Return after how many seconds the signal comes."""
    return [("after", rng.choice((1.0, 4.0, 12.0)) * rng.random())]


def run(steps: list[Step], folder: Path) -> None:
    """Interrupt a fit."""
    data, model = folder / "table.csv", folder / "m.safetensors"
    table().write_csv(data)
    program = "print(flush=True); from sparsefield.app.cli import main; main()"
    words = [sys.executable, "-c", program, "fit", str(data), "-o", str(model), "--l1", "2"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.readline()  # Python itself has started
        time.sleep(first_step(steps, "after", (1.0,))[0])
        process.send_signal(signal.SIGINT)
        process.communicate()
    if process.returncode not in (0, 130, -signal.SIGINT):  # the last is Python's own, at the very end
        raise WrongResultError(f"the exit code of an interrupted fit is {process.returncode}")
    others = {path.name for path in folder.iterdir()} - {data.name, model.name}
    if others:
        raise WrongResultError(f"an interrupted fit left {', '.join(sorted(others))} behind")
    if model.is_file():
        load(model)


CAMPAIGN = Campaign("interrupts", draw, run, has_kernels=False, batch=2)

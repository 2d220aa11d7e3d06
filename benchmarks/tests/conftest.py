"""The benchmarks' command line."""

from __future__ import annotations

import pytest
from program import run_program

from benchmarks.__main__ import app


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    return lambda *args: run_program(app, capsys, *args)

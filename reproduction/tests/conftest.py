"""The command line of the study."""

from __future__ import annotations

import pytest
from program import run_program

from reproduction.table1_command import app


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    return lambda *args: run_program(app, capsys, *args)

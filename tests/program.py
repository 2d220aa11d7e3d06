"""Programs of the repository, called in the process of a test as a person would call them."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import typer

from sparsefield.app.cli import run_app


class ProgramResult(NamedTuple):
    """Exit code and output of a program."""

    code: int
    out: str
    err: str

    def ok(self) -> ProgramResult:
        """Return the result of a program that succeeded."""
        assert self.code == 0, self.err
        return self

    def one_error(self, *words: str) -> None:
        """Assert that one line names the error, in these words, with the exit code of bad data and no output."""
        assert (self.code, self.out) == (2, "")
        (line,) = [line for line in self.err.splitlines() if line.startswith("Error: ")]
        assert "Note: " not in self.err
        assert "Traceback" not in self.err
        for word in words:
            assert word in line


def run_program(app: typer.Typer, capsys: pytest.CaptureFixture[str], *args: object) -> ProgramResult:
    """Run a command of a Typer application and collect what it prints."""
    code = run_app(app, "program", [str(word) for word in args])
    return ProgramResult(code, *capsys.readouterr())

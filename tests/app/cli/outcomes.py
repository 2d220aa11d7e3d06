"""What a call of the command line came to."""

from __future__ import annotations

from typing import NamedTuple


class Outcome(NamedTuple):
    """Exit code, and what was printed to either side."""

    code: int
    out: str
    err: str

    def one_error(self, *words: str) -> None:
        """One line says what is wrong, in these words; the code is that of bad data, and nothing else is printed."""
        assert self.code == 2
        assert self.out == ""
        (line,) = [line for line in self.err.splitlines() if line.startswith("Error: ")]
        assert "Note: " not in self.err
        assert "Traceback" not in self.err
        for word in words:
            assert word in line

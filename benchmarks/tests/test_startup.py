"""What is timed runs in a fresh process, with the folder of compiled code that it is given."""

from __future__ import annotations

import pytest

from benchmarks import startup


def test_a_statement_is_timed_and_a_failure_quoted() -> None:
    seconds = startup._seconds("import time", "time.sleep(0.05)", {}, 600.0)
    assert isinstance(seconds, float)
    assert seconds >= 0.05
    assert startup._seconds("", "raise ValueError('no')", {}, 600.0) == "failed: ValueError: no"
    assert startup._seconds("import time", "time.sleep(60)", {}, 1.0) == "cut off after 1 s"


def test_rows_come_with_what_lies_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def seconds(before: str, timed: str, more: dict[str, str], limit: float | None) -> float:
        asked.append((timed, more.get("NUMBA_CACHE_DIR")))
        return 10.0 if "fit" in timed and asked.count(asked[-1]) == 1 else len(timed) / 100

    monkeypatch.setattr(startup, "_seconds", seconds)
    monkeypatch.setattr(startup, "_time_commands", lambda repeats, limit: iter(()))
    table = startup.run_startup(repeats=2, report=lambda line: None)
    assert [row["data"] for row in table] == ["import"] * 3 + ["fit, dense table"] * 2 + ["fit, sparse matrix"] * 2
    assert table[2]["beyond"] == pytest.approx(table[2]["seconds"] - table[0]["seconds"])
    assert (table[3]["method"], table[3]["seconds"]) == ("first ever", 10.0)
    assert table[3]["beyond"] == pytest.approx(10.0 - table[4]["seconds"])
    folders = {folder for timed, folder in asked if "fit" in timed}
    assert len(folders) == 2
    assert None not in folders


def test_the_fits_that_are_timed_run() -> None:
    for before in startup.FITS.values():
        names: dict = {}
        exec(before + "field = MarkovField().fit(X)", names)
        assert names["field"].converged_


def test_commands_are_timed_by_their_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "COMMANDS", {"version": "--version"})
    (row,) = startup._time_commands(1, 60.0)
    assert (row["data"], row["method"], row["status"]) == ("command", "version", "done")
    assert row["seconds"] > 0.0

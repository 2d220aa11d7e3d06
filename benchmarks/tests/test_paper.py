"""The paper's methods side by side, on a small network."""

from __future__ import annotations

import pytest

from benchmarks import paper
from benchmarks.paper import draw_paper, run_paper


def test_every_method_has_its_rows_and_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper, "in_child", lambda function, *args, time_limit: function(*args))
    table = run_paper(20, 80, held_out=40, report=lambda line: None)
    assert [(row["method"], row["batch"]) for row in table] == [
        ("CFI", 50),
        ("Grafting", 50),
        ("Full-L1", "all"),
        ("CFI with margins", 50),
    ]
    for row in table:
        assert row["status"] == "done"
        assert 0 <= row["scoring_seconds"] <= row["seconds"]
        assert 0 < row["features"] <= 190
        assert row["error"] < 0.5
        assert row["cll"] > -0.693
    assert table[0]["times_cfi"] == table[0]["products_times_cfi"] == 1.0
    assert table[2]["times_cfi"] == table[2]["seconds"] / table[0]["seconds"]
    grafting = table[1]
    assert grafting["products"] % (grafting["scorings"] * 20 * 20) == 0  # equal rows are one row with a weight
    assert grafting["products"] <= grafting["scorings"] * 20 * 20 * 80
    assert 0 < table[0]["products"] < grafting["products"]


def test_a_method_that_takes_too_long_is_cut_off() -> None:
    lines: list[str] = []
    table = run_paper(12, 40, methods=["full"], held_out=20, time_limit=0.0, report=lines.append)
    assert table[0]["status"] == "cut off after 0 s"
    assert table[0]["times_cfi"] is None
    assert lines[-1] == "  Full-L1, batch all: cut off after 0 s"


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(ValueError, match="no method called 'lasso'; there are cfi-paper, grafting, full, cfi"):
        run_paper(12, methods=["lasso"])


@pytest.mark.usefixtures("matplotlib")
def test_the_chart_has_a_bar_per_row_and_says_which_were_cut_off() -> None:
    done = {"data": "N=20, M=80", "method": "CFI", "batch": 50, "status": "done", "seconds": 2.0}
    table = [done | {"scoring_seconds": 0.5}, done | {"method": "Full-L1", "batch": "all", "status": "cut off"}]
    (axes,) = draw_paper(table)["paper.svg"].axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["CFI, batch 50", "Full-L1, batch all"]
    assert [patch.get_width() for patch in axes.patches[:3]] == [2.0, 0.5, 0.0]
    assert [text.get_text() for text in axes.texts] == ["2", "cut off"]

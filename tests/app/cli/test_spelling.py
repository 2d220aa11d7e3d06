"""Imputed values are spelled as in the table that is imputed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

N_ROWS = 200


def written(path: Path, columns: dict[str, list[str]]) -> Path:
    lines = [",".join(columns), *(",".join(cells) for cells in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """Columns of which every tenth cell is missing."""
    rng = np.random.default_rng(0)
    place = rng.integers(0, 4, N_ROWS)
    columns = {
        "member": np.where(place > 1, "TRUE", "FALSE").tolist(),
        "zip": [f"0{k + 1}0" for k in place],
        "rooms": [f"{k + 1}.0" for k in place],
        "rent": [f"{k + e:.2f}" for k, e in zip(place, rng.normal(size=N_ROWS), strict=True)],
        "weight": [f"{k * 10 + e}.0" for k, e in zip(place, rng.integers(0, 9, N_ROWS), strict=True)],
        "score": [f"{k * 10 + e}" for k, e in zip(place, rng.integers(0, 9, N_ROWS), strict=True)],
    }
    for offset, cells in enumerate(columns.values()):
        cells[offset::10] = [""] * len(cells[offset::10])
    return written(tmp_path / "visits.csv", columns)


def test_decimals_that_the_table_lacks_are_those_of_its_others(run, visits: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "m.sparsefield", tmp_path / "out.csv"
    assert run("fit", visits, "-o", model, "--l1", 1, "--no-check").code == 0
    table = pl.read_csv(visits, infer_schema=False)
    some = {"member": ["True", ""], "zip": ["040", "010"], "rooms": ["4.00", ""], "rent": ["3.5", ""]}
    asked = written(tmp_path / "asked.csv", some | {"weight": ["36.0", "1.0"], "score": ["36", "1"]})
    assert run("predict", model, asked, "-o", out).code == 0
    found = pl.read_csv(out, infer_schema=False)
    assert found["member"].to_list() == ["True", "false"]
    assert found["rooms"].to_list() == ["4.00", "1.00"]
    assert len(found["rent"][1].partition(".")[2]) == 2
    assert found.columns == table.columns

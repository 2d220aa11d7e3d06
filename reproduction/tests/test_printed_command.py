"""``python -m reproduction printed | signals``, called as a person would call them."""

from __future__ import annotations

import csv
import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from reproduction.plan import Plan
from reproduction.printed import PrintedOptions, as_printed
from reproduction.printed_figures import THREE, printed_rows, real_rows, real_runs, write_real
from reproduction.runs import METHODS, Run, Settings, estimator_of, made
from reproduction.signals import share_looked_at, spread_of
from reproduction.store import Results

pytestmark = pytest.mark.usefixtures("matplotlib")
PRINTED = ("printed", "--nodes", 6, "--nodes", 7, "--size", 7, "--rows", 40, "--folds", 2, "--folds-run", 1)
PRINTED = (*PRINTED, "--seeds", 1, "--objective", "pl", "--tolerance", 0.1, "--tolerance", 0.01)


def rows_of(file: Path) -> list[dict[str, str]]:
    with open(file, encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_fits_as_printed_are_listed_and_drawn(run, tmp_path: Path) -> None:
    code, printed, said = run(*PRINTED, "-o", tmp_path)
    assert code == 0
    assert sorted(os.listdir(tmp_path)) == ["printed-sizes.svg", "printed-tolerances.svg", "printed.csv", "runs"]
    rows = rows_of(tmp_path / "printed.csv")
    assert len(rows) == 2 * 2 * len(METHODS)
    for row in rows:
        line = next(one for one in printed.splitlines() if _starts_as(one, row))
        assert f"{float(row['error_rate']):.4f}" in line
        assert f"{float(row['cll']):.4f}" in line
    for name in ("printed-sizes", "printed-tolerances"):
        words = " ".join(ElementTree.parse(tmp_path / f"{name}.svg").getroot().itertext())
        assert all(f"{method}, pl" in words for method in METHODS.values())
        assert "1 of 2 folds" in words
    again = run(*PRINTED, "-o", tmp_path)
    assert again.out == printed
    assert "10 of 10 runs were done before" in again.err
    assert "done before" not in said
    more = run(*PRINTED, "--nodes", 5, "--seeds", 2, "--stored", "-o", tmp_path)
    assert more.code == 0
    assert [line.split()[-1] for line in more.out.splitlines()[1:-1]] == ["0"] * 10 + ["1"] * 20  # networks
    assert len(os.listdir(tmp_path / "runs")) == 10


def _starts_as(line: str, row: dict[str, str]) -> bool:
    words = (row["nodes"], row["tolerance"], row["objective"], *row["method"].split())
    return line.split()[: len(words) + 1][: len(words)] == list(words) and line.split()[len(words)][0].isdigit()


def test_large_networks_end_at_larger_tolerances() -> None:
    plan = Plan(as_printed=True)
    assert plan.tolerances_at(200) == (1e-1, 1e-2, 1e-3, 1e-4)
    assert plan.tolerances_at(400) == (1e-1, 1e-2, 1e-3)
    assert plan.tolerances_at(2000) == (1e-1, 1e-2)
    assert plan.over_sizes("full", "pl", 1000, 0).tolerance == 1e-2
    assert plan.run("full", "pl", data="animals").tolerance == 1e-4
    assert Plan(as_printed=True, settings=Settings(tolerances=(1e-3,))).tolerances_at(1000) == (1e-3,)
    assert Plan().run("full", "pl").tolerance == 0.0


def test_the_start_of_biases_is_that_of_the_plan() -> None:
    assert not Plan(as_printed=True).run("full", "pl").log_odds
    assert Plan(as_printed=True, log_odds=True).run("full", "pl").log_odds
    assert not Plan(log_odds=True).run("full", "pl").log_odds  # near convergence there is no choice


def test_rows_are_means_over_networks_at_a_tolerance() -> None:
    settings = Settings(tolerances=(0.1, 0.01))
    plan = Plan(nodes=(7,), seeds=2, objectives=("cd",), as_printed=True, settings=settings)
    rng = np.random.default_rng(0)
    results = Results(
        {
            run: [{"tolerance": t, "cll": float(rng.random()), "met": 1.0} for _ in range(3) for t in (0.1, 0.01)]
            for run in plan.figure_3()
        }
    )
    for row in printed_rows(plan, results):
        (method,) = (key for key, name in METHODS.items() if name == row["method"])
        means = [
            np.mean([one["cll"] for one in results[Run(method, "cd", nodes=7, seed=seed, tolerance=0.01)]
                     if one["tolerance"] == row["tolerance"]])
            for seed in range(2)
        ]  # fmt: skip
        assert row["cll"] == pytest.approx(np.mean(means))
        assert row["cll_se"] == pytest.approx(np.std(means, ddof=1) / np.sqrt(2))
        assert row["error_rate"] is None


def test_real_data_have_means_over_the_folds_of_all_splits(tmp_path: Path) -> None:
    settings = Settings(tolerances=(0.1, 0.01))
    plan = Plan(seeds=2, objectives=("pl",), real=("nations",), as_printed=True, settings=settings)
    rng = np.random.default_rng(0)
    names = ("ap", "cll", "error_rate", "cpu_seconds", "induced", "active", "iterations")
    results = Results(
        {
            run: [
                {"tolerance": t, **{name: float(rng.random()) for name in names}} for _ in range(3) for t in (0.1, 0.01)
            ]
            for run in real_runs(plan)
        }
    )
    rows = real_rows(plan, results)
    assert [(row["tolerance"], row["method"]) for row in rows] == [
        (t, METHODS[method]) for t in (0.1, 0.01) for method in THREE
    ]
    runs = [Run("grafting", "pl", data="nations", seed=seed, tolerance=0.01) for seed in range(2)]
    values = [one["ap"] for run in runs for one in results[run] if one["tolerance"] == 0.01]
    (row,) = (row for row in rows if (row["tolerance"], row["method"]) == (0.01, "Grafting"))
    assert (row["ap"], row["ap_sd"], row["folds"]) == pytest.approx((np.mean(values), np.std(values, ddof=1), 6))
    files = write_real(plan, rows, tmp_path)
    assert [file.name for file in files] == ["printed-nations.svg", "printed-real.csv"]
    words = " ".join(ElementTree.parse(files[0]).getroot().itertext())
    assert "CFI, reported" in words
    assert "Nation over the tolerance" in words
    assert len(rows_of(files[1])) == len(rows)


def test_data_that_are_not_in_table_1_are_refused() -> None:
    with pytest.raises(ValueError, match="animals, nations; got 'birds'"):
        Plan(real=("birds",))


@pytest.mark.parametrize("tolerance", [0.01, 0.0])
def test_signals_of_several_sizes_are_counted(run, tmp_path: Path, tolerance) -> None:
    asked = ("signals", "--nodes", 6, "--nodes", 8, "--rows", 40, "--objective", "pl", "--tolerance", tolerance)
    code, printed, _ = run(*asked, "-o", tmp_path)
    assert code == 0
    assert sorted(os.listdir(tmp_path)) == ["figure1-sizes.csv", "figure1-sizes.svg"]
    settings = Settings(rows=40)
    network = made(8, 0, settings)
    field = estimator_of(Run("cfi-paper", "pl", nodes=8), settings, network)
    if tolerance:
        field = as_printed(field, PrintedOptions((tolerance,)))
    field.fit(network.samples, states=network.field.states_)
    known = spread_of(field, network.samples)
    rows = [row for row in rows_of(tmp_path / "figure1-sizes.csv") if row["nodes"] == "8"]
    assert [int(row["errors"]) for row in rows] == known.errors.tolist()
    small = [abs(float(row["from"])) < 0.199 or abs(float(row["to"])) < 0.199 for row in rows]
    share = sum(int(row["signals"]) for row, kept in zip(rows, small, strict=True) if kept) / known.signals.sum()
    line = next(line for line in printed.splitlines() if line.startswith("8"))
    assert f"{share:.1%}" in line
    assert f"{share_looked_at(field, network.samples, 0.2):.1%}" in line

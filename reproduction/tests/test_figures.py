"""The four figures: what is written says what was found."""

from __future__ import annotations

import csv
import math
import os
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small import SMALL_PLAN

from reproduction import figures
from reproduction.figures import (
    MEASURES,
    draw_spreads,
    mean_and_error,
    size_rows,
    structure_table,
    threshold_rows,
    write_figures,
)
from reproduction.plan import Plan
from reproduction.runs import METHODS, NODEWISE, Record, Run, estimator_of, made
from reproduction.signals import Spread, spread_of
from reproduction.store import Results
from sparsefield.errors import DataError

NAMES = ["figure1", "figure2", "figure3"]
PNG = b"\x89PNG\r\n\x1a\n"
Spreads = dict[str, dict[str, Spread]]
pytestmark = pytest.mark.usefixtures("matplotlib")


def made_up(plan: Plan) -> Results:
    """Random records; those that find no edge, or look at nothing, say so."""
    rng = np.random.default_rng(0)

    def record(run: Run) -> Record:
        found = {name: float(rng.uniform(0.1, 0.9)) for name in MEASURES}
        found |= {name: float(rng.uniform()) for name in ("edges", "edge_precision", "edge_recall", "edge_roc")}
        if run.method in ("full", "graph"):
            del found["looked_at"]
        return found | ({"edge_ap": math.nan} if run.seed == 0 else {})

    runs = dict.fromkeys([*plan.figure_2(), *plan.figure_3(), *plan.structure()])
    return Results({run: [record(run)] * (1 if run.complete else 2) for run in runs})


@pytest.fixture(scope="module")
def results() -> Results:
    return made_up(SMALL_PLAN)


@pytest.fixture(scope="module")
def spreads() -> Spreads:
    return draw_spreads(SMALL_PLAN)


@pytest.fixture(scope="module")
def written(results: Results, spreads: Spreads, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("matplotlib", reason="charts are drawn by matplotlib")
    folder = tmp_path_factory.mktemp("study") / "new"
    files = write_figures(SMALL_PLAN, results, spreads, folder)
    assert sorted(file.name for file in files) == sorted(os.listdir(folder))
    return folder


def rows_of(file: Path) -> list[dict[str, str]]:
    with open(file, encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def known_mean(results: Results, runs: list[Run], measure: str) -> tuple[float, float | None]:
    values = [np.mean([record.get(measure, math.nan) for record in results[run]]) for run in runs]
    values = [value for value in values if not math.isnan(value)]
    mean = float(np.mean(values)) if values else math.nan
    return mean, float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None


def agree(row: dict[str, str], results: Results, runs: list[Run], measures) -> None:
    for measure in measures:
        mean, error = known_mean(results, runs, measure)
        assert row[measure] == ("" if math.isnan(mean) else f"{mean:.6g}")
        assert row[f"{measure}_se"] == ("" if error is None else f"{error:.6g}")


# -- files -----------------------------------------------------------------------------------------------------------


def test_there_is_a_picture_and_a_table_for_each_figure(written: Path) -> None:
    known = [f"{name}.{kind}" for name in NAMES for kind in ("csv", "svg")]
    assert sorted(os.listdir(written)) == sorted([*known, "structure.csv"])


def test_pictures_are_well_formed_and_name_every_curve(written: Path) -> None:
    words = {name: " ".join(ElementTree.parse(written / f"{name}.svg").getroot().itertext()) for name in NAMES}
    assert all(f"Figure {name[-1]}" in text for name, text in words.items())
    assert all(f"{method}, pl" in words["figure3"] for method in METHODS.values())
    assert all(title in words[name] for title, _, _ in MEASURES.values() for name in ("figure2", "figure3"))


def test_figure_2_has_the_means_over_seeds(written: Path, results: Results) -> None:
    rows = rows_of(written / "figure2.csv")
    assert [(row["method"], row["threshold"]) for row in rows] == [
        ("CFI", "0"),
        ("CFI", "0.2"),
        ("CFI", "0.6"),
        ("Grafting", ""),
    ]
    for row in rows:
        options = {"threshold": float(row["threshold"])} if row["threshold"] else {}
        (method,) = (key for key, name in METHODS.items() if name == row["method"])
        agree(row, results, [Run(method, "pl", nodes=8, seed=s, **options) for s in range(2)], MEASURES)


def test_figure_3_has_the_means_over_seeds(written: Path, results: Results) -> None:
    rows = rows_of(written / "figure3.csv")
    assert len(rows) == 2 * len(METHODS)
    for row in rows:
        (method,) = (key for key, name in METHODS.items() if name == row["method"])
        agree(row, results, [Run(method, "pl", nodes=int(row["nodes"]), seed=s) for s in range(2)], MEASURES)
    assert {row["looked_at"] for row in rows if row["method"] in ("Full-L1", "TrueGraph")} == {""}


def test_the_table_of_structure_has_the_means_over_seeds(written: Path, results: Results) -> None:
    rows = rows_of(written / "structure.csv")
    names = METHODS | NODEWISE
    assert [row["method"] for row in rows] == 2 * list(names.values())
    for row in rows:
        (method,) = (key for key, name in names.items() if name == row["method"])
        runs = [Run(method, row["objective"], nodes=int(row["nodes"]), seed=s, complete=True) for s in range(2)]
        agree(row, results, runs, ("edges", "edge_precision", "edge_recall", "edge_ap", "edge_roc", "cpu_seconds"))


def test_figure_1_has_the_counts_of_a_fit_to_the_first_network(written: Path, spreads: Spreads) -> None:
    network = made(8, 0, SMALL_PLAN.settings)
    field = estimator_of(Run("cfi-paper", "pl", nodes=8), SMALL_PLAN.settings)
    found = spread_of(field.fit(network.samples, states={f"x{k}": (0, 1) for k in range(8)}), network.samples)
    rows = rows_of(written / "figure1.csv")
    assert [int(row["signals"]) for row in rows] == found.signals.tolist()
    assert [int(row["errors"]) for row in rows] == found.errors.tolist()
    assert sum(int(row["errors"]) for row in rows) == network.samples.size
    assert set(spreads) == {"figure1"}


def test_figures_are_also_written_as_png(results: Results, spreads: Spreads, tmp_path: Path) -> None:
    files = write_figures(SMALL_PLAN, results, spreads, tmp_path, png=True)
    pictures = [file for file in files if file.suffix == ".png"]
    assert [file.stem for file in pictures] == NAMES
    assert all(file.read_bytes().startswith(PNG) for file in pictures)


def test_without_matplotlib_nothing_is_written(
    results: Results, spreads: Spreads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DataError, match=r"sparsefield\[bench\]"):
        write_figures(SMALL_PLAN, results, spreads, tmp_path / "new")
    assert os.listdir(tmp_path) == []


# -- parts -----------------------------------------------------------------------------------------------------------


def test_nation_has_a_figure_where_it_is_asked_for(results: Results, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(figures, "load_real", lambda name: name)
    counts = np.arange(40.0)
    monkeypatch.setattr(
        figures, "_spread", lambda run, *_: Spread(np.linspace(-1, 1, 41), counts, counts + len(run.data))
    )
    told: list[str] = []
    spreads = draw_spreads(replace(SMALL_PLAN, real=("animals", "nations"), objectives=("pl", "cd")), told.append)
    assert {name: list(part) for name, part in spreads.items()} == {"figure1": ["pl", "cd"], "figure4": ["pl", "cd"]}
    assert spreads["figure4"]["cd"].errors[0] == len("nations")
    assert told == ["signals and errors, pl", "signals and errors, cd"]
    only_pl = {name: {"pl": part["pl"]} for name, part in spreads.items()}
    write_figures(SMALL_PLAN, results, only_pl, tmp_path)
    assert {"figure4.svg", "figure4.csv"} <= set(os.listdir(tmp_path))


def test_a_mean_of_one_has_no_error_and_one_of_none_is_no_number() -> None:
    assert mean_and_error([2.0]) == (2.0, None, 1)
    assert mean_and_error([2.0, math.nan]) == (2.0, None, 1)
    mean, error, count = mean_and_error([math.nan])
    assert math.isnan(mean)
    assert (error, count) == (None, 0)
    values = np.random.default_rng(0).normal(size=9)
    assert mean_and_error(values) == pytest.approx((values.mean(), values.std(ddof=1) / 3, 9))


def test_one_seed_has_no_error_bars(tmp_path: Path) -> None:
    plan = replace(SMALL_PLAN, seeds=1)
    results = made_up(plan)
    for rows in (threshold_rows(plan, results), size_rows(plan, results)):
        assert {row["error_rate_se"] for row in rows} == {None}
        assert {row["edge_ap"] for row in rows} == {None}


def test_nodes_of_three_states_have_no_regressions() -> None:
    plan = replace(SMALL_PLAN, settings=replace(SMALL_PLAN.settings, states=3))
    assert {run.method for run in plan.structure()} == set(METHODS)
    assert {row["method"] for row in structure_table(plan, made_up(plan))} == set(METHODS.values())
    assert {run.method for run in SMALL_PLAN.structure()} == {*METHODS, *NODEWISE}


def test_both_objectives_are_beside_each_other(spreads: Spreads, tmp_path: Path) -> None:
    plan = replace(SMALL_PLAN, objectives=("pl", "cd"))
    both = {"figure1": {"pl": spreads["figure1"]["pl"], "cd": spreads["figure1"]["pl"]}}
    write_figures(plan, made_up(plan), both, tmp_path)
    text = " ".join(ElementTree.parse(tmp_path / "figure2.svg").getroot().itertext())
    for name in ("CFI, pl", "CFI, cd", "Grafting, pl", "Grafting, cd"):
        assert name in text
    assert len(rows_of(tmp_path / "figure1.csv")) == 80

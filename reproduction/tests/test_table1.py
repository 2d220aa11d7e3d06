"""The paper's Table 1: what is compared, how it is tested, and what is written."""

from __future__ import annotations

import csv
import io
import json
import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from benchmarks.csv_text import as_csv
from reproduction import chosen_penalty, table1
from reproduction.chosen_penalty import CHOICES, HOLD_OUTS, ChosenPenalties, ChosenPenalty
from reproduction.cited import CANDIDATES, CITED, CLAIMS, agrees
from reproduction.paired import paired_test
from reproduction.public_data import load_dataset
from reproduction.table1 import SETTINGS, Row, Table1, compare, count_candidates, run_table1
from reproduction.table1_files import as_json, draw_table, records, write_files
from reproduction.table1_splits import split_lines
from sparsefield import Grafting, MarkovField, PaperCFI, RelationalField, Solver
from sparsefield.analysis.hold_out import Evaluation, Fold, evaluate
from sparsefield.data import Relational

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def animals(public_data: Path, monkeypatch: pytest.MonkeyPatch) -> pl.DataFrame:
    monkeypatch.setenv("SPARSEFIELD_DATA", str(public_data))
    return load_dataset("animals").frame


@pytest.fixture(scope="module")
def quick(public_data: Path) -> Table1:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARSEFIELD_DATA", str(public_data))
        return run_table1(["animals"], folds=3, quick=True, report=lambda _: None)


def fold(**values: Any) -> Fold:
    plain: dict[str, Any] = dict.fromkeys(Fold.__dataclass_fields__, 0.5) | {"cells": 10, "converged": True}
    return Fold(**{**plain, **values})


def row(method: str, precisions: list[float], data: str = "nations") -> Row:
    return Row(data, SETTINGS[0], method, "pl", Evaluation(tuple(fold(ap=ap) for ap in precisions)))


@pytest.fixture
def villages() -> Relational:
    """Two kinds of village; one fights another when both are warlike."""
    rng = np.random.default_rng(0)
    warlike = rng.integers(0, 2, 9)
    village = pl.DataFrame({"name": range(9), "walls": warlike, "altar": rng.integers(0, 2, 9)})
    ends = [(a, b) for a in range(9) for b in range(9) if a != b]
    slip = rng.random(len(ends)) < 0.1
    fights = [int(bool(warlike[a] and warlike[b]) != wrong) for (a, b), wrong in zip(ends, slip, strict=True)]
    pair = pl.DataFrame({"who": [a for a, _ in ends], "whom": [b for _, b in ends], "fights": fights})
    links = {end: ("pair", end, "village") for end in ("who", "whom")}
    return Relational({"village": village, "pair": pair}, keys={"village": "name"}, links=links)


# -- the test ------------------------------------------------------------------------------------------------------


def test_without_the_correction_it_is_the_paired_test_of_the_textbook() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.normal(0.9, 0.02, 10), rng.normal(0.89, 0.02, 10)
    found, known = paired_test(first, second, test_to_train=0.0), stats.ttest_rel(first, second)  # pyright: ignore
    assert found.p == pytest.approx(known.pvalue)
    assert found.p_plain == pytest.approx(known.pvalue)
    assert paired_test(first, second, test_to_train=1 / 9).p > known.pvalue  # pyright: ignore


def test_the_corrected_variance_is_that_of_nadeau_and_bengio() -> None:
    """Differences 1, 2, 3: mean 2, variance 1; with two degrees of freedom P(T > t) = 1/2 - t / (2 sqrt(2 + t^2))."""
    found = paired_test([1.0, 2.0, 3.0], [0.0, 0.0, 0.0], test_to_train=0.5)
    t = 2 / np.sqrt(1 / 3 + 1 / 2)
    assert found.difference == 2.0
    assert found.p == pytest.approx(1 - t / np.sqrt(2 + t**2))


def test_methods_that_never_differ_or_always_differ_alike() -> None:
    assert paired_test([1.0, 2.0], [1.0, 2.0], test_to_train=1.0).verdict() == "no difference"
    assert paired_test([1.0, 2.0], [0.5, 1.5], test_to_train=1.0).verdict() == "better"
    assert paired_test([1.0, 2.0], [0.5, 1.5], test_to_train=1.0).verdict(larger_is_better=False) == "worse"


def test_verdicts_are_set_beside_what_the_paper_claims() -> None:
    rows = [row("CFI", [0.91, 0.93, 0.92]), row("Grafting", [0.81, 0.82, 0.83]), row("CFI", [0.9] * 3, "animals")]
    found = {one.measure: one for one in compare(rows)}
    assert {(one.first, one.second, one.data) for one in found.values()} == {("CFI", "Grafting", "nations")}
    assert (found["ap"].verdict, found["ap"].claim) == ("better", "better")
    assert found["ap"].test == paired_test([0.91, 0.93, 0.92], [0.81, 0.82, 0.83], test_to_train=0.5)
    assert (found["error_rate"].verdict, found["error_rate"].claim) == ("no difference", "no difference")
    assert not agrees(found["ap"].claim, found["cll"].verdict)


def test_a_smaller_error_is_better() -> None:
    few, many = (Evaluation(tuple(fold(error_rate=e + k / 999) for k in range(3))) for e in (0.1, 0.2))
    rows = [Row("nations", SETTINGS[0], name, "cd", e) for name, e in (("CFI", few), ("Full-L1", many))]
    assert [one.verdict for one in compare(rows) if one.measure == "error_rate"] == ["better"]


# -- candidates and settings -----------------------------------------------------------------------------------------


def test_candidates_are_as_many_as_the_paper_counts(animals: pl.DataFrame) -> None:
    found = count_candidates(animals)
    assert (found.biases, found.pairs) == (85, 85 * 84 // 2)
    assert found.total == CANDIDATES["animals"]
    assert count_candidates(load_dataset("nations").closed_world()).total == CANDIDATES["nations"]


def test_the_paper_is_never_mixed_with_what_departs_from_it() -> None:
    paper, *others = SETTINGS
    assert not paper.changes
    assert not paper.open_world
    assert all(setting.changes or setting.open_world for setting in others)
    assert len({setting.label for setting in SETTINGS}) == len(SETTINGS)
    field = paper.estimator(table1.DATA["nations"], "Grafting", "cd")
    assert (field.l1, field.l2, field.objective, field.resolve("features").penalize_biases) == (2.0, 1.0, "cd", True)
    assert field.induction == Grafting(batch_size=50)
    assert (field.solver.tol, field.solver.certify) == (1e-4, False)
    field = paper.estimator(table1.DATA["nations"], "CFI", "cd")
    assert field.induction == PaperCFI(threshold=0.2, batch_size=50)


def test_the_base_templates_are_those_that_are_named(animals: pl.DataFrame) -> None:
    nations = load_dataset("nations").closed_world()
    fields = [
        RelationalField(l1=2.0, templates=t, solver=Solver(max_iter=1, certify=False))
        for t in ("base", table1.BASE_TEMPLATES)
    ]
    assert len({field.fit(nations).field_.layout.templates for field in fields}) == 1


def test_cited_lines_are_complete() -> None:
    for data in table1.DATA:
        methods = [cited.method for cited in CITED if cited.data == data]
        assert methods == ["MSL", "IRM", "MRC", "Full-L1", "Grafting", "CFI", "HIRM", "IRM (C++)"]
    for cited in CITED:
        for pair in (cited.ap, cited.ap_positive, cited.error_rate):
            assert pair is None or 0 < pair[0] < 1
        assert cited.cll is not None
        assert cited.cll[0] < 0
    assert {name for name, _, _ in CLAIMS} == set(table1.DATA)


# -- the choice of l1 ------------------------------------------------------------------------------------------------


def test_l1_is_the_best_for_a_further_tenth(villages: Relational, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[float, float]] = []
    real = chosen_penalty.hold_out

    def listening(data: Any, estimator: Any, share: float, *, seed: int) -> Evaluation:
        found = real(data, estimator, share, seed=seed)
        asked.append((found.folds[0].cll, estimator.l1))
        assert share == 0.1
        return found

    monkeypatch.setattr(chosen_penalty, "hold_out", listening)
    field = ChosenPenalty(l1=2.0, solver=Solver(certify=False)).fit(villages)
    assert [l1 for _, l1 in asked] == list(CHOICES)
    assert field.l1_ == max(asked)[1]
    same = RelationalField(l1=field.l1_, solver=Solver(certify=False)).fit(villages)
    assert field.objective_ == same.objective_
    assert field.get_params()["l1"] == 2.0


def test_the_choice_never_sees_the_cells_of_the_fold(villages: Relational, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = []

    def looking(data: Relational, *_: Any, **__: Any) -> Evaluation:
        missing.append(sum(table.null_count().sum_horizontal()[0] for table in data.tables.values()))
        return Evaluation((fold(),))

    monkeypatch.setattr(chosen_penalty, "hold_out", looking)
    chosen: list[float] = []
    found = evaluate(
        villages,
        ChosenPenalty(l1=2.0, solver=Solver(certify=False)),
        folds=3,
        on_fit=lambda field, _: chosen.append(field.l1_),
    )
    # One look at the table as such comes first: which columns there are.
    assert missing[len(CHOICES) :: len(CHOICES)] == [one.cells for one in found.folds]
    assert len(chosen) == 3


@pytest.fixture
def few_penalties(monkeypatch: pytest.MonkeyPatch) -> tuple[tuple[float, float], ...]:
    pairs = ((1.0, 1.0), (0.5, 4.0), (8.0, 1.0))
    monkeypatch.setattr(chosen_penalty, "PENALTIES", pairs)
    return pairs


@pytest.fixture
def kinds() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    cells = (rng.integers(0, 2, 30)[:, None] == np.arange(6) % 2) ^ (rng.random((30, 6)) < 0.1)
    return pl.DataFrame({f"b{k}": cells[:, k].astype(int) for k in range(6)})


def test_both_penalties_are_the_best_for_further_tenths(
    kinds: pl.DataFrame, few_penalties: tuple[tuple[float, float], ...]
) -> None:
    field = ChosenPenalties(l1=2.0, solver=Solver(certify=False), random_state=3).fit(kinds)
    scores = {}
    for l1, l2 in few_penalties:
        plain = MarkovField(l1=l1, l2=l2, solver=Solver(certify=False), random_state=3)
        tried = [chosen_penalty.hold_out(kinds, plain, 0.1, seed=3 + k) for k in range(HOLD_OUTS)]
        scores[l1, l2] = np.mean([one.folds[0].cll for one in tried])
    best = max(scores, key=lambda pair: scores[pair])
    assert (field.l1_, field.l2_) == best
    same = MarkovField(l1=best[0], l2=best[1], solver=Solver(certify=False)).fit(kinds)
    assert field.objective_ == same.objective_


@pytest.mark.usefixtures("few_penalties")
def test_the_choice_of_penalties_never_sees_the_cells_of_the_fold(
    kinds: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing: list[int] = []

    def looking(data: pl.DataFrame, *_: Any, **__: Any) -> Evaluation:
        missing.append(data.null_count().sum_horizontal()[0])
        return Evaluation((fold(),))

    monkeypatch.setattr(chosen_penalty, "hold_out", looking)
    found = evaluate(kinds, ChosenPenalties(l1=2.0, solver=Solver(certify=False)), folds=3)
    looks = 3 * HOLD_OUTS
    assert missing[looks::looks] == [one.cells for one in found.folds]


def test_penalties_of_the_row_are_those_of_its_setting() -> None:
    [setting] = [one for one in SETTINGS if one.name == "penalties"]
    field = setting.estimator(table1.DATA["animals"], "CFI", "pl", 5)
    assert isinstance(field, ChosenPenalties)
    assert (field.resolve("features").penalize_biases, field.random_state) == (False, 5)
    assert field.get_params()["solver__certify"]


# -- splits --------------------------------------------------------------------------------------------------------


def test_splits_have_errors_over_folds_and_a_deviation_between_them() -> None:
    lines = split_lines([row("CFI", [0.90, 0.92], "animals"), row("CFI", [0.94, 0.96], "animals")])
    assert [line.split for line in lines] == ["0", "1", "all"]
    assert lines[0].scores[0] == pytest.approx((0.91, 0.01))
    assert lines[2].scores[0] == pytest.approx((0.93, 0.04 / np.sqrt(2)))


# -- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("matplotlib")
def test_a_quick_run_writes_its_files(quick: Table1, tmp_path: Path) -> None:
    assert [row.method for row in quick.rows] == ["Full-L1", "Grafting", "CFI"]
    files = write_files(quick, tmp_path / "not" / "yet")
    assert sorted(os.listdir(tmp_path / "not" / "yet")) == sorted(file.name for file in files)
    assert ElementTree.parse(files[2]).getroot().tag == SVG + "svg"
    for one in quick.rows:
        assert one.evaluation.spread("ap").mean > one.evaluation.spread("frequency_ap").mean
    assert len(quick.comparisons) == 9


def test_csv_and_json_say_the_same(quick: Table1) -> None:
    lines, document = list(csv.DictReader(io.StringIO(as_csv(records(quick))))), json.loads(as_json(quick))
    assert len(lines) == len(document["rows"]) == len(records(quick)) == 8 + 3
    for line, entry in zip(lines, document["rows"], strict=True):
        assert line == {key: "" if entry[key] is None else str(entry[key]) for key in line}
        if entry["origin"] == "measured":
            assert float(line["cll"]) == pytest.approx(np.mean([one["cll"] for one in entry["folds"]]))
            assert float(line["ap_sd"]) == pytest.approx(np.std([one["ap"] for one in entry["folds"]], ddof=1))
    assert document["candidates"]["animals"]["total"] == document["candidates"]["animals"]["paper"]
    assert {test["verdict"] for test in document["tests"]} <= {"better", "worse", "no difference"}


@pytest.mark.usefixtures("matplotlib")
def test_every_line_has_its_marks_in_the_figure(quick: Table1) -> None:
    axes = draw_table(quick).axes
    labels = {tick.get_text() for tick in axes[0].get_yticklabels()}
    assert {"CFI, paper", "HIRM, cited", "CFI, paper's setting"} <= labels
    # Six cited lines with two measures and two others with two; three measured ones with three.
    assert sum(len(one.containers) for one in axes) == 8 * 2 + 3 * 3


@pytest.mark.usefixtures("matplotlib")
def test_an_interrupted_write_leaves_nothing_half_done(
    quick: Table1, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "table1.json").write_text("old")
    real, calls = os.fsync, []

    def stopped(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(descriptor)

    monkeypatch.setattr(os, "fsync", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_files(quick, tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["table1.csv", "table1.json"]
    assert (tmp_path / "table1.json").read_text() == "old"


def test_what_is_not_known_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="data must be one of animals, nations; got 'plants'"):
        run_table1(["plants"])
    with pytest.raises(ValueError, match="objective must be one of pl, cd; got 'ml'"):
        run_table1(["animals"], ["ml"])
    with pytest.raises(ValueError, match=r"setting must be one of paper, irm, .*; got 'best'"):
        run_table1(["animals"], settings=["best"])
    with pytest.raises(ValueError, match="leave one of the options out"):
        run_table1(["animals"], settings=["swapped"])

"""A few cases of every campaign, and what the campaign itself promises."""

from __future__ import annotations

import json
import math
import random

import numpy as np
import pytest

from fuzz.byte_changes import apply_changes, draw_changes
from fuzz.campaign_state import Tally, markdown_table, merge_folders, read_states, write_tallies
from fuzz.campaigns import CAMPAIGNS
from fuzz.child_process import Child
from fuzz.judging import check_finite, judge, unchanged
from fuzz.recipes import FAILURES, Campaign, CaseResult, NoCaseError, Recipe, Verdict, WrongResultError
from sparsefield.errors import DataError


@pytest.fixture(scope="module")
def child():
    with Child() as one:
        yield one


def raising(error: Exception) -> Campaign:
    def run(steps, folder) -> None:
        raise error

    return Campaign("test", lambda rng: [("step", rng.random())], run)


@pytest.mark.parametrize("name", ["text", "arrays", "sql", "files", "models"])
@pytest.mark.parametrize("number", range(3))
def test_seeded_cases_do_not_fail(name, number) -> None:
    campaign = CAMPAIGNS[name]
    assert judge(campaign, Recipe.of(campaign, 1, number)).verdict != "failure"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CAMPAIGNS))
def test_seeded_cases_in_a_child_do_not_fail(child, name) -> None:
    results = [child.run(Recipe.of(CAMPAIGNS[name], 1, number)) for number in range(4)]
    assert [result for result in results if result.verdict == "failure"] == []


@pytest.mark.parametrize("path", sorted(FAILURES.glob("*.json")), ids=lambda path: path.stem)
def test_what_once_failed_no_longer_does(child, path) -> None:
    result = child.run(Recipe.from_json(path.read_text(encoding="utf-8")))
    assert result.verdict != "failure", result.detail


@pytest.mark.parametrize("name", sorted(CAMPAIGNS))
def test_a_case_depends_on_name_seed_and_number_alone(name) -> None:
    campaign = CAMPAIGNS[name]
    one, same, other = (Recipe.of(campaign, 5, number) for number in (7, 7, 8))
    assert one.to_json() == same.to_json()
    assert one.to_json() != other.to_json() or name == "kills"


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (DataError("column 'a'"), "refused"),
        (DataError(""), "failure"),
        (KeyError("a"), "failure"),
        (WrongResultError("NaN"), "failure"),
        (NoCaseError(), "not built"),
    ],
)
def test_exceptions_are_judged(error, verdict) -> None:
    assert judge(raising(error), Recipe("test", [])).verdict == verdict


def test_results_that_are_not_finite_are_wrong() -> None:
    check_finite({"a": np.ones(3), "b": 1.0}, "result")
    for wrong in (math.nan, {"a": np.array([1.0, np.inf])}):
        with pytest.raises(WrongResultError, match="result"):
            check_finite(wrong, "result")


def test_a_changed_input_file_is_noticed(tmp_path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a")
    with unchanged(path):
        pass
    with pytest.raises(WrongResultError, match=r"a\.csv was lost or changed"), unchanged(path):
        path.write_text("b")


def test_changes_of_bytes_fit_files_of_any_length() -> None:
    changes = [step for seed in range(60) for step in draw_changes(random.Random(seed))]
    for data in (b"", b"a", bytes(range(256))):
        results = {apply_changes(data, [step]) for step in changes}
        assert len(results) > 1


def test_tallies_are_continued_and_printed(tmp_path) -> None:
    tally = Tally()
    verdicts: list[Verdict] = ["fine", "refused", "failure", "not built"]
    for number, verdict in zip(tally.take_new(5), verdicts, strict=False):
        tally.add(number, verdict)
    write_tallies(tmp_path, 3, {"arrays/plain": tally})
    assert read_states(tmp_path) == {3: {"arrays/plain": tally}}
    assert tally.unfinished == [4]
    assert "| arrays | plain | 3 | 1 | 1 | 1 | 1 |" in markdown_table([{"arrays/plain": tally}])


def test_tables_of_several_runs_are_summed_over_seeds(tmp_path) -> None:
    for seed in (1, 2, 3):
        write_tallies(tmp_path / str(seed % 2), seed, {"sql/plain": Tally(seed, fine=seed)})
    folders = [tmp_path / "0", tmp_path / "1"]
    assert "| sql | plain | 6 | 6 | 0 | 0 | 0 |" in markdown_table(merge_folders(folders))
    assert "| sql | plain | 2 | 2 | 0 | 0 | 0 |" in markdown_table(merge_folders(folders, seed=2))


def test_the_same_seed_in_two_folders_is_refused(tmp_path) -> None:
    for name in ("a", "b"):
        write_tallies(tmp_path / name, 5, {"sql/plain": Tally(1, fine=1)})
    with pytest.raises(DataError, match="both have cases of seed 5"):
        merge_folders([tmp_path / "a", tmp_path / "b"])


def test_a_crash_and_a_hang_are_failures(monkeypatch) -> None:
    for code, seconds, detail in (
        ("import os; os.abort()", 5.0, "crash"),
        ("import time; time.sleep(60)", 0.2, "hang"),
    ):
        with Child(seconds=seconds) as one:
            start = f"print('ready', flush=True); input(); {code}"
            monkeypatch.setattr("fuzz.child_process.COMMAND", ("-c", start))
            result = one.run(Recipe("arrays", []))
        assert result.verdict == "failure"
        assert result.detail.startswith(detail)


def test_answers_of_a_child_are_results(monkeypatch) -> None:
    answer = json.dumps({"verdict": "refused", "detail": "DataError: a"})
    monkeypatch.setattr("fuzz.child_process.COMMAND", ("-c", f"print('ready', flush=True); input(); print({answer!r})"))
    with Child() as one:
        assert one.run(Recipe("arrays", [])) == CaseResult("refused", "DataError: a")

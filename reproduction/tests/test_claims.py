"""What the paper says, judged: no sign is wrong, and no run is missing."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from worlds import all_noise, as_the_paper_says, results_of, the_opposite

from reproduction.claims import CLAIMS, MARGINS, Finding, Part, _verdict, judge, runs_of, verdict_of
from reproduction.claims_files import as_records, write_claims
from reproduction.paired import Interval, interval
from reproduction.plan import QUICK, Plan
from reproduction.runs import Record, Run, Settings
from reproduction.store import Results
from reproduction.study_command import MARGIN_WORDS

WORDS = [claim.words for claim in CLAIMS]
PLANS = {
    "whole": Plan(),
    "quick": QUICK,
    "no real data": Plan(real=()),
    "one objective": Plan(objectives=("cd",), seeds=1),
    "one threshold": Plan(thresholds=(0.3,)),
    "no threshold of 0": Plan(thresholds=(0.1, 0.7)),
    "small thresholds": Plan(thresholds=(0.0, 0.4)),
    "large thresholds": Plan(thresholds=(0.6, 0.8), batches=()),
}


class Noted(Results):
    """Takes notes of who is asked for."""

    def __init__(self, found: Results) -> None:
        super().__init__(found)
        self.asked: set[Run] = set()

    def __getitem__(self, run: Run) -> list[Record]:
        self.asked.add(run)
        return super().__getitem__(run)

    def mean(self, run: Run, measure: str) -> float:
        self.asked.add(run)
        return super().mean(run, measure)


def part(relation: str, measure: str = "error_rate", bound: float = 0.0) -> Part:
    return Part("", measure, relation, lambda *_: [], bound)  # type: ignore[arg-type]


def finding(verdict: str, measure: str = "cll", words: str = "", ends: Interval = Interval(0.5, 0.25, 0.75)) -> Finding:  # noqa: B008
    return Finding("", replace(part("less", measure), words=words), "pl", ends, 3, verdict)


def noisy_folds(run: Run, count: int) -> list[float]:
    """Not the same for any two methods."""
    return np.random.default_rng([run.seed, len(run.method), run.objective == "pl"]).normal(0.9, 0.05, count).tolist()


# -- whole claims ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize(
    ("world", "verdict"), [(as_the_paper_says, "holds"), (the_opposite, "does not hold")], ids=["as said", "opposite"]
)
def test_every_part_of_a_claim_holds_where_it_is_so_and_fails_where_it_is_not(words, world, verdict) -> None:
    plan = Plan()
    own = [one for one in judge(plan, results_of(runs_of(plan), world, plan)) if one.claim == words]
    assert {one.objective for one in own} == {"pl", "cd"}
    assert {(one.part.words, one.part.measure, one.verdict) for one in own if one.verdict != verdict} == set()
    assert verdict_of(own) == verdict


@pytest.mark.parametrize("words", WORDS)
def test_seeds_that_contradict_each_other_decide_nothing(words) -> None:
    plan = Plan(seeds=2)
    runs = runs_of(plan)
    own = [one for one in judge(plan, results_of(runs, all_noise(runs), plan)) if one.claim == words]
    assert {one.verdict for one in own} == {"within noise"}


def test_every_claim_is_about_the_runs_it_names() -> None:
    plan = Plan(seeds=1, objectives=("pl",))
    results = Noted(results_of(runs_of(plan), as_the_paper_says, plan))
    asked = {}
    for claim in CLAIMS:
        results.asked.clear()
        for one in claim.parts(plan):
            one.gaps(results, "pl")
        asked[claim.words] = set(results.asked)

    def made(method: str, **options: float) -> Run:
        return Run(method, "pl", nodes=200, **options)  # type: ignore[arg-type]

    def at(*thresholds: float) -> set[Run]:
        return {made("cfi-paper", threshold=threshold) for threshold in thresholds}

    def real(data: str) -> set[Run]:
        return {Run(method, "pl", data=data) for method in ("full", "grafting", "cfi-paper")}

    full, grafting, graph = made("full"), made("grafting"), made("graph")
    batches = {made(method, batch=batch) for method in ("grafting", "cfi-paper") for batch in (30, 50, 100)}
    known = [
        at(*plan.thresholds), {*at(0.0), grafting}, at(0.4, 0.6), {*at(0.1, 0.2, 0.3), grafting},
        {full, grafting, *at(0.2)}, {full, grafting, *at(0.2)}, {graph, *at(0.2)}, {grafting, *at(0.2)},
        batches, {*at(0.2), made("cfi-paper", stages=2)}, real("animals"), real("nations"),
        {grafting, made("grafting", converge=True)},
    ]  # fmt: skip
    assert asked == dict(zip(WORDS, known, strict=True))


def test_differences_are_the_first_less_the_second() -> None:
    plan = Plan()
    found = judge(plan, results_of(runs_of(plan), as_the_paper_says, plan))
    known: dict[tuple[str, str, float], float] = {}
    for one in found:  # the same words stand for Animal and, later, for Nation
        known.setdefault((one.part.words, one.part.measure, one.part.bound), one.interval.mean)
    for words, measure, mean in (
        ("slope of its log", "cpu_seconds", -1.0),
        ("slope of its log", "scoring_seconds", -3.0),
        ("at 0.6 / at 0.4", "induced", math.log(0.2)),
        ("CFI at 0.1, 0.2, 0.3 - Grafting", "error_rate", -0.02),
        ("Full-L1 / Grafting", "cpu_seconds", math.log(5.0)),
        ("Full-L1 - CFI", "cll", 0.04),
        ("CFI - TrueGraph", "error_rate", -0.01),
        ("CFI / Grafting", "active", math.log(280 / 300)),
        ("CFI - Full-L1", "ap", -0.007),
        ("CFI - Grafting", "ap", 0.034),
    ):
        assert known[words, measure, 0.0] == pytest.approx(mean), words
    assert ("at 0.6 / at 0.4, below half", "induced", math.log(0.5)) in known
    nation = {(one.part.words, one.part.measure): one.interval.mean for one in found if "Nation" in one.claim}
    assert nation["Grafting - Full-L1", "cll"] == pytest.approx(0.04)
    assert nation["CFI - Full-L1", "ap"] == pytest.approx(0.048)


# -- plans -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_plan_has_every_run_that_is_judged_and_no_other(plan: Plan) -> None:
    results = Noted(results_of(runs_of(plan), as_the_paper_says, plan))
    found = judge(plan, results)
    assert {one.objective for one in found} == set(plan.objectives)
    assert results.asked == set(results)


def test_what_cannot_be_judged_is_left_out() -> None:
    judged = {
        name: {one.claim for one in judge(plan, results_of(runs_of(plan), as_the_paper_says, plan))}
        for name, plan in PLANS.items()
    }
    left_out = {
        name: [k for k, words in enumerate(WORDS, start=1) if words not in found] for name, found in judged.items()
    }
    assert left_out == {
        "whole": [],
        "quick": [12],
        "no real data": [11, 12],
        "one objective": [],
        "one threshold": [1, 2, 3],
        "no threshold of 0": [2],
        "small thresholds": [3, 4],
        "large thresholds": [2, 3, 4, 9],
    }


def test_one_seed_decides_nothing_but_folds_of_real_data_may() -> None:
    plan = Plan(seeds=1)
    found = judge(plan, results_of(runs_of(plan), as_the_paper_says, plan))
    assert {one.verdict for one in found if not one.part.real} == {"within noise"}
    assert {one.verdict for one in found if one.part.real} == {"holds"}


def test_a_study_of_nothing_is_refused() -> None:
    for wrong in (lambda: Plan(seeds=0), lambda: Plan(nodes=(1,)), lambda: Plan(size=1)):
        with pytest.raises(ValueError, match="at least"):
            wrong()
    with pytest.raises(ValueError, match=r"pl, cd; got 'ml'"):
        Plan(objectives=("pl", "ml"))


# -- intervals -------------------------------------------------------------------------------------------------------


def test_intervals_of_networks_are_those_of_the_t_test() -> None:
    gaps = np.random.default_rng(0).normal(0.1, 1.0, 7)
    found, known = interval(gaps), stats.ttest_1samp(gaps, 0.0).confidence_interval(0.95)  # type: ignore[arg-type]
    assert (found.mean, found.low, found.high) == pytest.approx((gaps.mean(), known.low, known.high))


def test_intervals_of_one_value_have_no_ends() -> None:
    found = interval([0.5])
    assert found.mean == 0.5
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert interval([0.5, 0.5]) == Interval(0.5, 0.5, 0.5)


def test_folds_of_real_data_have_the_variance_of_nadeau_and_bengio_and_networks_have_not() -> None:
    plan = Plan(seeds=2, objectives=("pl",), settings=Settings(folds=4))

    def records(run: Run) -> list[Record]:
        return [as_the_paper_says(run) | {"ap": ap} for ap in noisy_folds(run, 4)]

    results = Results({run: records(run) for run in runs_of(plan)})
    found = judge(plan, results)
    (real,) = (one for one in found if (one.part.words, one.part.measure) == ("CFI - Grafting", "ap"))
    first, second = (
        [one["ap"] for seed in range(2) for one in results[Run(method, "pl", data="nations", seed=seed)]]
        for method in ("cfi-paper", "grafting")
    )
    gaps = np.subtract(first, second)
    reach = stats.t.ppf(0.975, 7) * gaps.std(ddof=1) * math.sqrt(1 / 8 + 1 / 3)
    assert real.count == 8
    assert (real.interval.low, real.interval.high) == pytest.approx((gaps.mean() - reach, gaps.mean() + reach))
    (made,) = (one for one in found if (one.part.words, one.part.measure) == ("Full-L1 - CFI", "ap"))
    full, cfi = (
        [results.mean(Run(method, "pl", nodes=200, seed=seed), "ap") for seed in range(2)]
        for method in ("full", "cfi-paper")
    )
    means = np.subtract(full, cfi)
    known = stats.ttest_1samp(means, 0.0).confidence_interval(0.95)  # type: ignore[arg-type]
    assert made.count == 2
    assert (made.interval.low, made.interval.high) == pytest.approx((known.low, known.high))


# -- verdicts --------------------------------------------------------------------------------------------------------


def cases() -> Iterator[tuple[Part, float, float, str]]:
    yes, unsure, no = "holds", "within noise", "does not hold"
    for low, high, less, more in ((-2, -1, yes, no), (1, 2, no, yes), (-1, 1, unsure, unsure), (0, 1, unsure, unsure)):
        yield part("less"), low, high, less
        yield part("more"), low, high, more
        yield part("less", bound=-5.0), low - 5, high - 5, less
        yield part("more", bound=3.0), low + 3, high + 3, more
    for low, high, verdict in (
        (-0.004, 0.004, yes), (-0.006, 0.004, unsure), (0.004, 0.006, unsure), (0.006, 0.007, no), (-0.9, -0.006, no),
        (-0.9, 0.9, unsure),
    ):  # fmt: skip
        yield part("same"), low, high, verdict
    # A smaller error, a shorter time and a larger CLL or AP are gains.
    for low, high, verdict in ((-0.9, 0.004, yes), (0.0, 0.006, unsure), (0.006, 0.9, no)):
        yield part("no gain", "ap"), low, high, verdict
        yield part("no gain", "error_rate"), -high, -low, verdict
    yield part("no gain", "cll"), 0.007, 0.009, yes
    yield part("no gain", "cll"), 0.011, 0.02, no
    yield part("no gain", "cpu_seconds"), math.log(0.81), math.log(9), yes
    yield part("no gain", "cpu_seconds"), math.log(0.1), math.log(0.79), no
    for relation in ("less", "more", "same", "no gain"):
        yield part(relation), math.nan, math.nan, unsure


@pytest.mark.parametrize(("said", "low", "high", "verdict"), list(cases()))
def test_a_verdict_is_where_the_interval_lies(said, low, high, verdict) -> None:
    assert _verdict(said, Interval((low + high) / 2, low, high)) == verdict


@pytest.mark.parametrize("said", ["less", "more"])
def test_a_difference_that_is_not_there_is_told_from_one_that_cannot_be_seen(said) -> None:
    margin = MARGINS["error_rate"]
    assert _verdict(part(said), Interval(0.0, -0.9 * margin, 0.9 * margin)) == "no difference"
    assert _verdict(part(said), Interval(0.0, -0.9 * margin, 1.1 * margin)) == "within noise"
    assert _verdict(part(said, "active"), Interval(0.0, -0.01, 0.01)) == "within noise"  # has no margin
    assert _verdict(part(said, "induced", 0.1), Interval(0.1, 0.09, 0.11)) == "within noise"
    small = Interval(0.5 * margin, 0.1 * margin, 0.9 * margin)
    assert _verdict(part(said), small) == ("does not hold" if said == "less" else "holds")
    assert verdict_of([finding("holds"), finding("no difference")]) == "does not hold"


def test_a_claim_is_as_good_as_its_worst_part() -> None:
    yes, unsure, no = (finding(verdict) for verdict in ("holds", "within noise", "does not hold"))
    assert verdict_of([yes, yes]) == "holds"
    assert verdict_of([yes, unsure]) == "within noise"
    assert verdict_of([yes, unsure, no]) == "does not hold"


def test_the_margins_are_those_that_are_printed() -> None:
    assert MARGINS["error_rate"] == MARGINS["ap"] == 0.005
    assert MARGINS["cll"] == 0.01
    assert (math.exp(MARGINS["cpu_seconds"]), math.exp(MARGINS["induced"])) == pytest.approx((1.25, 1.1))
    for words in ("0.005 of error and AP", "0.01 of CLL", "1.25 of time", "1.1 of induced features"):
        assert words in MARGIN_WORDS


def test_sizes_are_differences_ratios_or_slopes() -> None:
    assert finding("holds").size == "+0.5000 [+0.2500, +0.7500]"
    assert finding("holds", "active", ends=Interval(0.0, math.log(0.5), math.log(2))).size == "x 1 [0.5, 2]"
    slope = replace(part("less", "cpu_seconds"), slope=True)
    assert replace(finding("holds"), part=slope).size == "+0.50 [+0.25, +0.75]"
    assert [slope.scale, part("less", "active").scale, part("less").scale] == ["slope", "ratio", "difference"]
    assert finding("holds", ends=Interval(-0.1, math.nan, math.nan)).size == "-0.1000"
    assert finding("holds", ends=Interval(0.0, -1e-9, 1e-9)).size == "+0.0000 [+0.0000, +0.0000]"
    assert finding("holds", "induced", ends=Interval(math.log(3), math.nan, math.nan)).size == "x 3"


def test_the_file_holds_every_comparison_and_the_verdict_of_its_claim(tmp_path: Path) -> None:
    plan = Plan(objectives=("pl", "cd"))

    def half(run: Run) -> Record:
        return as_the_paper_says(run) if run.objective == "pl" else the_opposite(run)

    found = judge(plan, results_of(runs_of(plan), half, plan))
    file = write_claims({0.0: found}, tmp_path / "new")
    with open(file, encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["verdict"] for row in rows] == [one.verdict for one in found]
    assert {(row["objective"], row["claim_verdict"]) for row in rows} == {("pl", "holds"), ("cd", "does not hold")}
    assert [float(row["difference"]) for row in rows] == [one["difference"] for one in as_records({0.0: found})]
    assert {row["claim"] for row in rows} == set(WORDS)

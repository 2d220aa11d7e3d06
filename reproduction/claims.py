"""This module tests the claims that the paper makes in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np

from reproduction.paired import Interval, interval
from reproduction.plan import Plan
from reproduction.runs import BATCH, METHODS, Record, Run
from reproduction.store import Results

__all__ = ["CLAIMS", "MARGINS", "VERDICTS", "Claim", "Finding", "Part", "judge", "runs_of", "verdict_of"]

Relation = Literal["less", "more", "same", "no gain"]
VERDICTS = ("holds", "within noise", "no difference", "does not hold")

MARGINS = {"error_rate": 0.005, "cll": 0.01, "ap": 0.005, "cpu_seconds": math.log(1.25), "induced": math.log(1.1)}
"""How far apart two methods may be that are said to be alike: half a percent of the cells, 0.01 nats, 0.005 of area,
a quarter of the time, a tenth of the features."""

RATIOS = ("cpu_seconds", "scoring_seconds", "induced", "active", "looked_at")
"""Compared by their ratio, so by differences of logarithms; the others by their difference."""

SMALLER_IS_BETTER = ("error_rate", "cpu_seconds")


@dataclass(frozen=True)
class Part:
    """A part is one comparison that a claim needs.

    Attributes
    ----------
    words : what is compared
    measure : of `reproduction.figures.MEASURES`
    relation : what the paper says of the first beside the second; "no gain" means: not better by more than the margin
    gaps : from results and objective, the differences first - second: one for each seed, or for each fold of real data
    bound : what the differences are compared with, instead of 0
    real : whether the differences are of folds, which share most of their cells
    slope : whether they are slopes over the threshold, of logarithms
    """

    words: str
    measure: str
    relation: Relation
    gaps: Callable[[Results, str], list[float]]
    bound: float = 0.0
    real: bool = False
    slope: bool = False

    @property
    def scale(self) -> str:
        """Return the scale of the differences: "slope", "ratio" (of logarithms) or "difference"."""
        return "slope" if self.slope else "ratio" if self.measure in RATIOS else "difference"


@dataclass(frozen=True)
class Claim:
    """A claim quotes the paper, with the comparisons that test it."""

    words: str
    where: str
    parts: Callable[[Plan], Iterator[Part]]


@dataclass(frozen=True)
class Finding:
    """A finding is the result of one part of a claim for one objective."""

    claim: str
    part: Part
    objective: str
    interval: Interval
    count: int
    verdict: str

    @property
    def size(self) -> str:
        """Return the difference with its interval, as a ratio if the measure is compared by ratios."""
        ends = [self.interval.mean, self.interval.low, self.interval.high]
        if self.part.scale == "ratio":
            mean, low, high = (f"{math.exp(min(end, 700.0)):.3g}" for end in ends)
            mean = f"x {mean}"
        else:
            mean, low, high = (f"{end:+z.{2 if self.part.slope else 4}f}" for end in ends)
        return mean if math.isnan(self.interval.low) else f"{mean} [{low}, {high}]"


class _Asked(Results):
    """Results that note which runs they are asked for, and know nothing about them."""

    def __init__(self) -> None:
        super().__init__({})
        self.runs: dict[Run, None] = {}

    def __getitem__(self, run: Run) -> list[Record]:
        self.runs[run] = None
        return []

    def mean(self, run: Run, measure: str) -> float:
        self.runs[run] = None
        return 1.0


def runs_of(plan: Plan, claims: Sequence[Claim] | None = None) -> list[Run]:
    """Return the runs that claims, by default all, are judged by, ordered by seed: networks first, then real data."""
    asked = _Asked()
    for claim in CLAIMS if claims is None else claims:
        for part, objective in product(claim.parts(plan), plan.objectives):
            part.gaps(asked, objective)
    return sorted(asked.runs, key=lambda run: (run.data != "synthetic", run.seed))


def judge(plan: Plan, results: Results, claims: Sequence[Claim] | None = None) -> list[Finding]:
    """Return the findings for all parts of claims, by default all that the plan has runs for, for each objective."""
    found = []
    for claim in CLAIMS if claims is None else claims:
        for part, objective in product(claim.parts(plan), plan.objectives):
            gaps = part.gaps(results, objective)
            folds = plan.settings.folds
            known = interval(gaps, test_to_train=1.0 / (folds - 1) if part.real else 0.0)
            found.append(Finding(claim.words, part, objective, known, len(gaps), _verdict(part, known)))
    return found


def verdict_of(findings: Sequence[Finding]) -> str:
    """Return whether a claim holds (all parts do), does not hold (one part does not), or is within noise.

    If the paper sees a difference where none is found, the claim does not hold.
    """
    verdicts = {finding.verdict for finding in findings}
    if verdicts & {"does not hold", "no difference"}:
        return "does not hold"
    return "holds" if verdicts == {"holds"} else "within noise"


def _verdict(part: Part, found: Interval) -> str:
    if math.isnan(found.low):
        return "within noise"
    low, high = found.low - part.bound, found.high - part.bound
    if part.relation == "less":
        holds, fails = high < 0, low > 0
    elif part.relation == "more":
        holds, fails = low > 0, high < 0
    elif part.relation == "same":
        margin = MARGINS[part.measure]
        holds, fails = -margin < low and high < margin, low > margin or high < -margin
    else:
        margin, gain = MARGINS[part.measure], (-high, -low) if part.measure in SMALLER_IS_BETTER else (low, high)
        holds, fails = gain[1] < margin, gain[0] > margin
    if holds or fails:
        return "holds" if holds else "does not hold"
    margin = 0.0 if part.bound or part.slope else MARGINS.get(part.measure, 0.0)
    return "no difference" if part.relation in ("less", "more") and -margin < low and high < margin else "within noise"


# -- the values that are compared ------------------------------------------------------------------------------------


LEAST = {"induced": 1.0, "active": 1.0}
"""What counts as nothing where logarithms are taken; 1e-9 of anything else."""


def _scaled(value: float, measure: str) -> float:
    return math.log(max(value, LEAST.get(measure, 1e-9))) if measure in RATIOS else value


def _compare(
    words: str, measure: str, relation: Relation, first: Callable[[str, int], Run | list[Run]],
    second: Callable[[str, int], Run | list[Run]], plan: Plan, bound: float = 0.0,
) -> Part:  # fmt: skip
    """Compare two runs, or the means over two lists of runs, for each seed."""

    def gaps(results: Results, objective: str) -> list[float]:
        def value(runs: Run | list[Run]) -> float:
            listed = runs if isinstance(runs, list) else [runs]
            return float(np.mean([_scaled(results.mean(run, measure), measure) for run in listed]))

        return [value(first(objective, seed)) - value(second(objective, seed)) for seed in range(plan.seeds)]

    return Part(words, measure, relation, gaps, bound)


def _compare_folds(
    words: str, measure: str, relation: Relation, data: str, methods: tuple[str, str], plan: Plan
) -> Part:
    """Compare two methods on the same folds of real data, over all splits."""

    def gaps(results: Results, objective: str) -> list[float]:
        found = []
        for seed in range(plan.seeds):
            first, second = (results[plan.run(method, objective, data=data, seed=seed)] for method in methods)
            for one, other in zip(first, second, strict=True):
                found.append(_scaled(one[measure], measure) - _scaled(other[measure], measure))
        return found

    return Part(words, measure, relation, gaps, real=True)


def _of(plan: Plan, method: str, **options: Any) -> Callable[[str, int], Run]:
    return lambda objective, seed: plan.run(method, objective, seed=seed, **options)


# -- the claims ------------------------------------------------------------------------------------------------------


def _faster_with_threshold(plan: Plan) -> Iterator[Part]:
    """Compare over all thresholds, and over those below 0.5: beyond it a field may be fast because it is empty."""

    def slope(measure: str, thresholds: Sequence[float]) -> Callable[[Results, str], list[float]]:
        def gaps(results: Results, objective: str) -> list[float]:
            found = []
            for seed in range(plan.seeds):
                runs = [plan.over_thresholds(objective, threshold, seed) for threshold in thresholds]
                values = [_scaled(results.mean(run, measure), measure) for run in runs]
                found.append(float(np.polyfit(thresholds, values, 1)[0]))
            return found

        return gaps

    below = [t for t in plan.thresholds if t < 0.5]
    for words, some in (("slope of its log", plan.thresholds), ("slope of its log below 0.5", below)):
        for measure in ("cpu_seconds", "scoring_seconds") if len(some) > 1 else ():
            yield Part(words, measure, "less", slope(measure, some), slope=True)


def _like_grafting_at_zero(plan: Plan) -> Iterator[Part]:
    if 0.0 not in plan.thresholds:
        return
    first, second = _of(plan, "cfi-paper", threshold=0.0), _of(plan, "grafting")
    yield _compare("CFI at 0 / Grafting", "cpu_seconds", "same", first, second, plan)


def _drop_past_a_half(plan: Plan) -> Iterator[Part]:
    small, large = [t for t in plan.thresholds if t < 0.5], [t for t in plan.thresholds if t > 0.5]
    if not small or not large:
        return
    up_to, past = max(small), min(large)
    first, second = _of(plan, "cfi-paper", threshold=past), _of(plan, "cfi-paper", threshold=up_to)
    for measure in ("induced", "active"):
        yield _compare(f"at {past:g} / at {up_to:g}", measure, "less", first, second, plan)
    yield _compare(f"at {past:g} / at {up_to:g}, below half", "induced", "less", first, second, plan, math.log(0.5))


def _better_below(plan: Plan) -> Iterator[Part]:
    some = [t for t in plan.thresholds if 0 < t < 0.4]
    if not some:
        return

    def first(objective: str, seed: int) -> list[Run]:
        return [plan.over_thresholds(objective, threshold, seed) for threshold in some]

    words = f"CFI at {', '.join(f'{t:g}' for t in some)} - Grafting"
    said: dict[str, Relation] = {"error_rate": "less", "cll": "more", "ap": "more"}
    for measure, relation in said.items():
        yield _compare(words, measure, relation, first, _of(plan, "grafting"), plan)


def _full_is_slow_and_good(plan: Plan) -> Iterator[Part]:
    for other in ("grafting", "cfi-paper"):
        name = METHODS[other]
        yield _compare(f"Full-L1 / {name}", "cpu_seconds", "more", _of(plan, "full"), _of(plan, other), plan)
        for measure in ("cll", "ap"):
            yield _compare(f"Full-L1 - {name}", measure, "more", _of(plan, "full"), _of(plan, other), plan)


def _cfi_is_fast_and_right(plan: Plan) -> Iterator[Part]:
    for other in ("grafting", "full"):
        name = METHODS[other]
        yield _compare(f"CFI / {name}", "cpu_seconds", "less", _of(plan, "cfi-paper"), _of(plan, other), plan)
        yield _compare(f"CFI - {name}", "error_rate", "less", _of(plan, "cfi-paper"), _of(plan, other), plan)


def _below_the_true_graph(plan: Plan) -> Iterator[Part]:
    yield _compare("CFI - TrueGraph", "error_rate", "less", _of(plan, "cfi-paper"), _of(plan, "graph"), plan)


def _fewer_active(plan: Plan) -> Iterator[Part]:
    yield _compare("CFI / Grafting", "active", "less", _of(plan, "cfi-paper"), _of(plan, "grafting"), plan)
    yield _compare("CFI / Grafting", "induced", "same", _of(plan, "cfi-paper"), _of(plan, "grafting"), plan)


def _batches_do_not_matter(plan: Plan) -> Iterator[Part]:
    for method, batch in product(("grafting", "cfi-paper"), plan.batches):
        if batch == BATCH:
            continue
        for measure in ("error_rate", "cll", "ap"):
            words = f"{METHODS[method]}, {batch} - {BATCH} at a time"
            yield _compare(words, measure, "same", _of(plan, method, batch=batch), _of(plan, method), plan)


def _one_stage_is_as_good(plan: Plan) -> Iterator[Part]:
    for measure in ("error_rate", "cll", "ap"):
        yield _compare(
            "CFI, one stage - two", measure, "same", _of(plan, "cfi-paper"), _of(plan, "cfi-paper", stages=2), plan
        )


def _one_step_is_enough(plan: Plan) -> Iterator[Part]:
    first, second = _of(plan, "grafting", converge=True), _of(plan, "grafting")
    yield _compare("Grafting, convergence / one step", "cpu_seconds", "more", first, second, plan)
    for measure in ("error_rate", "cll", "ap"):
        yield _compare("Grafting, convergence - one step", measure, "no gain", first, second, plan)


def _no_gain_on_animals(plan: Plan) -> Iterator[Part]:
    for method, measure in product(
        ("cfi-paper", "grafting") if "animals" in plan.real else (), ("ap", "cll", "error_rate")
    ):
        yield _compare_folds(f"{METHODS[method]} - Full-L1", measure, "no gain", "animals", (method, "full"), plan)
    for method in ("cfi-paper", "grafting") if "animals" in plan.real else ():
        words = f"{METHODS[method]} / Full-L1"
        yield _compare_folds(words, "cpu_seconds", "no gain", "animals", (method, "full"), plan)


def _gain_on_nations(plan: Plan) -> Iterator[Part]:
    if "nations" not in plan.real:
        return
    for first, second in (("cfi-paper", "grafting"), ("grafting", "full"), ("cfi-paper", "full")):
        for measure in ("cll", "ap"):
            words = f"{METHODS[first]} - {METHODS[second]}"
            yield _compare_folds(words, measure, "more", "nations", (first, second), plan)
    yield _compare_folds("CFI - Grafting", "error_rate", "same", "nations", ("cfi-paper", "grafting"), plan)
    for first in ("cfi-paper", "grafting"):
        words = f"{METHODS[first]} - Full-L1"
        yield _compare_folds(words, "error_rate", "less", "nations", (first, "full"), plan)
    yield _compare_folds("CFI / Full-L1", "cpu_seconds", "less", "nations", ("cfi-paper", "full"), plan)
    yield _compare_folds("CFI / Grafting", "cpu_seconds", "less", "nations", ("cfi-paper", "grafting"), plan)


CLAIMS = (
    Claim("CFI is increasingly faster as its thresholds grow", "Figure 2", _faster_with_threshold),
    Claim("With thresholds at 0, CFI takes about as long as Grafting", "Figure 2", _like_grafting_at_zero),
    Claim("The number of features drops sharply past a threshold of 0.5", "Figure 2", _drop_past_a_half),
    Claim("With thresholds below 0.4, CFI predicts better than Grafting", "Figure 2", _better_below),
    Claim("Full-L1 is the slowest, and has the best CLL and AP (its AUC)", "Figure 3", _full_is_slow_and_good),
    Claim("CFI is the fastest, and has the smallest error", "Figure 3", _cfi_is_fast_and_right),
    Claim("CFI has a smaller error than the true graph", "Figure 3", _below_the_true_graph),
    Claim("CFI ends with slightly fewer active features than Grafting, of about as many", "Figure 3", _fewer_active),
    Claim("Batches from 30 to 100 make no difference", "section 4", _batches_do_not_matter),
    Claim("Inducing from the start is as accurate as waiting for biases", "section 3", _one_stage_is_as_good),
    Claim("On Animal, selecting features brings neither speed nor accuracy", "section 4.2", _no_gain_on_animals),
    Claim("On Nation it does, and CFI more so than Grafting", "section 4.2", _gain_on_nations),
    Claim(
        "One step after each batch of Grafting is faster than convergence, and as good",
        "section 4",
        _one_step_is_enough,
    ),
)

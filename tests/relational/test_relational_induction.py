"""Candidates over links are those that names allow, and their scores exact where nothing is left out."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relational_oracle import ends_counted, layout_of, names_of, problem_of, slow_over
from villages import TEMPLATES, village

from sparsefield import config
from sparsefield.compute import Threads
from sparsefield.errors import DataError
from sparsefield.induction import CFI, RULES, FixedGraph, Grafting, all_pairs
from sparsefield.objectives import OBJECTIVES, DenseEvaluator
from sparsefield.objectives.objective import PairQuery

SEEDS = st.integers(0, 2**32 - 1)
COUNTS = st.sampled_from(["differs", "any"])
SOME_TEMPLATES = st.lists(st.sampled_from(TEMPLATES), min_size=1, unique=True)
NOTHING = np.empty(0, dtype=np.int64)


def factors_of(problem, objective: str):
    with Threads(1) as engine:
        evaluator = DenseEvaluator(problem.sample, OBJECTIVES[objective](), engine)
        evaluator.evaluate(problem.field.graphs, problem.field.theta)
        return evaluator.gradient_factors()


def scores(rule, problem, contrast, *, cut: float = 0.0, known=NOTHING) -> dict:
    """{name of a feature: (gradient, rank)}."""
    found = rule.score(contrast, PairQuery(cut, known))
    names = names_of(problem.slow, problem.layout, found.features)
    assert len(set(names)) == len(names)
    values = zip(found.gradient.tolist(), found.score.tolist(), strict=True)
    return dict(zip(names, values, strict=True))


def random_problem(seed: int, *, block_rows: int = 256, counts: str = "differs", **options):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "MIN_BLOCK_ROWS", block_rows)
        data, rows = village(seed, **options)
        return problem_of(data, rows, seed, counted=ends_counted(counts, data, rows, seed))


@given(seed=SEEDS, templates=SOME_TEMPLATES, counts=st.sampled_from(["differs", "any", "every", "no"]))
def test_candidates_are_those_that_names_allow(seed, templates, counts) -> None:
    data, rows = village(seed, templates=templates)
    counted = ends_counted(counts, data, rows, seed)
    layout = layout_of(data, counted=counted)
    slow = slow_over(data, rows, layout, counted=counted)
    assert Counter(names_of(slow, layout, all_pairs(layout))) == Counter(slow.candidates)


RULES_WITHOUT_THRESHOLDS = {"grafting": Grafting(), "cfi": CFI(0.0)}


@pytest.mark.parametrize(("rule", "objective"), [("grafting", "pl"), ("cfi", "pl"), ("cfi", "cd")])
@given(
    seed=SEEDS, templates=SOME_TEMPLATES, missing=st.sampled_from([0.0, 0.3]), counts=COUNTS,
    block_rows=st.sampled_from([1, 3, 256]), tile=st.sampled_from([1, 2, 8, 128]),
)  # fmt: skip
def test_without_thresholds_every_candidate_is_scored_with_its_exact_gradient(
    rule, objective, seed, templates, missing, counts, block_rows, tile
) -> None:
    """So is a state that meets itself over a symmetric template, which has one direction, not two."""
    options = {"missing": missing, "templates": templates, "counts": counts, "block_rows": block_rows}
    problem = random_problem(seed, persons=5, letters=5, **options)
    slow = problem.slow
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "TILE_STATES", tile)
        found = scores(RULES_WITHOUT_THRESHOLDS[rule], problem, factors_of(problem, objective))
    _, exact = slow.pl_gradient(slow.q) if objective == "pl" else slow.cd_gradient()
    assert set(found) <= set(exact)
    for name, gradient in exact.items():
        assert found.get(name, (0.0, 0.0)) == pytest.approx((gradient, abs(gradient)), abs=1e-11), name


@pytest.mark.parametrize("name", RULES)
@given(
    objective=st.sampled_from(["pl", "cd"]), seed=SEEDS, cut=st.sampled_from([0.0, 0.3, 1.0]),
    known=st.floats(0.0, 1.0), templates=SOME_TEMPLATES, counts=COUNTS,
)  # fmt: skip
@settings(max_examples=4)
def test_a_proposal_is_a_candidate_above_the_cut_and_not_known(
    name, objective, seed, cut, known, templates, counts
) -> None:
    problem = random_problem(seed, templates=templates, counts=counts)
    contrast, layout, rule = factors_of(problem, objective), problem.layout, RULES[name]()
    candidates = all_pairs(layout)
    taken = candidates[np.random.default_rng(seed).random(len(candidates)) < known]
    everything = scores(rule, problem, contrast, cut=cut)
    found = scores(rule, problem, contrast, cut=cut, known=np.sort(layout.keys(taken)))
    left_out = set(names_of(problem.slow, layout, taken))
    assert found == {feature: score for feature, score in everything.items() if feature not in left_out}
    assert all(abs(gradient) > cut for gradient, _ in found.values())


# -- a given graph -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def problem():
    return random_problem(8, persons=10, letters=10, missing=0.0)


def graph(problem, *edges) -> set:
    return set(names_of(problem.slow, problem.layout, FixedGraph(edges).start(problem.layout)))


def test_an_edge_holds_all_features_of_its_variables_in_every_template(problem) -> None:
    found = graph(problem, ("person.mood", "person.smokes"))
    wanted = {
        name
        for name in problem.slow.candidates
        if {name[1][:2], name[2][:2]} == {("person", "mood"), ("person", "smokes")}
    }
    assert found == wanted
    assert len({name[0] for name in found}) > 3


def test_a_variable_may_meet_itself_over_a_named_template(problem) -> None:
    for label in ("across elder", "joined who whom"):
        found = graph(problem, ("person.mood", "person.mood", label))
        states = len(problem.slow.states("person", "mood"))
        assert len(found) == (states * (states + 1) // 2 if label == "across elder" else states**2)


@pytest.mark.parametrize(
    ("edge", "words"),
    [
        (("person.mood", "letter.nothing"), "'letter.nothing'"),
        (("person.mood", "person.mood"), "itself"),
        (("person.mood", "letter.kind", "across nowhere"), "templates: 'within person'"),
        (("person.town", "person.age"), "two observed columns"),
        (("person.mood", "letter.kind", "across receiver (left kind; right smokes, town)"), "no template allows"),
        (("place.climate", "letter.kind"), "no template allows"),
    ],
)
def test_an_edge_that_no_template_allows_is_refused(problem, edge, words) -> None:
    with pytest.raises(DataError, match=words):
        graph(problem, edge)

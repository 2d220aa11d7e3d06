"""cfi without thresholds is the exhaustive gradient; ideal-parent ranks by the cosine."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from gradient_factors import factors_of
from hypothesis import given
from hypothesis import strategies as st
from oracle import SlowField, candidate_pairs
from plain import evaluated, graphs_of, learn_plain_schema

from sparsefield.data import Dataset, as_source, compile_table
from sparsefield.induction import CFI, Grafting, IdealParent, PaperCFI
from sparsefield.objectives import OBJECTIVES, DenseEvaluator
from sparsefield.objectives.objective import PairQuery

NOTHING = np.empty(0, dtype=np.int64)
GRADIENT = {"pl": SlowField.pl_gradient, "cd": SlowField.cd_gradient}


def score(rule, problem, factors, cut: float = 0.0) -> dict[tuple[int, int], tuple[float, float]]:
    found = rule.score(factors, PairQuery(cut, NOTHING))
    values = zip(found.gradient.tolist(), found.score.tolist(), strict=True)
    return dict(zip(map(tuple, found.features.tolist()), values, strict=True))


@pytest.mark.parametrize("objective", ["pl", "cd"])
@given(seed=st.integers(0, 2**32 - 1), missing=st.sampled_from([0.0, 0.3]))
def test_grafting_scores_every_candidate_with_its_exact_gradient(make_problem, objective, seed, missing) -> None:
    problem = make_problem(seed, missing=missing)
    found = score(Grafting(), problem, factors_of(problem, objective))
    pairs = candidate_pairs(problem.schema)
    exact = GRADIENT[objective](problem.slow, problem.rows, pairs)[problem.schema.n_target_columns :]
    assert [found.get(pair, (0.0, 0.0))[0] for pair in pairs] == pytest.approx(exact.tolist(), abs=1e-11)
    factors = problem.layout.feature_factors(np.array(list(found)))
    assert [s for _, s in found.values()] == [abs(g) / f for (g, _), f in zip(found.values(), factors, strict=True)]


@pytest.mark.parametrize("objective", ["pl", "cd"])
@given(seed=st.integers(0, 2**32 - 1), missing=st.sampled_from([0.0, 0.3]))
def test_cfi_without_thresholds_is_exhaustive(make_problem, objective, seed, missing) -> None:
    problem = make_problem(seed, missing=missing)
    factors = factors_of(problem, objective)
    exact = score(Grafting(), problem, factors)
    found = score(CFI(0.0), problem, factors)
    for pair in candidate_pairs(problem.schema):
        assert found.get(pair, (0.0, 0.0)) == pytest.approx(exact.get(pair, (0.0, 0.0)), abs=1e-11)
    order = sorted(exact, key=lambda pair: -exact[pair][1])
    clear = [p for p, q in pairwise(order) if exact[p][1] - exact[q][1] > 1e-9]
    ranking = sorted(found, key=lambda pair: -found[pair][1])
    assert [p for p in ranking if p in set(clear)] == clear


def test_cfi_without_thresholds_is_exhaustive_where_meetings_cancel(engine) -> None:
    """A balanced table: signals and errors of A and B meet in every row and add up to nothing, so that the
    gradient is the rank-one term alone. It is there as long as biases have not converged."""
    source = as_source([[0, 0], [0, 1], [1, 0], [1, 1]])
    schema = learn_plain_schema(source)
    evaluator = DenseEvaluator(Dataset.single(compile_table(source, schema)), OBJECTIVES["pl"](), engine)
    evaluator.evaluate(graphs_of(schema, np.empty((0, 2), dtype=np.int64)), np.array([1.0, 1.0]))
    factors = evaluator.gradient_factors()
    exact = Grafting().score(factors, PairQuery(0.0, NOTHING))
    found = CFI(0.0).score(factors, PairQuery(0.0, NOTHING))
    assert np.abs(exact.gradient) == pytest.approx([0.92423431], abs=1e-8)
    assert found.features.tolist() == exact.features.tolist()
    assert found.gradient == pytest.approx(exact.gradient, abs=1e-12)


@pytest.mark.parametrize(("rule", "objective"), [(CFI, "pl"), (CFI, "cd"), (PaperCFI, "pl")])
@given(seed=st.integers(0, 2**32 - 1), errors=st.sampled_from([0.1, 0.3]), signals=st.sampled_from([0.1, 0.4]))
def test_cfi_is_the_sum_over_entries_beyond_the_thresholds(
    make_problem, rule, objective, seed, errors, signals
) -> None:
    """By plain loops, with the rank-one term unless it is as printed; errors are weighed by their rows, and so is their
    threshold."""
    problem = make_problem(seed)
    factors = factors_of(problem, objective)
    found = score(rule((errors, signals)), problem, factors)
    n = problem.schema.n_target_columns
    (err, mid), weight = evaluated(factors), problem.table.weight()
    means, biases = factors.means[0], factors.bias_gradient[0]
    for a, b in candidate_pairs(problem.schema):
        total = 0.0
        if rule is CFI:
            total += means[b] * biases[a] + (means[a] * biases[b] if b < n else 0.0)
        for i in range(len(weight)):
            for one, other in ((a, b), (b, a)):
                if one >= n:
                    continue
                error, signal = err[one, i], mid[other, i] - means[other]
                if abs(error / weight[i]) > errors and abs(signal) > signals:
                    total += error * signal
        assert found.get((a, b), (0.0, 0.0))[0] == pytest.approx(total, abs=1e-4)


@given(seed=st.integers(0, 2**32 - 1))
def test_ideal_parent_ranks_by_the_larger_cosine(make_problem, seed) -> None:
    problem = make_problem(seed)
    factors = factors_of(problem)
    n = problem.schema.n_target_columns
    err, mid = evaluated(factors)
    sig = mid - factors.means[0][:, None]
    found = score(IdealParent(0.0), problem, factors)
    assert found
    for (a, b), (gradient, found_score) in found.items():
        product, cosine = 0.0, 0.0
        for one, other in ((a, b), (b, a)):
            if one < n:
                product += err[one] @ sig[other]
                cosine = max(cosine, abs(err[one] @ sig[other]) / np.linalg.norm(err[one]) / np.linalg.norm(sig[other]))
        assert gradient == pytest.approx(product, abs=1e-11)
        factor = problem.layout.feature_factors(np.array([[a, b]]))[0]
        assert found_score == pytest.approx(cosine / factor, abs=1e-11)


def test_scores_agree_over_many_tiles_and_blocks(make_problem) -> None:
    """More states than a tile has, more rows than a block has, more finds than the first room holds."""
    problem = make_problem(
        5, n_rows=600, states=(3,) * 70, observed_states=(4,) * 45, numbers=3, share=0.01, size=0.3, missing=0.05
    )
    assert problem.schema.n_target_columns > 128
    assert problem.schema.n_columns - problem.schema.n_target_columns > 128
    factors = factors_of(problem)
    assert len(factors.parts) == 3
    exact = score(Grafting(), problem, factors)
    found = score(CFI(0.0), problem, factors)
    assert set(found) == set(exact)
    assert max(abs(found[pair][0] - exact[pair][0]) for pair in exact) < 1e-9
    assert set(exact) == set(candidate_pairs(problem.schema))

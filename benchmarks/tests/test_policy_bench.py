"""The benchmark of the solver's constants: each is left out in turn, and put back."""

from benchmarks.policy import CASES, WITHOUT, replaced, run_policy
from sparsefield.solver import fit, policy


def test_fits_without_a_constant_reach_the_same_optimum() -> None:
    rows = run_policy(["small: ising-100"], repeats=1, report=lambda line: None)
    assert [row["method"] for row in rows] == list(WITHOUT)
    assert max(abs(row["objective_without"]) for row in rows) < 1e-5


def test_every_constant_that_is_left_out_is_one_of_the_policy_and_comes_back() -> None:
    assert {name for values in WITHOUT.values() for name in values} <= set(vars(policy))
    with replaced({"INNER_TOLERANCE": 0.0}):
        assert fit.INNER_TOLERANCE == 0.0
    assert policy.INNER_TOLERANCE == fit.INNER_TOLERANCE > 0.0


def test_cases_have_names_of_their_benchmarks() -> None:
    assert {name.split(":")[0] for name in CASES} == {"small", "dependent", "scale", "missing"}

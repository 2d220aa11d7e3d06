"""The processor time of a fit is divided among its parts."""

from __future__ import annotations

import time

import pytest

from benchmarks import profile
from benchmarks.dependent_data import find_cases
from benchmarks.profile import PACKAGE, StackSampler, count_calls, place_of, profile_fit


def test_functions_belong_to_parts() -> None:
    assert place_of(PACKAGE + "induction/cfi.py", "CFI.score")[0] == profile.SCORING
    assert place_of(PACKAGE + "objectives/dense_evaluator.py", "DenseEvaluator.compile")[0] == profile.COMPILING
    assert place_of(PACKAGE + "solver/newton.py", "step") == ("solver/newton", "solver/newton: step")
    assert place_of(PACKAGE + "kernels/x.py", "f") == (None, "kernels/x: f")


def test_samples_add_up_to_the_processor_time() -> None:
    def burn() -> int:
        until, count = time.process_time() + 0.1, 0
        while time.process_time() < until:
            count += 1
        return count

    sampler = StackSampler()
    assert sampler.run(burn) > 0
    assert set(sampler.parts) == {"rest"}
    assert 0.05 < sum(sampler.parts.values()) < 0.2
    assert sampler.parts == sampler.functions


def test_calls_of_the_package_are_counted() -> None:
    from sparsefield.compute import tree_sum

    calls = count_calls(lambda: [tree_sum(iter([1, 2])) for _ in range(3)])
    assert calls["compute/threads: tree_sum"] == 3


def test_a_fit_has_parts_functions_and_phases() -> None:
    found = profile_fit(find_cases(["factors"], short=True)[0])
    assert sum(found.parts.values()) <= found.cpu_seconds + 0.01
    assert sum(found.phases.values()) > 3
    assert found.certified
    assert found.largest_working_set >= found.weights > 0
    evaluations = found.calls["objectives/dense_evaluator: DenseEvaluator.evaluate"]
    rounds = found.calls["solver/fit: score"]
    assert 0 < found.operations[profile.EVALUATION] < 300 * evaluations * (8 + 4) * found.largest_working_set
    assert found.operations[profile.SCORING] == 2 * 40**2 * 300 * rounds
    assert sum(row["percent"] for row in found.part_rows()) == pytest.approx(100.0)
    assert len(found.function_rows(2)) == 2
    assert any(name.startswith("solver/fit: ") for name in found.calls)


def test_a_case_without_its_files_is_skipped(run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_):
        raise RuntimeError("Traceback\nbenchmarks.dependent_data.MissingDataError: plants is skipped")

    monkeypatch.setattr(profile, "in_child", fail)
    done = run("profile", "--case", "plants")
    assert done.code == 0
    assert "plants is skipped" in done.err

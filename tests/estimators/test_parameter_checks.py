"""Every parameter of every estimator and option object is checked before any work, by name and all at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone

from sparsefield import (
    CFI,
    EBIC,
    EM,
    AutomaticInference,
    BeliefPropagation,
    CRFClassifier,
    ExactInference,
    Features,
    FixedGraph,
    FullL1,
    Gibbs,
    Grafting,
    HeldOut,
    IdealParent,
    MarkovField,
    MeanField,
    PaperCFI,
    Relational,
    RelationalField,
    Solver,
)
from sparsefield.errors import DataError
from sparsefield.induction import RULES as INDUCTION_RULES
from sparsefield.inference import INFERENCE
from sparsefield.objectives import OBJECTIVES, PseudoLikelihood
from sparsefield.options import RULES

BAD = (None, float("nan"), float("inf"), -1, "x", (1, 2, 3), object())
TABLE = np.repeat(np.eye(2, dtype=int), 6, axis=0)
LINKED = Relational({"a": pl.DataFrame({"x": TABLE[:, 0], "y": TABLE[:, 1]})})
CONTENTS = {"observed": "Column", "templates": "template"}
"""Words for what a list contains that has the right type, but names what the data lack."""
OBJECTS: dict[str, tuple[type, ...]] = {
    "induction": (CFI, PaperCFI, Grafting, IdealParent, FullL1, FixedGraph),
    "selection": (HeldOut, EBIC),
    "features": (Features,),
    "missing": (EM,),
    "inference": (AutomaticInference, BeliefPropagation, ExactInference, Gibbs, MeanField),
    "solver": (Solver,),
}


@pytest.fixture(autouse=True)
def _folder_for_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def fit(estimator: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(estimator, RelationalField):
            estimator.fit(LINKED)
        elif isinstance(estimator, CRFClassifier):
            estimator.fit(TABLE[:, :1], TABLE[:, 1])
        else:
            estimator.fit(TABLE)


def refusal(make: Callable[[], Any]) -> str:
    """Return the message of a refused fit; nothing if it works."""
    try:
        fit(make())
    except (DataError, ValueError, TypeError) as error:
        return str(error)
    return ""


def works_or_names(make: Callable[[], Any], name: str) -> None:
    message = refusal(make)
    named = name in message or CONTENTS.get(name, name) in message
    assert not message or (named and message.endswith(".")), (name, message)


@pytest.mark.parametrize("kind", [MarkovField, CRFClassifier, RelationalField])
def test_parameters_of_estimators_work_or_are_named(kind) -> None:
    for name in kind().get_params(deep=False):
        for bad in BAD:
            works_or_names(partial(kind, **{"l1": 1.0, name: bad}), name)


@pytest.mark.parametrize(("name", "part"), [(name, part) for name, parts in OBJECTS.items() for part in parts])
def test_options_of_objects_work_or_are_named(name: str, part: type) -> None:
    for option in fields(part):
        for bad in (
            BAD if option.name != "engine" else [value for value in BAD if value != "x"]
        ):  # "x" may be an address
            given = {option.name: bad}
            works_or_names(lambda given=given: MarkovField(**{"l1": 1.0, name: part(**given)}), option.name)


def test_every_option_has_a_rule_or_a_check_of_its_own() -> None:
    options = {option.name for parts in OBJECTS.values() for part in parts for option in fields(part)}
    assert options - set(RULES) == {"edges"}


def test_all_problems_are_told_at_once() -> None:
    field = MarkovField(
        l1=None, l2=-1.0, n_jobs="2", induction=CFI(threshold=(1, 2, 3)), solver=Solver(max_iter=np.nan)
    )
    with pytest.raises(ValueError, match="l1 must be") as caught:
        field.fit(TABLE)
    for name in ("l2", "n_jobs", "threshold", "max_iter"):
        assert f"{name} must be " in str(caught.value)


def test_a_problem_names_the_option_of_the_command_line() -> None:
    with pytest.raises(ValueError, match=r"l1 must be .* or 'auto', got -1\. .*got 0\."):
        MarkovField(l1=-1, solver=Solver(max_iter=0)).fit(TABLE)


def test_a_registered_name_is_accepted_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry, kind in ((OBJECTIVES, PseudoLikelihood), (INDUCTION_RULES, CFI), (INFERENCE, MeanField)):
        monkeypatch.setitem(registry, "new", kind)
    field = MarkovField(l1=1.0, objective="new", induction="new", inference="new").fit(TABLE)
    assert field.converged_
    monkeypatch.undo()
    assert "objective must be one of 'pl', 'cd', 'ml', 'bethe', or in Python an object" in refusal(lambda: clone(field))


def test_all_contradictions_are_told_at_once() -> None:
    field = MarkovField(
        objective="cd", missing="em", selection="ebic", penalty="group", features=Features(max_order=3),
        induction="full", latent={"topic": 2}, refit=True,
    )  # fmt: skip
    with pytest.raises(ValueError, match="missing='em' is for objective='pl'") as caught:
        field.fit(TABLE)
    for part in ("selection='ebic'", "penalty='group'", "max_order=3 needs", "refit=True is not"):
        assert part in str(caught.value)


def test_all_problems_of_latent_variables_are_told_at_once() -> None:
    with pytest.raises(ValueError, match=r"l2 must be .* latent names a variable 3: .* 'a' must have 2") as caught:
        MarkovField(l1=1.0, l2=-1.0, latent={3: 2, "a": 1, "b": "x"}).fit(TABLE)
    assert "'b' must have 2 states or more, got 'x'" in str(caught.value)


def test_a_sample_beyond_memory_is_refused_with_its_size() -> None:
    field = MarkovField(l1=1.0).fit(TABLE)
    with pytest.raises(DataError, match=r"100,000,000,000 rows may take [\d.]+ GiB"):
        field.sample(10**11)

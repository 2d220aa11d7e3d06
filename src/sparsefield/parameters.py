"""Parameters of the three estimators, their defaults, and what the command line says about them.

It imports nothing heavy, since the command line reads it before it knows what to do.
"""

# ruff: noqa: RUF009, because `_parameter` returns a field of a dataclass

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from sparsefield.induction import InductionRule
    from sparsefield.inference import InferenceMethod
    from sparsefield.objectives import EM, Objective
    from sparsefield.solver import Features, SelectionCriterion, Solver

BURN_IN = 500
"""Sweeps of a chain of Gibbs sampling before its first row."""

CHECKPOINT_NAME = "fit.checkpoint"
"""The file in the folder of a checkpoint that has the state of a fit."""

THIN = 100
"""Sweeps between two rows that are drawn from one chain."""


def _parameter(default: Any, help: str, metavar: str | None = None, *, flag: bool = False) -> Any:
    """Return the field of a parameter with its help and placeholder; a ``flag`` has an option of its own."""
    return field(default=default, metadata={"help": help, "metavar": metavar, "flag": flag})


@dataclass(kw_only=True, eq=False, repr=False, match_args=False)
class FieldParameters:
    """Parameters that all estimators share, with their defaults; `MarkovField` documents them."""

    kinds: str | Mapping[Any, Any] = "auto"
    missing: str | EM | InferenceMethod = _parameter(
        "auto",
        "How missing cells are treated in learning: em averages over completions of incomplete rows; mean-field (or "
        "bp, exact, gibbs) puts beliefs in their place, as in the paper. auto is em for pl and mean-field for cd.",
        "auto|em|mean-field|bp|exact|gibbs",
    )
    l1: float | str = _parameter(
        "auto",
        "Strength of the L1 penalty, which leaves features out. The loss is a sum over rows, so a larger table needs a "
        "larger number; auto selects it, see --selection.",
        "NUMBER|auto",
        flag=True,
    )
    selection: str | SelectionCriterion = _parameter(
        "heldout",
        "Criterion by which l1 is selected: predictions of held-out cells, or EBIC, which selects fewer features.",
        "heldout|ebic",
        flag=True,
    )
    inference: str | InferenceMethod = _parameter(
        "auto",
        "How missing cells are inferred in predictions: auto is exact where they are few or depend narrowly on each "
        "other, elsewhere belief propagation where Gibbs sampling confirms it, else Gibbs sampling; or mean field, "
        "belief propagation, variable elimination, Gibbs sampling.",
        "auto|mean-field|bp|exact|gibbs",
    )
    refit: bool | str = _parameter(
        False,
        "Estimate the weights of the selected features again without the L1 penalty, which shrinks them: yes, by the "
        "objective; ml, by the exact likelihood.",
        "no|yes|ml",
        flag=True,
    )
    l2: float = _parameter(1.0, "Strength of the L2 penalty, which shrinks large weights.")
    penalty: str = _parameter(
        "l1",
        "l1 selects features one by one; group selects edges, all features of which have weights or none: for columns "
        "with many states.",
        "l1|group",
        flag=True,
    )
    features: Features | None = None
    induction: str | InductionRule = _parameter(
        "cfi",
        "Rule that adds features: cfi (contrastive feature induction), cfi-paper (the same as printed in the paper), "
        "grafting, ideal-parent, or full (every candidate at once).",
        flag=True,
    )
    objective: str | Objective = _parameter(
        "pl",
        "pl (pseudo-likelihood), cd (contrastive divergence, as in the paper), ml (the exact likelihood, for columns "
        "that are few or depend on each other narrowly), or bethe (the likelihood by belief propagation, for small "
        "tables).",
        flag=True,
    )
    solver: Solver | None = None
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | None = None


EVERYDAY = {part.name: part for part in fields(FieldParameters) if part.metadata.get("flag")}
"""Parameters that have an option of their own at the command line; ``--set`` reaches all others."""


def automatic_treatment(objective: str) -> str:
    """Return what missing="auto" means: mean field for `cd`, otherwise `EM`. The exact likelihood needs neither."""
    return "mean-field" if objective == "cd" else "em"

"""Parameters of the three estimators, their defaults, and how the command line names them.

It imports nothing heavy, since the command line reads it before it knows what to do.
"""

# ruff: noqa: RUF009, because `_option` returns a field of a dataclass

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from sparsefield.induction import InductionRule
    from sparsefield.inference import InferenceMethod
    from sparsefield.objectives import EM
    from sparsefield.solver import Features, SelectionCriterion, Solver

THRESHOLD = 0.2
"""Absolute value above which `CFI` takes errors and signals into account."""

ORDER_PENALTY = 2.0
"""Factor on the L1 penalty for each column of a feature beyond two."""

TOLERANCE, MAX_ITER = 1e-6, 1000
"""Relative change at which the optimizer stops, and its largest number of steps."""

BURN_IN = 500
"""Sweeps of a chain of Gibbs sampling before its first row."""

CHECKED_SHARE = 0.1
"""The share of cells, or of sequences, that ``sparsefield fit`` holds out to check a fit."""

CHECKPOINT_NAME = "fit.checkpoint"
"""The file in the folder of a checkpoint that has the state of a fit."""

THIN = 100
"""Sweeps between two rows that are drawn from one chain."""


@dataclass(frozen=True)
class CommandLineOption:
    """One learning option of the command line."""

    name: str
    """Name of the parameter as `set_params` takes it, such as ``"l1"`` or ``"induction__threshold"``."""
    default: Any
    """Default value; its type is the type of the option."""
    help: str
    metavar: str | None = None
    """Placeholder of the value in help texts. One that ends in ``|auto`` stands for a number or "auto"."""
    minimum: float | None = None
    own_flag: str | None = None
    """Name of the option where it is not that of the parameter."""

    @property
    def flag(self) -> str:
        """Name of the option, such as ``"--batch-size"``."""
        return "--" + self.key.replace("_", "-")

    @property
    def key(self) -> str:
        """Name of the parameter of a command: without the object that it belongs to."""
        return self.own_flag.strip("-").replace("-", "_") if self.own_flag else self.name.rpartition("__")[2]


def _option(
    default: Any, help: str, metavar: str | None = None, minimum: float | None = None, flag: str | None = None
) -> Any:
    """Return the field of a parameter that is also an option of the command line."""
    return field(default=default, metadata={"help": help, "metavar": metavar, "minimum": minimum, "own_flag": flag})


@dataclass(kw_only=True, eq=False, repr=False, match_args=False)
class FieldParameters:
    """Parameters that all estimators share, with their defaults; `MarkovField` documents them."""

    induction: str | InductionRule = _option(
        "cfi",
        "Rule that adds features: cfi (contrastive feature induction), cfi-paper (the same as printed in the paper), "
        "grafting, ideal-parent, or full (every candidate at once).",
    )
    objective: str = _option(
        "pl",
        "pl (pseudo-likelihood), cd (contrastive divergence, as in the paper), ml (the exact likelihood, for columns "
        "that are few or depend on each other narrowly), or bethe (the likelihood by belief propagation, for small "
        "tables).",
    )
    l1: float | str = _option(
        "auto",
        "Strength of the L1 penalty, which leaves features out. The loss is a sum over rows, so a larger table needs a "
        "larger number; auto selects it, see --selection.",
        "NUMBER|auto",
    )
    penalty: str = _option(
        "l1",
        "l1 selects features one by one; group selects edges, all features of which have weights or none: for columns "
        "with many states.",
        "l1|group",
    )
    l2: float = _option(1.0, "Strength of the L2 penalty, which shrinks large weights.")
    selection: str | SelectionCriterion = _option(
        "heldout",
        "Criterion by which l1 is selected: predictions of held-out cells, or EBIC, which selects fewer features.",
        "heldout|ebic",
    )
    refit: bool | str = _option(
        False,
        "Estimate the weights of the selected features again without the L1 penalty, which shrinks them: yes, by the "
        "objective; ml, by the exact likelihood.",
        "no|yes|ml",
    )
    features: Features | None = None
    missing: str | EM | InferenceMethod = _option(
        "auto",
        "How missing cells are treated in learning: em averages over completions of incomplete rows; mean-field (or "
        "bp, exact, gibbs) puts beliefs in their place, as in the paper. auto is em for pl and mean-field for cd.",
        "auto|em|mean-field|bp|exact|gibbs",
        flag="--missing-cells",
    )
    inference: str | InferenceMethod = _option(
        "auto",
        "How missing cells are inferred in predictions: auto is exact where they are few or depend narrowly on each "
        "other, elsewhere belief propagation where Gibbs sampling confirms it, else Gibbs sampling; or mean field, "
        "belief propagation, variable elimination, Gibbs sampling.",
        "auto|mean-field|bp|exact|gibbs",
    )
    kinds: str | Mapping[Any, Any] = "auto"
    solver: Solver | None = None
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0


NESTED_OPTIONS = {
    "induction": (
        CommandLineOption(
            "induction__threshold",
            THRESHOLD,
            "cfi computes gradients from the errors and signals above this absolute value; 0 makes them exact.",
        ),
        CommandLineOption(
            "induction__batch_size", "auto", "Features that are added at a time; 50 in the paper.", "NUMBER|auto"
        ),
    ),
    "features": (
        CommandLineOption(
            "features__max_order",
            2,
            "Largest number of columns in a feature: 2 for pairs; 3 and more allow conjunctions.",
            minimum=2,
        ),
        CommandLineOption(
            "features__expand",
            "active",
            "Pairs that --max-order 3 extends: those with a weight, or all.",
            "active|all",
        ),
        CommandLineOption(
            "features__order_penalty",
            ORDER_PENALTY,
            "Factor on the L1 penalty for each column beyond two.",
            minimum=1.0,
        ),
        CommandLineOption(
            "features__coding",
            "symmetric",
            "Columns of nominal variables with more than two states: every state has features, or all but the most "
            "frequent one, as in the paper.",
            "symmetric|reference",
        ),
        CommandLineOption(
            "features__penalize_biases", False, "Apply the penalties to the weights of single states, too."
        ),
    ),
}
SOLVER_OPTIONS = (
    CommandLineOption("solver__certify", True, "Continue until no left-out candidate would improve the fit."),
    CommandLineOption("solver__tol", TOLERANCE, "Relative change of the objective below which the optimizer stops."),
    CommandLineOption("solver__max_iter", MAX_ITER, "Largest number of iterations.", minimum=1),
)
"""Options of option objects, which take their defaults from this file."""


def automatic_treatment(objective: str) -> str:
    """Return what missing="auto" means: mean field for `cd`, otherwise `EM`. The exact likelihood needs neither."""
    return "mean-field" if objective == "cd" else "em"


def command_line_options() -> tuple[CommandLineOption, ...]:
    """Return the learning options of the command line: parameters, each followed by those of its option object."""
    found: list[CommandLineOption] = []
    for parameter in fields(FieldParameters):
        if parameter.metadata:
            found.append(CommandLineOption(parameter.name, parameter.default, **parameter.metadata))
        found += NESTED_OPTIONS.get(parameter.name, ())
    return (*found, *SOLVER_OPTIONS)

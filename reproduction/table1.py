"""This module measures the paper's Table 1: Full-L1, Grafting and CFI on Animal and Nation, and further settings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from reproduction.chosen_penalty import ChosenPenalties, ChosenPenalty
from reproduction.cited import CLAIMS
from reproduction.irm_estimator import InfiniteRelationalModel
from reproduction.paired import PairedTest, paired_test
from reproduction.public_data import load_dataset
from sparsefield.analysis.hold_out import Evaluation, Fold, evaluate
from sparsefield.data import Relational
from sparsefield.estimators import MarkovField, RelationalField
from sparsefield.inference import MeanField
from sparsefield.solver import Solver

__all__ = [
    "DATA", "MEASURES", "OBJECTIVES", "SETTINGS", "Candidates", "Comparison", "Row", "Setting", "Table1",
    "compare", "count_candidates", "run_table1",
]  # fmt: skip

METHODS = {"Full-L1": "full", "Grafting": "grafting", "CFI": "cfi-paper", "CFI with margins": "cfi"}
"""CFI is Algorithm 1 as printed; "with margins" keeps the rank-one term of the decomposition."""

IRM = "IRM"
THREE = ("Full-L1", "Grafting", "CFI")
OBJECTIVES = ("pl", "cd")
NO_OBJECTIVE = ""
"""Of a method that is no field."""
FOLDS, QUICK_FOLDS = 10, 3
MEASURES = {"ap": True, "cll": True, "error_rate": False}
"""What methods are compared by, and whether more of it is better."""

PAPER = {
    "l2": 1.0,
    "induction__threshold": 0.2,
    "induction__batch_size": 50,
    "solver__certify": False,
    "solver__tol": 1e-4,
    "features__penalize_biases": True,
    "missing": "mean-field",
    "inference": "mean-field",
    "features__coding": "reference",
}
"""Section 4's setting. l1 is that of the data; Eq. 5 penalizes every weight, biases ones too."""

EPSILON = 0.1
"""Section 4.2's rule for linked entities: rounds of mean field end when no belief changes by more."""

BASE_TEMPLATES = ("within nation", "within pair", "across subject", "across object")
"""Those that the paper counts its candidates over, and `templates="base"` stands for."""

SWAPPED = (*BASE_TEMPLATES, "swapped subject object")
SHARED = (*SWAPPED, "shared subject")


@dataclass(frozen=True)
class Data:
    """A dataset of the table, with the paper's l1 for it."""

    name: str
    title: str
    l1: float

    def load(self, *, open_world: bool = False) -> Any:
        """Return one frame, or linked tables."""
        if self.name == "animals":
            return load_dataset("animals").frame
        nations = load_dataset("nations")
        return nations.open_world() if open_world else nations.closed_world()


DATA = {data.name: data for data in (Data("animals", "Animal", 0.5), Data("nations", "Nation", 2.0))}


@dataclass(frozen=True)
class Setting:
    """A setting is a block of rows: the paper's setting, or one that differs from it.

    Attributes
    ----------
    name, label : str
    changes : parameters that differ from the paper's
    methods, data, objectives : who and what it is run for
    open_world : bool
        Whether unknown cells are missing, not false.
    chosen : bool
        Whether penalties are chosen within each fold: l1 of linked tables, see `ChosenPenalty`, and l1 and l2 of one
        table, see `ChosenPenalties`.
    """

    name: str
    label: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    methods: tuple[str, ...] = ("CFI",)
    data: tuple[str, ...] = ("nations",)
    objectives: tuple[str, ...] = OBJECTIVES
    open_world: bool = False
    chosen: bool = False

    def estimator(self, data: Data, method: str, objective: str, seed: int = 0) -> Any:
        """Return the estimator that is fitted in each fold."""
        if method == IRM:
            return InfiniteRelationalModel(random_state=seed, **self.changes)
        params = {**PAPER, "l1": data.l1, "induction": METHODS[method], "objective": objective, **self.changes}
        params |= {"random_state": seed} if self.chosen else {}
        if data.name == "animals":
            return configure(ChosenPenalties() if self.chosen else MarkovField(), params)
        for name in ("missing", "inference"):
            params[name] = MeanField(tolerance=EPSILON) if params[name] == "mean-field" else params[name]
        return configure(ChosenPenalty() if self.chosen else RelationalField(), {"templates": "base", **params})


def configure(estimator: Any, params: Mapping[str, Any]) -> Any:
    """Set parameters of an estimator; options that its induction rule does not have are ignored."""
    estimator.set_params(**{name: value for name, value in params.items() if "__" not in name})
    known = estimator.get_params()
    return estimator.set_params(**{name: value for name, value in params.items() if "__" in name and name in known})


_FREE = {"features__penalize_biases": False}
_BOTH = ("animals", "nations")
_CHAINS = {"chains": 10, "sweeps": 1000}
SETTINGS = (
    Setting("paper", "paper's setting", methods=tuple(METHODS), data=_BOTH),
    Setting("irm", "10 chains", _CHAINS, (IRM,), _BOTH, (NO_OBJECTIVE,)),
    Setting("free", "biases free", _FREE, methods=THREE, data=_BOTH),
    Setting("open", "open world", methods=THREE, open_world=True),
    Setting("irm-open", "10 chains, open world", _CHAINS, (IRM,), objectives=(NO_OBJECTIVE,), open_world=True),
    # Only pl has a gradient that is its loss's own, so only its fits can end with a certificate.
    Setting("certified", "certified, free", {**_FREE, "solver__certify": True}, data=_BOTH, objectives=("pl",)),
    Setting(
        "penalties", "beyond: l1, l2 chosen, certified, free",
        {**_FREE, "solver__certify": True, "induction__batch_size": "auto"},
        data=("animals",), objectives=("pl",), chosen=True,
    ),
    Setting("swapped", "beyond: swapped, free", {**_FREE, "templates": SWAPPED}),
    Setting("shared", "beyond: swapped, shared, free", {**_FREE, "templates": SHARED}),
    Setting("chosen", "beyond: l1 chosen, swapped, free", {**_FREE, "templates": SWAPPED}, chosen=True),
)  # fmt: skip
QUICK = (
    Setting("paper", "paper's setting", methods=THREE, data=("animals",)),
    Setting("paper", "paper's setting"),
)


@dataclass(frozen=True)
class Row:
    """A row is a measured line of the table; ``picks`` are the chosen l1, or l1 and l2, of each fold."""

    data: str
    setting: Setting
    method: str
    objective: str
    evaluation: Evaluation
    picks: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True)
class Candidates:
    """Candidates are the possible features: one for each state, and one for each pair that a template allows."""

    biases: int
    pairs: int

    @property
    def total(self) -> int:
        return self.biases + self.pairs


@dataclass(frozen=True)
class Comparison:
    """A comparison tests two methods in the same setting, on the same folds."""

    data: str
    setting: str
    objective: str
    first: str
    second: str
    measure: str
    test: PairedTest
    claim: str
    """Of the paper's section 4.2, which speaks of its own setting; empty where it says nothing."""

    @property
    def verdict(self) -> str:
        return self.test.verdict(larger_is_better=MEASURES[self.measure])


@dataclass(frozen=True)
class Table1:
    """Table 1 holds all measured rows."""

    folds: int
    seed: int
    rows: tuple[Row, ...]
    candidates: Mapping[str, Candidates]

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Return the comparisons of every pair of methods of a setting, by every measure."""
        return tuple(compare(self.rows))


def run_table1(
    data: Sequence[str] = tuple(DATA),
    objectives: Sequence[str] | None = None,
    folds: int | None = None,
    *,
    settings: Sequence[str] | None = None,
    seed: int = 0,
    quick: bool = False,
    report: Callable[[str], None] = print,
    progress: Callable[[str], None] | None = None,
) -> Table1:
    """Measure the table.

    Parameters
    ----------
    data : names in `DATA`
    objectives : of "pl" and "cd"; by default both, or pl alone if ``quick``
    folds : int
        By default 10, or 3 if ``quick``.
    settings : names of settings; by default all
    seed : int
        Seed of the split into folds, and of the cells that a choice of l1 holds out.
    quick : bool
        Whether to run the paper's setting only, and on Nation CFI only.
    report : called with a line for each finished row
    progress : called with a few words for each finished fold
    """
    _check("data", data, DATA)
    objectives = objectives or (OBJECTIVES[:1] if quick else OBJECTIVES)
    _check("objective", objectives, OBJECTIVES)
    folds = folds or (QUICK_FOLDS if quick else FOLDS)
    offered = QUICK if quick else SETTINGS
    _check("setting", settings or (), [setting.name for setting in offered])
    plan = list(_plan([one for one in offered if not settings or one.name in settings], data, objectives))
    if not plan:
        raise ValueError("None of these settings is run for these data and objectives: leave one of the options out.")
    loaded = {key: DATA[key[0]].load(open_world=key[1]) for key in {(d, s.open_world) for d, s, _, _ in plan}}
    rows = []
    for k, (name, setting, objective, method) in enumerate(plan, start=1):
        words = (DATA[name].title, setting.label, objective, method)
        title = f"{', '.join(word for word in words if word)} ({k} of {len(plan)})"
        table = loaded[name, setting.open_world]
        rows.append(_run_row(table, name, setting, objective, method, folds, seed, _telling(title, progress)))
        report(f"{title}: {_in_short(rows[-1].evaluation)}")
    candidates = {name: count_candidates(DATA[name].load()) for name in dict.fromkeys(row.data for row in rows)}
    return Table1(folds, seed, tuple(rows), candidates)


def compare(rows: Sequence[Row]) -> Iterator[Comparison]:
    """Return paired tests between the methods of each setting, for the pairs that the paper mentions."""
    known = {(row.data, row.setting.name, row.objective, row.method): row for row in rows}
    blocks = dict.fromkeys((row.data, row.setting.name, row.objective) for row in rows)
    for (data, first, second), claims in CLAIMS.items():
        for block in blocks:
            pair = [known.get((*block, method)) for method in (first, second)]
            if block[0] != data or None in pair:
                continue
            for measure in MEASURES:
                one, other = ([getattr(fold, measure) for fold in row.evaluation.folds] for row in pair if row)
                test = paired_test(one, other, test_to_train=_test_to_train(known[*block, first].evaluation))
                yield Comparison(*block, first, second, measure, test, claims.get(measure, ""))


def count_candidates(table: Any) -> Candidates:
    """Count the candidates of a table, or of linked tables, over the base templates."""
    table = table.replace(templates="base") if isinstance(table, Relational) else table
    kind = RelationalField if isinstance(table, Relational) else MarkovField
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layout = kind(l1=2.0, solver=Solver(max_iter=1, certify=False)).fit(table).field_.layout
    return Candidates(layout.n_target_columns, layout.n_candidate_pairs)


def _plan(
    settings: Sequence[Setting], data: Sequence[str], objectives: Sequence[str]
) -> Iterator[tuple[str, Setting, str, str]]:
    for name in dict.fromkeys(data):
        for setting in settings:
            if name in setting.data:
                asked = [objective for objective in setting.objectives if objective in (*objectives, NO_OBJECTIVE)]
                for objective, method in product(asked, setting.methods):
                    yield name, setting, objective, method


def _run_row(
    table: Any, name: str, setting: Setting, objective: str, method: str, folds: int, seed: int,
    progress: Callable[[Fold], None] | None,
) -> Row:  # fmt: skip
    estimator: Any = setting.estimator(DATA[name], method, objective, seed)
    picks: list[tuple[float, ...]] = []

    def keep_pick(field: Any, _: Any) -> None:
        if setting.chosen:
            picks.append((field.l1_, field.l2_) if hasattr(field, "l2_") else (field.l1_,))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # each fold records whether its fit converged
        evaluation = evaluate(table, estimator, folds, seed=seed, progress=progress, on_fit=keep_pick)
    return Row(name, setting, method, objective, evaluation, tuple(picks))


def _telling(title: str, progress: Callable[[str], None] | None) -> Callable[[Fold], None] | None:
    if progress is None:
        return None
    done: list[Fold] = []

    def tell(fold: Fold) -> None:
        done.append(fold)
        progress(f"{title}, fold {len(done)} done")

    return tell


def _in_short(evaluation: Evaluation) -> str:
    ap, cll, seconds = (evaluation.spread(measure).mean for measure in ("ap", "cll", "seconds"))
    return f"AP {ap:.3f}, CLL {cll:.3f}, {seconds:.2f} s a fold"


def _test_to_train(evaluation: Evaluation) -> float:
    sizes = [fold.cells for fold in evaluation.folds]
    mean = sum(sizes) / len(sizes)
    return mean / (sum(sizes) - mean)


def _check(what: str, given: Sequence[str], known: Sequence[str] | Mapping[str, Any]) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"{what} must be one of {', '.join(known)}; got {name!r}.")

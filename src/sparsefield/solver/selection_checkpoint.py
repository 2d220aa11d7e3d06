"""Checkpoint of a choice of l1: the fields and scores of all folds so far, from which an interrupted one goes on."""

from __future__ import annotations

import os

from sparsefield.model import Field
from sparsefield.model.atomic_write import remove_with_leftovers
from sparsefield.solver.checkpoint import CheckpointFile, make_folder
from sparsefield.solver.path import BatchScores, Path, PathFold, Scorer
from sparsefield.solver.state import FitResult

PREFIX = "selection-fold-"
SUFFIX = ".checkpoint"

_FIELD_ARRAYS = ("biases", "pairs", "weights", "conjunctions", "conjunction_weights")
_FIT_FACTS = ("objective", "kkt_violation", "converged", "mc_error")


class SelectionCheckpoint:
    """Files of a folder: one for each fold, with its finished points.

    Parameters
    ----------
    folder : folder of the files; it is created if necessary
    mark : `sparsefield.solver.checkpoint.fingerprint` of the selection; files of another one are refused
    """

    def __init__(self, folder: str | os.PathLike[str], mark: str) -> None:
        self._folder, self._mark = make_folder(folder), mark

    def open_fold(self, number: int, path: Path, score: Scorer, *, ahead: bool = True) -> PathFold:
        """Return a fold that continues where it was interrupted."""
        file = CheckpointFile(self._folder / f"{PREFIX}{number}{SUFFIX}", self._mark)
        return _SavedPathFold(path, score, file, ahead=ahead)

    def clear(self) -> None:
        """Delete all files."""
        remove_with_leftovers(self._folder, f"{PREFIX}*{SUFFIX}")


class _SavedPathFold(PathFold):
    """A fold whose finished points are saved; those of an interrupted selection are not computed again.

    The path goes on from the weights of the last of them.
    """

    def __init__(self, path: Path, score: Scorer, file: CheckpointFile, *, ahead: bool) -> None:
        super().__init__(path, score, ahead=ahead)
        self._file = file
        self._arrays, self._facts = file.load() or ({}, {})
        self._points = {l1: self._load(l1) for l1 in self._facts.get("points", {})}
        self._last = self._points[self._facts["last"]][0].field if self._points else None
        """The field from which the path goes on, if it was interrupted."""

    def begin(self) -> float:
        if "l1_max" not in self._facts:
            self._facts = {"l1_max": super().begin(), "points": {}}
            self._file.save(self._arrays, self._facts)
        elif self._last is None:
            super().begin()
        return float(self._facts["l1_max"])

    def proceed(self, l1: float, start: Field | None = None, *, exact: bool = False) -> tuple[FitResult, BatchScores]:
        name = repr(l1)
        if name not in self._points:
            fit, scores = self._points[name] = super().proceed(l1, start or self._last, exact=exact)
            self._last = None
            arrays = {key: getattr(fit.field, key) for key in _FIELD_ARRAYS}
            arrays |= {"scores": scores.values, "score_weights": scores.weights}
            self._arrays |= {f"{name} {key}": array for key, array in arrays.items()}
            points = self._facts.get("points", {})
            facts = {key: float(getattr(fit, key)) for key in _FIT_FACTS}
            self._facts |= {"points": points | {name: facts}, "last": name}
            self._file.save(self._arrays, self._facts)
        return self._points[name]

    def _load(self, name: str) -> tuple[FitResult, BatchScores]:
        facts = self._facts["points"][name]
        arrays = {key: self._arrays[f"{name} {key}"] for key in (*_FIELD_ARRAYS, "scores", "score_weights")}
        field = Field(self.path.layout, *(arrays[key] for key in _FIELD_ARRAYS))
        fit = FitResult(
            field, (), facts["objective"], facts["kkt_violation"], bool(facts["converged"]), facts["mc_error"]
        )
        return fit, BatchScores(arrays["scores"], arrays["score_weights"])

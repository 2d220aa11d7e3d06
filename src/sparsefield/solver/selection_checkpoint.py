"""This module saves what has been learned while l1 is selected, so that an interrupted selection can be continued."""

from __future__ import annotations

import os
from dataclasses import dataclass

from sparsefield.errors import DataError
from sparsefield.model import Field
from sparsefield.model.atomic_write import remove_with_leftovers
from sparsefield.solver.checkpoint import Arrays, CheckpointFile, Facts, make_folder
from sparsefield.solver.fit_state import FitResult
from sparsefield.solver.regularization_path import BatchScores, PathFold, PathTrainer, Scorer

PREFIX = "selection-fold-"
SUFFIX = ".checkpoint"

_FIELD_ARRAYS = ("biases", "pairs", "weights", "conjunctions", "conjunction_weights")


class SelectionCheckpoint:
    """Files of a folder with the finished points of every fold, and the state of its trainer after the last one.

    Parameters
    ----------
    folder : folder of the files; it is created if necessary
    mark : `sparsefield.solver.checkpoint.fingerprint` of the selection; files of another one are refused
    """

    def __init__(self, folder: str | os.PathLike[str], mark: str) -> None:
        self._folder, self._mark = make_folder(folder), mark

    def open_fold(self, number: int, path: PathTrainer, score: Scorer, *, ahead: bool = True) -> PathFold:
        """Return a fold that continues where it was interrupted."""
        return _SavedPathFold(path, score, _FoldFiles(self, number), ahead=ahead)

    def file(self, name: str) -> CheckpointFile:
        """Return the file of this name."""
        return CheckpointFile(self._folder / f"{PREFIX}{name}{SUFFIX}", self._mark)

    def clear(self) -> None:
        """Delete all files."""
        remove_with_leftovers(self._folder, f"{PREFIX}*{SUFFIX}")


@dataclass(frozen=True)
class _FoldFiles:
    """The files of one fold: one for each point, written once, and one for the state of the trainer."""

    checkpoint: SelectionCheckpoint
    number: int

    def state(self) -> CheckpointFile:
        return self.checkpoint.file(str(self.number))

    def point(self, k: int) -> CheckpointFile:
        return self.checkpoint.file(f"{self.number}-point-{k}")


@dataclass(frozen=True)
class _PointRecord:
    """A finished point of a fold."""

    l1: float
    fit: FitResult
    scores: BatchScores

    def arrays(self) -> Arrays:
        field = {name: getattr(self.fit.field, name) for name in _FIELD_ARRAYS}
        return field | {"scores": self.scores.values, "score_weights": self.scores.weights}

    def facts(self) -> Facts:
        fit = self.fit
        return {
            "l1": self.l1,
            "objective": float(fit.objective),
            "kkt_violation": float(fit.kkt_violation),
            "converged": bool(fit.converged),
            "mc_error": float(fit.mc_error),
        }


class _SavedPathFold(PathFold):
    """A fold whose finished points are saved; those of an interrupted selection are not computed again.

    Points come back from their files while values of l1 are the same, in the same order, which they are because a
    selection is reproducible. The trainer goes on from the state after the last of them.
    """

    def __init__(self, path: PathTrainer, score: Scorer, files: _FoldFiles, *, ahead: bool) -> None:
        super().__init__(path, score, ahead=ahead)
        self._files = files
        self._l1_max = 0.0
        self._unsaved: dict[int, _PointRecord] = {}
        self._count = 0
        self._state = files.state().load()
        """State of the trainer after the last saved point, until the trainer continues from it."""
        facts = None if self._state is None else self._state[1]
        self._saved = [] if facts is None else [self._load_point(k) for k in range(facts["points"])]
        """Points of the interrupted selection that have not been asked for yet."""

    def begin(self) -> float:
        if self._state is None:
            self._l1_max = super().begin()
            self._save(*self.path.trainer.snapshot())
        else:
            self._l1_max = float(self._state[1]["l1_max"])
        return self._l1_max

    def proceed(self, l1: float, start: Field | None = None, *, exact: bool = False) -> tuple[FitResult, BatchScores]:
        self._count += 1
        if self._saved:
            found = self._saved.pop(0)
            if found.l1 != l1:
                raise RuntimeError(f"the saved point at l1 = {found.l1} was asked for at {l1}")
            return found.fit, found.scores
        self._continue()
        fit = self._fit(l1, start, exact=exact)
        state = self.path.trainer.snapshot()  # before the scorer, which may use the evaluator for a refit
        scores = self.score(self.path)
        self._unsaved[self._count - 1] = _PointRecord(l1, fit, scores)
        self._save(*state)
        return fit, scores

    def _continue(self) -> None:
        if self._state is not None:
            self.path.trainer.resume_from(*self._state)
            self._state = None

    def _save(self, arrays: Arrays, facts: Facts) -> None:
        """Save the points first, so that the state never refers to one that does not exist."""
        for k, record in list(self._unsaved.items()):
            if not self._files.point(k).save(record.arrays(), record.facts()):
                return
            del self._unsaved[k]
        self._files.state().save(arrays, {**facts, "l1_max": self._l1_max, "points": self._count})

    def _load_point(self, k: int) -> _PointRecord:
        file = self._files.point(k)
        saved = file.load()
        if saved is None:
            raise DataError(
                f"{file.path}: this part of the checkpoint is missing: delete {self._files.state().path} to start this "
                "fold again."
            )
        arrays, facts = saved
        biases, pairs, weights, conjunctions, conjunction_weights = (arrays[name] for name in _FIELD_ARRAYS)
        field = Field(self.path.trainer.layout, biases, pairs, weights, conjunctions, conjunction_weights)
        fit = FitResult(field, (), facts["objective"], facts["kkt_violation"], facts["converged"], facts["mc_error"])
        return _PointRecord(facts["l1"], fit, BatchScores(arrays["scores"], arrays["score_weights"]))

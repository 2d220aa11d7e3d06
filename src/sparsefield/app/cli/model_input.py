"""This module opens the model of a command, and refuses bad models and data before the estimators are imported."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.app.tables.files import STANDARD_INPUT
from sparsefield.errors import DataError, ModelFileError

if TYPE_CHECKING:
    from sparsefield.model import Field


@dataclass(frozen=True)
class OpenModel:
    """A model that was read from a file; its estimator is made when it is needed, since that imports much."""

    path: Path
    field_: Field
    extra: dict[str, Any]

    @property
    def estimator(self) -> str:
        """Name of the class of the estimator."""
        return str(self.extra.get("estimator"))

    @property
    def linked(self) -> bool:
        """Whether the model is over linked tables."""
        return self.estimator == "RelationalField"

    def load(self, jobs: int | None = None) -> Any:
        """Return the fitted estimator."""
        from sparsefield.estimators import restore_estimator

        field = restore_estimator(self.path, self.field_, self.extra)
        field.n_jobs = jobs
        return field


def open_model(model: Path, *data: Path | None) -> OpenModel:
    """Read a model, and refuse data that do not exist."""
    from sparsefield.model.model_file import load_field

    opened = OpenModel(model, *load_field(model))
    check_inputs(data)
    return opened


def check_inputs(data: tuple[Path | None, ...]) -> None:
    """Refuse data that do not exist."""
    for path in data:
        if path is not None and str(path) != STANDARD_INPUT and not path.exists():
            raise DataError(f"{path}: there is no such file.")


def require_estimator(model: OpenModel, *names: str, what: str) -> None:
    """Refuse a model of another estimator; ``what`` says what the named ones can do, as in "can impute one table"."""
    if model.estimator not in names:
        raise ModelFileError(f"{model.path}: holds a {model.estimator}; only a {' or a '.join(names)} {what}.")

"""This module computes the joint log-likelihood of held-out cells while folds are fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparsefield.app.cli.input_data import InputData


class JointLikelihood:
    """Collects ln p(held-out cells of a row | its other cells), the mean over rows, fold by fold.

    It is called with the fitted estimator of each fold and the incomplete table.
    """

    def __init__(self, given: InputData) -> None:
        self._given = given
        self.values: list[float] = []
        self.errors: list[float] = []
        self.exact = True

    def __call__(self, field: Any, incomplete: Any) -> None:
        import numpy as np

        from sparsefield.analysis.hidden_cells import joint_log_likelihood

        found = joint_log_likelihood(field, self._given.X, incomplete)
        if self._given.linked:
            n_rows = sum(source.n_rows for source in self._given.X.sources.values())
            self.values.append(float(found.value) / n_rows)
            self.errors.append(float(found.standard_error) / n_rows)
        else:
            self.values.append(float(np.average(found.value, weights=self._given.weight)))
            self.errors.append(float(found.standard_error.mean()))
        self.exact &= found.method == "exact"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        method = "exact" if self.exact else "ais"
        return {"method": method, "folds": self.values, "standard_errors": self.errors, **self._spread()}

    def describe(self) -> str:
        """Return the mean and standard deviation over folds in a sentence."""
        spread, how = self._spread(), "exact"
        if not self.exact:
            how = f"by annealed importance sampling, with a standard error of up to {max(self.errors):.2g} in a fold"
        return f"joint log-likelihood of held-out cells, per row: {spread['mean']:.4f} ({spread['sd']:.4f}), {how}"

    def _spread(self) -> dict[str, float]:
        from statistics import mean, stdev

        return {"mean": mean(self.values), "sd": stdev(self.values)}

"""An estimator's field in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparsefield.viz import fit_summary

if TYPE_CHECKING:
    from sparsefield.estimators import FieldEstimator

__all__ = ["STRONGEST", "certificate", "is_learned", "size", "strongest"]

STRONGEST = f"Strongest features ({fit_summary.WEIGHTS}):"


def is_learned(field: FieldEstimator) -> bool:
    """Whether a field came from a fit; one that was given has no objective."""
    return fit_summary.is_learned(field.field_)


def strongest(field: FieldEstimator, count: int) -> list[str]:
    """The ``count`` strongest features of two columns and more, one line each."""
    from sparsefield.viz.feature_sentences import list_features

    return [f"{feature.weight:+7.2f}  {feature.sentence}" for feature in list_features(field.field_, count)]


def size(field: FieldEstimator) -> str:
    """How many features there are, of how many there might be."""
    return fit_summary.size(field.field_)


def certificate(field: FieldEstimator) -> str:
    """What the exact pass over all candidates found, in one sentence."""
    return fit_summary.certificate(field.field_, field.get_params())

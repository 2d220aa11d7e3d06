"""This module summarizes the field of an estimator in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparsefield.viz import fit_summary

if TYPE_CHECKING:
    from sparsefield.estimators import FieldEstimator

__all__ = ["STRONGEST", "certificate", "is_learned", "size", "strongest"]

STRONGEST = f"Strongest features ({fit_summary.WEIGHTS}):"


def is_learned(field: FieldEstimator) -> bool:
    """Return whether a field was learned; an imported field has no objective."""
    return field.field_.record.is_learned


def strongest(field: FieldEstimator, count: int) -> list[str]:
    """Return the ``count`` strongest pair and higher-order features, one line each."""
    from sparsefield.viz.feature_sentences import list_features

    return [f"{feature.weight:+7.2f}  {feature.sentence}" for feature in list_features(field.field_, count)]


def size(field: FieldEstimator) -> str:
    """Return the numbers of features and of candidates."""
    return fit_summary.size(field.field_)


def certificate(field: FieldEstimator) -> str:
    """Return the optimality statement of the fit in one sentence."""
    return fit_summary.certificate(field.field_, field.get_params())

"""This module renders how a field was learned: training, convergence, and how to repeat the fit."""

from __future__ import annotations

from collections import Counter
from html import escape

import numpy as np

from sparsefield.app.pages.charts import Curve, CurvePoint, LinePanel, draw_panels
from sparsefield.app.pages.fit_summary import describe_convergence, format_violation, l1_of
from sparsefield.app.pages.html_page import paragraph, render_figure, section
from sparsefield.app.pages.report.repeat_fit import (
    FitDescription,
    as_command,
    as_python,
    changed_options,
    list_versions,
)
from sparsefield.text import count

MAX_POINTS = 60


def render_training(fitted: FitDescription) -> str:
    """Return charts of the objective and the number of features by iteration."""
    history = fitted.field.record.iterations
    if not history:
        why = "The fit had no iterations."
        if not fitted.field.record.is_learned:
            why = "A field with given weights has no training to show."
        return section("training", "Training", paragraph(why, "absent"))
    steps = [history[round(k)] for k in np.linspace(0, len(history) - 1, min(MAX_POINTS, len(history)))]

    def curve(name: str, what: str) -> Curve:
        return Curve(name, [CurvePoint(step.iteration, getattr(step, what)) for step in steps])

    panels = [
        LinePanel("Objective", "iteration", "loss and penalties, summed over rows", [curve("objective", "objective")]),
        LinePanel("Features", "iteration", "pairs", [curve("working set", "features"), curve("active set", "active")]),
    ]
    phases = Counter(step.phase for step in history)
    listed = ", ".join(f"{number:,} of phase \u201c{phase}\u201d" for phase, number in phases.items())
    thinned = f" {len(steps)} iterations are drawn." if len(steps) < len(history) else ""
    caption = (
        f"{count(len(history), 'iteration')}: {listed}.{thinned} The objective may increase when missing cells are "
        "drawn or inferred again, since this changes the function."
    )
    return section("training", "Training", render_figure(draw_panels("Training", panels), caption))


def render_certificate(fitted: FitDescription) -> str:
    """Return the optimality statement and its meaning."""
    field, name, title = fitted.field, "certificate", "Convergence"
    if not field.record.is_learned:
        return section(name, title, paragraph("A field with given weights has no optimum to check.", "absent"))
    l1 = l1_of(field, fitted.params)
    text = (
        f"With penalties l1 = {l1:g} and l2 = {fitted.params['l2']:g}, the optimum is the field where the gradient of "
        "each active weight is balanced by the penalties and no left-out candidate has a gradient beyond l1. One exact "
        f"pass over all {field.layout.n_candidate_pairs:,} candidates measured the worst violation of these: "
        f"{format_violation(field.record.kkt_violation or 0.0, l1)}. "
    )
    further = "a larger Solver(max_iter=...)" if fitted.params["solver__certify"] else "Solver(certify=True)"
    text += (
        "No left-out candidate would lower the objective beyond this tolerance (with missing cells as they were last "
        "drawn or inferred)."
        if field.record.converged
        else "The field is not yet the optimum under these penalties: a feature may be missing, or a weight may still "
        f"change; {further} continues the fit."
    )
    return section(name, title, paragraph(describe_convergence(field, fitted.params)), paragraph(text, "note"))


def render_repeat(fitted: FitDescription) -> str:
    """Return the lines that repeat the fit, its options and the versions."""
    if fitted.field.record.is_learned:
        command, changed = as_command(fitted), changed_options(fitted)
        listed = ", ".join(f"{name}={value!r}" for name, value in changed.items()) or "none"
        text = (
            "These lines learn the same field from the same rows. A model does not record the name of its file, its "
            "separator, or the markers of missing values: add them if needed."
        )
        no_command = "The command line lacks some of these options, so this fit is repeated in Python."
        parts = [
            paragraph(f"Options that differ from the defaults: {listed}."),
            paragraph(text, "note"),
            f'<pre id="command">{escape(command)}</pre>' if command else paragraph(no_command, "absent"),
            f'<pre id="python">{escape(as_python(fitted))}</pre>',
        ]
    else:
        parts = [paragraph("The weights of the field were given, not learned: there is no fit to repeat.", "absent")]
    versions = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in list_versions(fitted.field).items())
    return section("repeat", "How to repeat the fit", *parts, f"<h3>Versions</h3><dl>{versions}</dl>")

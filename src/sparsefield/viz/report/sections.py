"""What was learned: features, surprises, hubs, communities, training, certificate, and how to repeat it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from reproduction.panels import Curve, Panel, Spot, draw_panels
from sparsefield.viz.feature_sentences import Feature
from sparsefield.viz.fit_summary import WEIGHTS, certificate, count, is_learned, l1_of, size
from sparsefield.viz.markup import Cell, absent, bullets, figure, paragraph, section, table
from sparsefield.viz.network_view import View
from sparsefield.viz.report.associations import ERRORS_APART, Association, Surprise
from sparsefield.viz.report.repeat_fit import Fitted, as_command, as_python, changed_options, list_versions
from sparsefield.viz.report.stability_text import TITLE, stability_in_words

__all__ = [
    "tell_certificate",
    "tell_features",
    "tell_repeat",
    "tell_structure",
    "tell_surprises",
    "tell_training",
    "tell_words",
]

SHOWN_FEATURES, SHOWN_SURPRISES, SHOWN_HUBS, SHOWN_COMMUNITIES, SHOWN_MEMBERS = 200, 20, 12, 12, 14
IN_WORDS = 3
MOST_SPOTS = 60
NO_DATA = "needs rows to look at: give them with --data at the command line, or as data= in Python."


def tell_words(fitted: Fitted, view: View, features: Sequence[Feature], surprises: Sequence[Surprise] | None) -> str:
    """The first thing to read."""
    field = fitted.field
    layout, learned = field.layout, is_learned(field)
    observed = sum(len(schema.observed) for schema in layout.schemas)
    latent = sum(len(schema.latent) for schema in layout.schemas) if layout.has_latent else 0
    columns = count(layout.n_targets - latent + observed, "column")
    also = f", of which {observed:,} are observed (conditioned on, never predicted)" if observed else ""
    also += f", with {count(latent, 'latent variable')} that no table has" if latent else ""
    over = f" of {count(len(layout.tables), 'linked table')} ({', '.join(layout.tables)})" if fitted.linked else ""
    lines = [
        escape(f"Learned from {count(field.record.n_rows, 'row')} and {columns}{over}{also}.")
        if learned
        else escape(f"A field over {columns}{over}{also} that was given, not learned."),
        escape(f"It has {size(field)}."),
    ]
    if features:
        strongest = "; ".join(f"{feature.sentence} ({feature.weight:+.2f})" for feature in features[:IN_WORDS])
        lines.append(escape(f"Strongest: {strongest}."))
    else:
        lines.append("No two columns share a feature: at these penalties each is predicted by its frequencies alone.")
    if surprises:
        told = "; ".join(f"{one.feature.sentence} ({one.feature.weight:+.2f})" for one in surprises[:IN_WORDS])
        why = "although the two columns by themselves hardly show it, or show the opposite"
        lines.append(escape(f"Most surprising: {told} \u2013 {why} (see below)."))
    elif surprises is not None and features:
        lines.append("None of the strongest pairs is surprising (see below for what that means).")
    lines += [_hubs_in_words(view), _communities_in_words(view)] if features else []
    lines += [escape(line) for line in stability_in_words(field, features)]
    lines += [escape(certificate(field, fitted.params))] if learned else []
    return bullets(lines)


def _hubs_in_words(view: View) -> str:
    ranked = _hubs(view)[:IN_WORDS]
    told = ", ".join(f"{_node(view, k)} ({count(int(view.whole.degrees[k]), 'neighbor')})" for k in ranked)
    return (
        f"Hubs: {told}. {count(len(view.whole.nodes), 'column')} take part in {count(len(view.whole.edges), 'edge')}."
    )


def _communities_in_words(view: View) -> str:
    sizes = np.bincount(view.communities)
    large = int((sizes > 2).sum())
    if large < 2 or view.modularity < 0.1:
        return "The network hangs together as a whole: it does not fall into communities."
    return f"It falls into {large:,} communities of three columns and more (modularity {view.modularity:.2f})."


def tell_features(
    view: View, features: Sequence[Feature], alone: Sequence[Association | None] | None, total: int
) -> str:
    """The strongest features, with what their two columns show alone, and extra columns."""
    if not features:
        return section("features", "Strongest features", absent("There are none of two columns and more."))
    heads = ["weight", "feature", *(["alone", "\u00b1"] if alone is not None else []), *view.extra]
    rows = []
    for k, feature in enumerate(features[:SHOWN_FEATURES]):
        row = [_weight(feature.weight), Cell(feature.sentence, "words")]
        if alone is not None:
            shown = alone[k]
            row += [Cell(), Cell()] if shown is None else [_signed(shown.value), _number(shown.error)]
        row += [_any(column.get(feature.name)) for column in view.extra.values()]
        rows.append(row)
    which = f"The {len(rows):,} strongest of {total:,}" if total > len(rows) else f"All {total:,}"
    words = f"{which} features of two columns and more; {WEIGHTS}."
    if alone is not None:
        words += (
            " \u201cAlone\u201d is the weight that the two columns would have if there were no others, which is the "
            "log odds ratio of the two states against their bases (for a number the slope), with its standard error, "
            "in the rows that this page looked at. Penalties draw weights towards 0."
        )
    if TITLE in view.extra:
        words += " \u201cStability\u201d is the share of halves of the rows that selected the feature."
    made = table(heads, rows, words=(1,), sortable=True)
    return section("features", "Strongest features", paragraph(words, "note"), made)


def tell_surprises(surprises: Sequence[Surprise] | None) -> str:
    """Features that are not what their two columns alone suggest."""
    name, title = "surprising", "Surprising features"
    if surprises is None:
        return section(name, title, absent(f"To tell what is surprising {NO_DATA}"))
    words = (
        "A feature is surprising when its two columns by themselves show less than half of its weight, or the "
        f"opposite, and the weight, and its distance to what they show, exceed {ERRORS_APART:.0f} standard errors. Of "
        "features of more columns, and of latent variables, this is not asked. Such a dependence only shows "
        "when other columns are taken into account. Those whose weight and association lie farthest apart come first."
    )
    if not surprises:
        return section(name, title, paragraph(words, "note"), paragraph("None is."))
    rows = [
        [
            _weight(surprise.feature.weight),
            Cell(surprise.feature.sentence, "words"),
            _signed(surprise.alone.value),
            _number(surprise.alone.error),
            Cell("the opposite" if surprise.opposite else "little, for its error", "words"),
        ]
        for surprise in surprises[:SHOWN_SURPRISES]
    ]
    more = len(surprises) - len(rows)
    made = table(["weight", "feature", "alone", "\u00b1", "alone it shows"], rows, words=(1, 4))
    rest = paragraph(f"And {more:,} more.", "note") if more else ""
    return section(name, title, paragraph(words, "note"), made, rest)


def tell_structure(view: View) -> str:
    """Hubs and communities."""
    if not view.whole.edges:
        return section(
            "structure", "Hubs and communities", absent("There is no network: no two columns share a feature.")
        )
    whole = view.whole
    rows = [
        [
            Cell(kind="words", markup=_node(view, k)),
            Cell(f"{int(whole.degrees[k]):,}", value=float(whole.degrees[k])),
            _number(float(whole.total_strengths[k])),
            Cell(f"{int(view.communities[k]) + 1}"),
        ]
        for k in _hubs(view)[:SHOWN_HUBS]
    ]
    hubs = table(["column", "neighbors", "strength of its edges", "community"], rows)
    sizes = np.bincount(view.communities)
    groups = []
    for label in np.flatnonzero(sizes > 2)[:SHOWN_COMMUNITIES].tolist():
        own = np.flatnonzero(view.communities == label)
        own = own[np.lexsort((own, -whole.total_strengths[own]))]
        names = ", ".join(_node(view, int(k)) for k in own[:SHOWN_MEMBERS])
        more = f" and {len(own) - SHOWN_MEMBERS:,} more" if len(own) > SHOWN_MEMBERS else ""
        groups.append([Cell(f"{label + 1}", "words"), Cell(f"{len(own):,}"), Cell(kind="words", markup=names + more)])
    small, n_small = int(sizes[sizes <= 2].sum()), int((sizes <= 2).sum())
    rest = f"{count(small, 'column')} in {count(n_small, 'group')} of one or two are left out." if n_small else ""
    words = (
        "A hub shares features with many columns. A community is a set of columns with more and stronger edges among "
        "themselves than columns of such strength would have by chance; the division is the one that greedy modularity "
        f"finds (modularity {view.modularity:.2f}; above about 0.3 a network is well divided). {rest}"
    )
    parts = [paragraph(words, "note"), hubs]
    parts += ["<h3>Communities</h3>", table(["", "columns", "which"], groups, words=(0, 2))] if groups else []
    return section("structure", "Hubs and communities", *parts)


def tell_training(fitted: Fitted) -> str:
    """Objective and features, iteration by iteration."""
    history = fitted.field.record.iterations
    if not history:
        why = (
            "A field that was given has no training to show."
            if not is_learned(fitted.field)
            else "There was nothing to iterate over."
        )
        return section("training", "Training", absent(why))
    kept = sorted({round(k) for k in np.linspace(0, len(history) - 1, min(MOST_SPOTS, len(history)))})
    steps = [history[k] for k in kept]

    def curve(name: str, what: str) -> Curve:
        return Curve(name, [Spot(step.iteration, getattr(step, what)) for step in steps])

    panels = [
        Panel("Objective", "iteration", "loss and penalties, a sum over rows", [curve("objective", "objective")]),
        Panel("Features", "iteration", "pairs", [curve("joined", "features"), curve("with a weight", "active")]),
    ]
    phases: dict[str, int] = {}
    for step in history:
        phases[step.phase] = phases.get(step.phase, 0) + 1
    told = ", ".join(f"{number:,} of phase \u201c{phase}\u201d" for phase, number in phases.items())
    thinned = f" {len(steps)} of them are drawn." if len(steps) < len(history) else ""
    caption = (
        f"{count(len(history), 'iteration')}: {told}.{thinned} The objective may rise where gaps are filled anew, "
        "since it is then another function."
    )
    return section("training", "Training", figure(draw_panels("Training", panels, columns=2), caption))


def tell_certificate(fitted: Fitted) -> str:
    """What the certificate says, and what it means."""
    field = fitted.field
    if not is_learned(field):
        return section("certificate", "Certificate", absent("A field that was given has no optimum to certify."))
    l1 = l1_of(field, fitted.params)
    words = (
        f"With penalties l1 = {l1:g} and l2 = {fitted.params['l2']:g} the best field is the one where no weight wants "
        "to move: the gradient of each weight in use is balanced by the penalties, and no candidate that was left out "
        f"has a gradient beyond l1. One exact pass over all {field.layout.n_candidate_pairs:,} candidates, used or not, "
        f"measured by how much the worst misses this: {field.record.kkt_violation:.3g}, "
        f"{_share(field.record.kkt_violation or 0.0, l1)}. "
    )
    further = "a higher max_iter" if fitted.params["solver__certify"] else "certify=True"
    words += (
        "So no candidate was overlooked: none that was left out would lower the objective beyond this tolerance (gaps "
        "taken as they were filled last)."
        if field.record.converged
        else "So the field is not quite the best one under these penalties: a feature may be missing, or a weight may "
        f"still move; {further} goes further."
    )
    return section("certificate", "Certificate", paragraph(certificate(field, fitted.params)), paragraph(words, "note"))


def _share(violation: float, l1: float) -> str:
    return f"{violation / l1:.2%} of l1" if l1 > 0 else "where l1 is 0"


def tell_repeat(fitted: Fitted) -> str:
    """Settings and versions."""
    parts = []
    if is_learned(fitted.field):
        command, changed = as_command(fitted), changed_options(fitted)
        told = ", ".join(f"{name}={value!r}" for name, value in changed.items()) or "none"
        parts.append(paragraph(f"Options that differ from the defaults: {told}."))
        words = (
            "These lines learn the same field from the same rows, where these are read as they were: a model does not "
            "know what its file was called, which columns were left out with --id, or which words stood for gaps."
        )
        parts.append(paragraph(words, "note"))
        if command is None:
            parts.append(absent("The command line lacks some of these options, so this fit is repeated in Python."))
        else:
            parts.append(f'<pre id="command">{escape(command)}</pre>')
        parts.append(f'<pre id="python">{escape(as_python(fitted))}</pre>')
    else:
        parts.append(absent("The field was given, not learned: there is no fit to repeat."))
    versions = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in list_versions(fitted.field).items())
    return section("repeat", "How to repeat it", *parts, f"<h3>Versions</h3><dl>{versions}</dl>")


def _hubs(view: View) -> list[int]:
    """Nodes by their number of neighbors, then by strength."""
    return np.lexsort((-view.whole.total_strengths, -view.whole.degrees)).tolist()


def _node(view: View, k: int) -> str:
    """A node's name, which leads to it where the page shows it."""
    name = view.whole.nodes[k].name
    place = view.number_of.get(name)
    words = escape(name)
    return words if place is None else f'<button type="button" class="node" data-node="{place}">{words}</button>'


def _weight(value: float) -> Cell:
    return Cell(_tell_signed(value), "number plus" if value > 0 else "number minus", value)


def _signed(value: float) -> Cell:
    return Cell(_tell_signed(value), value=value)


def _tell_signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "\u2212")


def _number(value: float) -> Cell:
    return Cell(f"{value:.2f}".replace("-", "\u2212"), value=value)


def _any(value: Any) -> Cell:
    if value is None:
        return Cell()
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        return Cell(f"{value:.4g}", value=float(value))
    return Cell(str(value))

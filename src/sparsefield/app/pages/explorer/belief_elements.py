"""This module renders beliefs beside the shares of the data, and says how they were computed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from dash import html

from sparsefield.analysis.network import Network
from sparsefield.app.pages.explorer.conditional_beliefs import METHODS, BeliefChange, BeliefChanges
from sparsefield.app.pages.explorer.data_shares import StateShares
from sparsefield.app.pages.explorer.page_pieces import MAX_ORDERED, MAX_STATES, link, more_items, quiet, text_piece
from sparsefield.data.number_text import write_number
from sparsefield.data.schema import Variable

USED = {
    "exact": "exact",
    "bp": "belief propagation, confirmed by Gibbs sampling",
    "gibbs": "Gibbs sampling",
    "mean-field": "mean field",
}
"""What automatic inference used."""

REMARKS = {
    "bp": "It is exact on trees; with strong loops it can be off although it converges.",
    "mean-field": "It treats unknown values as independent, and can be far off where they are not.",
}

Shares = Callable[[BeliefChange], StateShares | None]


def method_used(method: str, used: Collection[str]) -> list[Any]:
    """Return a sentence on the inference method; of automatic inference, on those that it used."""
    if not used:
        return []
    if method == "auto":
        text = f"Automatic inference: {'; '.join(USED[name] for name in USED if name in used)}."
    else:
        text = f"{METHODS[method][0].upper()}{METHODS[method][1:]}. {REMARKS.get(method, '')}".strip()
    return [html.P(text, className="quiet method-used")]


def beliefs_list(network: Network, found: BeliefChanges, limit: int, shares: Shares, label: Any = None) -> list[Any]:
    """Return beliefs before and after evidence, in the given order; ``label`` names the cell of a change."""
    parts = [_change(network, change, shares(change), label) for change in found.changes[:limit]]
    if not parts:
        return []
    head = html.Div(
        [html.Span("belief", className="number"), html.Span("in the data", className="number data")],
        className="state-change captions",
    )
    return [head, *parts, *more_items(len(found.changes) - limit, "variables; use the filter above to find one")]


def _change(network: Network, change: BeliefChange, shares: StateShares | None, label: Any) -> html.Div:
    node = network.number(change.name, change.table)
    variable = network.variable(node)
    assert variable is not None
    shown = shown_states(change.states, change.after, ordered=change.ordered, variable=variable)
    lines = [_state_change(change, k, shares) for k in shown]
    if change.means is not None:
        lines.insert(0, _mean_change(*change.means, variable, shares))
    attributes: Any = {"data-name": change.name, "data-row": str(change.row)}
    left_out = len(change.states) - len(shown) if len(change.states) > 2 else 0
    name = link(change.name if label is None else label(change), node, f"beliefs-{change.table}-{change.row}")
    return html.Div([name, *lines, *more_items(left_out, "states")], className="change", **attributes)


def shown_states(states: Sequence[Any], belief: Any, *, ordered: bool, variable: Variable | None = None) -> list[int]:
    """Return the positions of the states that are listed: ordered ones in their order, others by probability.

    Of two states without an order only the one that is not the reference is listed, since it determines the other.
    """
    if variable is not None and len(states) == 2:
        return [1 - variable.reference]
    ranked = sorted(range(len(states)), key=lambda k: (-belief[k], k))
    if ordered:
        return sorted(ranked[:MAX_ORDERED])
    return ranked[:MAX_STATES]


def _mean_change(before: float, after: float, variable: Variable, shares: StateShares | None) -> html.Div:
    was, now = (write_number(value, dtype=variable.dtype) for value in (before, after))
    text = now if was == now else f"{was} \u2192 {now}"
    data, title = "", ""
    if shares is not None and shares.mean is not None:
        data, title = write_number(shares.mean, dtype=variable.dtype), f"mean of {_rows_text(shares)}"
    parts = [
        text_piece("mean", "state"),
        html.Div(),
        html.Span(text, className="number"),
        html.Span(data, className="number data", title=title),
    ]
    return html.Div(parts, className="state-change mean")


def _state_change(change: BeliefChange, k: int, shares: StateShares | None) -> html.Div:
    before, after = float(change.before[k]), float(change.after[k])
    low, high = min(before, after), max(before, after)
    moved = {"left": f"{100 * low:.2f}%", "width": f"{100 * (high - low):.2f}%"}
    fills: list[Any] = [
        html.Div(className="fill unchanged", style={"width": f"{100 * low:.2f}%"}),
        html.Div(className=f"fill {'positive' if after >= before else 'decrease'}", style=moved),
    ]
    share = None if shares is None else shares.share(k)
    if share is not None:
        fills.append(html.Div(className="tick", style={"left": f"{100 * min(max(share, 0.004), 0.992):.2f}%"}))
    was, now = f"{before:.1%}", f"{after:.1%}"
    text = now if was == now else f"{was} \u2192 {now}"
    state = str(change.states[k])
    attributes: Any = {"data-state": state, "data-before": f"{before:.10f}", "data-after": f"{after:.10f}"}
    if share is not None:
        attributes["data-share"] = f"{share:.10f}"
    parts = [
        text_piece(state, "state"),
        html.Div(fills, className="bar"),
        html.Span(text, className="number"),
        share_piece(shares, k),
    ]
    return html.Div(parts, className="state-change", **attributes)


def share_piece(shares: StateShares | None, k: int) -> html.Span:
    """Return the rows of the data with a state, such as "10 of 10 rows"."""
    if shares is None:
        return html.Span("", className="number data")
    share = shares.share(k)
    if share is None:
        return html.Span("no row", className="number data", title="No row of the data agrees with the evidence.")
    if shares.from_training:
        return html.Span(f"{share:.1%}", className="number data", title="share in the training data")
    text = f"{int(shares.counts[k]):,} of {_rows_text(shares)}"
    return html.Span(text, className="number data", title=f"{share:.1%}")


def _rows_text(shares: StateShares) -> str:
    if shares.from_training:
        return "the training data"
    return f"{int(shares.total):,} row{'' if shares.total == 1 else 's'}"


def evidence_hint(linked: bool) -> html.P:
    """Return a remark for evidence that is not set yet."""
    if linked:
        return quiet(
            "Choose an entity, and set values of its cells or of those that it is linked with; "
            "\u201cunknown\u201d makes a known value missing. The beliefs about its missing cells follow."
        )
    return quiet("Set variables to see how the beliefs about all others change. No variable is set yet.")

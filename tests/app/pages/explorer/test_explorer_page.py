"""The page without a browser: its size is bounded, and it shows what the model knows."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

pytest.importorskip("dash")

from dash.development.base_component import Component
from surveys import stability_of

from sparsefield import MarkovField
from sparsefield.analysis.network import Network
from sparsefield.app.datasets import make_markov_field
from sparsefield.app.pages.explorer.belief_elements import beliefs_list
from sparsefield.app.pages.explorer.column_elements import variable_panel
from sparsefield.app.pages.explorer.explorer_page import make_app
from sparsefield.app.pages.explorer.session import open_session


def as_text(parts: list[Component]) -> str:
    return json.dumps([part.to_plotly_json() for part in parts], default=lambda part: part.to_plotly_json())


def call(client, output: str, inputs: dict[str, object]):
    """Return the response of a callback of one or more outputs."""
    names = [name.split(".") for name in output.strip(".").split("...")]
    outputs = [{"id": a, "property": b} for a, b in names]
    body = {
        "output": output,
        "outputs": outputs if len(outputs) > 1 else outputs[0],
        "inputs": [dict(zip(("id", "property"), k.split("."), strict=True)) | {"value": v} for k, v in inputs.items()],
        "changedPropIds": [next(iter(inputs))],
    }
    answer = client.post("/t/_dash-update-component", json=body)
    assert answer.status_code == 200
    return answer.data, answer.get_json()["response"]


@pytest.mark.slow
def test_a_large_field_makes_no_large_page() -> None:
    session = open_session("large", make_markov_field(3000, 1, neighbors=4, burn_in=1, thin=1).field)
    client = make_app(session, "t").server.test_client()
    size = sum(len(client.get(f"/t/{path}").data) for path in ("", "_dash-layout", "_dash-dependencies"))
    assert size < 40_000
    found, answer = call(client, "find.options", {"find.search_value": "x"})
    assert len(answer["find"]["options"]) == 30
    assert len(found) < 5_000
    wanted = {"chosen.data": 7, "community.data": None, "limit.value": 60, "evidence.data": {}}
    drawn, answer = call(client, "..network.elements...not-shown.children..", wanted)
    assert sum("position" in one for one in answer["network"]["elements"]) == 60
    assert len(drawn) < 40_000
    found = session.compare({"7": 1}, "mean-field")
    assert len(found.changes) == 2999
    assert len(as_text(beliefs_list(session.network, found, 30, session.evidence.shares({})))) < 60_000


def test_a_name_cannot_write_the_page(field: MarkovField) -> None:
    client = make_app(open_session("<script>alert(1)</script>", field), "t").server.test_client()
    assert b"<script>alert" not in client.get("/t/").data


def test_features_are_shown_with_their_stability(field: MarkovField) -> None:
    plain = as_text(variable_panel(Network(field.field_), 0, can_set=True))
    assert "stability" not in plain
    shares = [0.75] * len(field.field_.weights)
    told = replace(field.field_, record=msgspec.structs.replace(field.field_.record, stability=stability_of(shares)))
    shown = as_text(variable_panel(Network(told), 0, can_set=True))
    assert "stability" in shown
    assert "75%" in shown

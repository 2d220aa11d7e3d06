"""Fixtures of the tests of linked tables."""

from __future__ import annotations

import pytest
from plain import learn_plain_schema

from sparsefield.data import learn_schema


@pytest.fixture(scope="module")
def plain_coding():
    """Let relational fields have the coding that `relational_oracle` knows, where no kinds are given: the paper's."""

    def learn(source, *, observed=(), kinds="auto", states=None, symmetric=True):
        if kinds != "auto":
            return learn_schema(source, observed=observed, kinds=kinds, states=states, symmetric=symmetric)
        return learn_plain_schema(source, observed=observed, states=states)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sparsefield.estimators.relational_field.learn_schema", learn)
        yield


@pytest.fixture
def default_coding(plain_coding, monkeypatch):
    """Let relational fields have their own coding again, in a module whose other tests have `plain_coding`."""
    monkeypatch.setattr("sparsefield.estimators.relational_field.learn_schema", learn_schema)

"""Fixtures of the tests of engines."""

from __future__ import annotations

import pytest

from sparsefield import config


@pytest.fixture
def many_small_blocks(monkeypatch) -> None:
    monkeypatch.setattr(config, "MIN_BLOCK_ROWS", 16)
    monkeypatch.setattr(config, "TARGET_BLOCKS", 30)

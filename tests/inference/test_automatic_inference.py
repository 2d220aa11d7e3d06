"""Automatic inference is exact where missing cells depend on each other narrowly, and close to exact elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_fields import Small, latent_field, small_field

from sparsefield.inference import AutomaticInference, ExactInference

SEEDS = st.integers(0, 2**32 - 1)


@given(seed=SEEDS, structure=st.sampled_from(["tree", "loop", "all"]), triples=st.sampled_from([0, 4]))
def test_narrow_components_get_exact_marginals(seed, structure, triples) -> None:
    small = small_field(seed, structure=structure, triples=triples, missing=0.8)
    found = small.infer(AutomaticInference())
    assert found.unconverged == 0
    assert small.worst(found.marginals[0]) < 1e-9


def test_a_narrow_component_of_many_cells_is_exact_too() -> None:
    """A chain of 40 missing cells has 2^40 completions, but no large table."""
    edges = small_field(0, states=(2,) * 40, structure="loop", rows=3, missing=1.0)
    one, other = edges.infer(AutomaticInference()), edges.infer(ExactInference())
    np.testing.assert_allclose(one.marginals[0], other.marginals[0], rtol=0, atol=1e-9)
    assert one.unconverged == 0


def wide_field(size: float, seed: int = 1) -> Small:
    """Return a complete graph whose components have more joint states than are enumerated."""
    return small_field(seed, states=(2,) * 14, structure="all", size=size, rows=2, missing=1.0)


@pytest.mark.parametrize(("size", "error"), [(0.3, 0.01), (2.0, 0.08)])
def test_components_too_wide_for_exact_inference_are_close_to_it(size, error) -> None:
    small = wide_field(size)
    found, exact = small.infer(AutomaticInference(max_cells=16)), small.infer(AutomaticInference(max_cells=2**14))
    assert found.methods != {"exact"}
    assert exact.methods == {"exact"}
    assert np.abs(found.marginals[0] - exact.marginals[0]).max() < error


def test_a_few_wide_components_are_exact_too() -> None:
    """The sum over 2^13 joint states needs a table of as many entries, more than tables have of many components."""
    small = small_field(3, states=(2,) * 13, structure="all", size=0.5, rows=1, missing=1.0)
    found = small.infer(AutomaticInference())
    assert found.methods == {"exact"}
    assert small.worst(found.marginals[0]) < 1e-9


def test_latent_variables_are_inferred_beside_missing_cells() -> None:
    small = latent_field(2, rows=8, missing=0.5)
    assert small.worst(small.infer(AutomaticInference()).marginals[0]) < 1e-9

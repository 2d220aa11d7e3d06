"""Short names stay different where the given ones are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparsefield.app.pages.names import shorten, shorten_all, wrap_name

AGREE = ["stimme eher zu", "stimme eher nicht zu", "stimme voll und ganz zu", "stimme ganz und gar nicht zu"]


def test_names_that_begin_alike_are_told_apart() -> None:
    for longest in (8, 10, 12, 16):
        shown = shorten_all(AGREE, longest)
        assert len(set(shown)) == len(AGREE)
        assert all(len(name) <= longest for name in shown)


def test_short_names_are_left_alone() -> None:
    assert shorten_all(["age", "sex", "age"], 8) == ["age", "sex", "age"]


def test_a_cut_keeps_the_beginning_and_the_end() -> None:
    assert shorten("trust in the national parliament", 20) == "trust in the…liament"


@given(st.lists(st.text("ab_ ", min_size=1, max_size=40), min_size=1, max_size=12), st.integers(8, 20))
def test_different_names_are_never_shown_alike(names: list[str], longest: int) -> None:
    shown = shorten_all(names, longest)
    assert len(set(shown)) == len(set(names))


@given(st.text(min_size=1, max_size=80), st.integers(4, 20))
def test_lines_fit(name: str, width: int) -> None:
    lines = wrap_name(name, width)
    assert 0 <= len(lines) <= 2
    assert all(len(line) <= width for line in lines)


def test_names_are_broken_between_words() -> None:
    assert wrap_name("satisfied with the government", 16) == ["satisfied with", "the government"]

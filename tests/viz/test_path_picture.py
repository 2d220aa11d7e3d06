"""A path in words, and as a picture."""

from __future__ import annotations

import math

from reproduction.panels import Curve, Panel, Post, Spot, draw_panels
from sparsefield.viz.path_figure import draw_path, make_path_page, tell_path


def make_rows(scores: list[float], chosen: int, error: float = 0.1) -> list[dict]:
    return [
        {"l1": 10.0 / 2**k, "features": k, "score": score, "error": error, "chosen": k == chosen}
        for k, score in enumerate(scores)
    ]


def test_words_name_the_chosen_and_the_best() -> None:
    lines = tell_path(make_rows([-3.0, -2.05, -2.0, -2.5], 1), "heldout")
    assert lines[0] == "Chosen: l1 = 5, with 1 feature and a score of -2.050 (standard error 0.100)."
    assert lines[1] == "Best score: l1 = 2.5, with 2 features and a score of -2.000 (standard error 0.100)."
    assert "one standard error" in lines[2]
    assert len(lines) == 3
    assert tell_path(make_rows([-3.0, -2.0], 1, math.nan), "ebic") == [
        "Chosen: l1 = 5, with 1 feature and a score of -2.000.",
        "No other value scores better.",
    ]


def test_a_best_one_that_no_fit_gets_to_is_told() -> None:
    late = tell_path(make_rows([-3.0, -2.0, -2.1, -2.2, -2.3, -1.0], 1), "ebic")
    assert late[-1] == "A fit does not get to the best one: it stops after 3 worse scores in a row."
    assert "does not get" not in tell_path(make_rows([-3.0, -2.0, -2.1, -2.2, -1.0], 1), "heldout")[-1]


def test_posts_stand_at_the_chosen_and_the_best() -> None:
    rows = make_rows([-3.0, -2.05, -2.0, -2.5], 1)
    picture = draw_path(rows, "heldout", "A path & more")
    assert picture.count('class="post"') == 4
    assert picture.count("<title>chosen: 5</title>") == 2
    assert picture.count("<title>best score: 2.5</title>") == 2
    assert "A path &amp; more" in picture
    assert make_path_page(rows, "heldout", "A path").count('class="post"') == 4
    one = make_rows([-3.0], 0)
    assert draw_path(one, "heldout", "One").count('class="post"') == 2


def test_a_post_without_a_place_is_left_out() -> None:
    curve = Curve("field", [Spot(1.0, 2.0), Spot(10.0, 3.0)])
    panel = Panel("Time", "l1", "score", [curve], log_x=True, posts=[Post("chosen", 0.0), Post("best", 3.0)])
    assert draw_panels("Time", [panel]).count('class="post"') == 1

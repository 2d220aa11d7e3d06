"""A regularization path is described in sentences and drawn."""

from __future__ import annotations

import math

from sparsefield.app.pages.path_figure import describe_path, draw_path, make_path_page


def make_rows(scores: list[float], chosen: int, error: float = 0.1) -> list[dict]:
    return [
        {"l1": 10.0 / 2**k, "features": k, "score": score, "error": error, "selected": k == chosen}
        for k, score in enumerate(scores)
    ]


def test_sentences_name_the_selected_and_the_best() -> None:
    lines = describe_path(make_rows([-3.0, -2.05, -2.0, -2.5], 1), "heldout")
    assert lines[0] == "Selected: l1 = 5, with 1 feature and a score of -2.050 (standard error 0.100)."
    assert lines[1] == "Best score: l1 = 2.5, with 2 features and a score of -2.000 (standard error 0.100)."
    assert "one standard error" in lines[2]
    assert len(lines) == 3
    assert describe_path(make_rows([-3.0, -2.0], 1, math.nan), "ebic") == [
        "Selected: l1 = 5, with 1 feature and a score of -2.000.",
        "No other l1 has a better score.",
    ]


def test_a_best_score_that_no_fit_reaches_is_mentioned() -> None:
    late = describe_path(make_rows([-3.0, -2.0, -2.1, -2.2, -2.3, -1.0], 1), "ebic")
    assert late[-1] == "A fit does not reach the best score: it stops after 3 worse scores in a row."
    assert "does not reach" not in describe_path(make_rows([-3.0, -2.0, -2.1, -2.2, -1.0], 1), "heldout")[-1]


def test_vertical_lines_mark_the_selected_and_the_best() -> None:
    rows = make_rows([-3.0, -2.05, -2.0, -2.5], 1)
    picture = draw_path(rows, "heldout", "A path & more")
    assert picture.count('class="vertical-line"') == 4
    assert picture.count("<title>selected: 5</title>") == 2
    assert picture.count("<title>best score: 2.5</title>") == 2
    assert "A path &amp; more" in picture
    assert make_path_page(rows, "heldout", "A path").count('class="vertical-line"') == 4
    one = make_rows([-3.0], 0)
    assert draw_path(one, "heldout", "One").count('class="vertical-line"') == 2

"""This module recognizes levels of text that have an order, such as those of Likert scales, in English and German."""

from __future__ import annotations

from collections.abc import Sequence

FEWEST_LEVELS = 3
"""Levels of a column, at least: two states need no order."""

SCALES: tuple[tuple[tuple[str, ...], ...], ...] = (
    (
        ("strongly disagree", "completely disagree", "fully disagree", "totally disagree"), ("disagree",),
        ("somewhat disagree", "slightly disagree", "rather disagree", "tend to disagree"),
        ("neither agree nor disagree", "neutral", "undecided", "neither", "unsure"),
        ("somewhat agree", "slightly agree", "rather agree", "tend to agree"), ("agree",),
        ("strongly agree", "completely agree", "fully agree", "totally agree"),
    ),
    (
        ("never",), ("almost never", "hardly ever"), ("rarely", "seldom"), ("sometimes", "occasionally"),
        ("often", "frequently"), ("very often",), ("usually", "mostly", "almost always"), ("always",),
    ),
    (
        ("not at all", "none"), ("a little", "slightly", "a bit", "little"), ("somewhat", "moderately", "some"),
        ("quite a bit", "quite", "a lot", "much"), ("very", "very much", "a great deal"), ("extremely",),
    ),
    (("very low",), ("low",), ("medium", "moderate", "middle", "average"), ("high",), ("very high",)),
    (("very small",), ("small",), ("medium",), ("large",), ("very large",)),
    (
        ("very poor", "very bad"), ("poor", "bad"), ("fair", "average", "okay", "ok"), ("good",), ("very good",),
        ("excellent",),
    ),
    (
        ("very dissatisfied",), ("dissatisfied",), ("somewhat dissatisfied",),
        ("neutral", "neither satisfied nor dissatisfied", "neither"), ("somewhat satisfied",), ("satisfied",),
        ("very satisfied",),
    ),
    (
        ("very unlikely",), ("unlikely",), ("somewhat unlikely",), ("neutral", "neither", "undecided"),
        ("somewhat likely",), ("likely",), ("very likely",),
    ),
    (
        ("not important at all", "not at all important"), ("unimportant", "not important"),
        ("slightly important", "somewhat important"), ("neutral", "moderately important"), ("important",),
        ("very important",), ("extremely important",),
    ),
    (
        ("stimme gar nicht zu", "stimme überhaupt nicht zu", "trifft gar nicht zu", "trifft überhaupt nicht zu"),
        ("stimme nicht zu", "trifft nicht zu", "lehne ab"),
        ("stimme eher nicht zu", "trifft eher nicht zu", "lehne eher ab"),
        ("teils/teils", "teils teils", "teils-teils", "weder noch", "unentschieden", "neutral"),
        ("stimme eher zu", "trifft eher zu"), ("stimme zu", "trifft zu"),
        ("stimme voll zu", "stimme völlig zu", "stimme voll und ganz zu", "trifft voll zu", "trifft völlig zu",
         "trifft voll und ganz zu"),
    ),
    (
        ("nie", "niemals"), ("fast nie",), ("selten",), ("manchmal", "gelegentlich", "ab und zu"), ("oft", "häufig"),
        ("sehr oft", "sehr häufig"), ("meistens", "fast immer"), ("immer",),
    ),
    (
        ("gar nicht", "überhaupt nicht"), ("kaum", "wenig", "ein wenig"), ("etwas", "teilweise", "mittelmäßig"),
        ("ziemlich", "stark"), ("sehr", "sehr stark"),
    ),
    (("sehr schlecht",), ("schlecht",), ("mittel", "mäßig", "mittelmäßig"), ("gut",), ("sehr gut",)),
    (("sehr niedrig", "sehr gering"), ("niedrig", "gering"), ("mittel",), ("hoch",), ("sehr hoch",)),
    (("sehr unzufrieden",), ("unzufrieden",), ("neutral", "teils/teils"), ("zufrieden",), ("sehr zufrieden",)),
)  # fmt: skip
"""Scales with their levels in ascending order, in lower case; the words of one place mean the same."""


def find_order(levels: Sequence[str]) -> tuple[str, ...]:
    """Return levels in ascending order if all of them are of one known scale, each of another place; else nothing.

    Examples
    --------
    >>> find_order(["Agree", "Disagree", "Strongly agree", "Neutral"])
    ('Disagree', 'Neutral', 'Agree', 'Strongly agree')
    >>> find_order(["red", "green", "blue"])
    ()
    """
    if len(levels) < FEWEST_LEVELS:
        return ()
    words = [" ".join(level.lower().split()) for level in levels]
    for scale in SCALES:
        place = {word: k for k, same in enumerate(scale) for word in same}
        found = [place.get(word, -1) for word in words]
        if min(found) >= 0 and len(set(found)) == len(levels):
            return tuple(levels[k] for k in sorted(range(len(levels)), key=found.__getitem__))
    return ()

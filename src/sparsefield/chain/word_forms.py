"""This module derives forms of words: lower case, prefixes, suffixes and shapes."""

from __future__ import annotations

import re
from collections.abc import Callable

FORM = re.compile(r"lower|shape|(prefix|suffix)([1-9])")
SPELLING = ("lower", "shape", "prefix1", "prefix2", "prefix3", "suffix1", "suffix2", "suffix3")
"""The forms that describe the spelling of a word."""


def form_function(form: str) -> Callable[[str], str] | None:
    """Return the function that derives a form, such as "lower", "shape", "prefix3" or "suffix2"; None if unknown.

    Examples
    --------
    >>> [form_function(form)("McAllen-2") for form in ("lower", "shape", "prefix2", "suffix3")]
    ['mcallen-2', 'XxXx-d', 'Mc', 'n-2']
    """
    found = FORM.fullmatch(form)
    if found is None:
        return None
    if found[1] is None:
        return str.lower if form == "lower" else word_shape
    length = int(found[2])
    return (lambda word: word[:length]) if found[1] == "prefix" else (lambda word: word[-length:])


def word_shape(word: str) -> str:
    """Return a word with X for runs of capital letters, x for other letters and d for digits.

    Examples
    --------
    >>> word_shape("USA"), word_shape("iPhone12")
    ('X', 'xXxd')
    """
    signs = ("X" if sign.isupper() else "x" if sign.isalpha() else "d" if sign.isdigit() else sign for sign in word)
    return re.sub(r"(.)\1+", r"\1", "".join(signs), flags=re.DOTALL)

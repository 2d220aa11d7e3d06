"""This module alters bytes of files: places are shares of the length, so that they fit files of any length."""

from __future__ import annotations

import random

from fuzz.recipes import Step

NUMBERS = (0, 1, -1, 2**7, 2**15, 2**29, 2**31 - 1, 2**31, -(2**31), 2**40, 2**63 - 1, -(2**63))
"""Integers at which sizes and indices overflow."""


def draw_changes(rng: random.Random, most: int = 4) -> list[Step]:
    """Return one to ``most`` changes."""
    return [_draw_change(rng) for _ in range(rng.randint(1, most))]


def _draw_change(rng: random.Random) -> Step:
    place = rng.random() if rng.random() < 0.7 else rng.choice((rng.random() * 0.1, 1.0 - rng.random() * 0.1))
    kind = rng.choice(("flip", "flip", "flip", "set", "number", "insert", "delete", "cut", "repeat"))
    values = {
        "flip": lambda: (1 << rng.randrange(8),),
        "set": lambda: (rng.choice((0, 255, 10, 34, 44, 59, rng.randrange(256))),),
        "number": lambda: (rng.choice(NUMBERS), rng.choice((4, 8))),
        "insert": lambda: (rng.randbytes(rng.randint(1, 6)).hex(),),
        "delete": lambda: (rng.randint(1, 9),),
        "cut": lambda: (),
        "repeat": lambda: (rng.randint(1, 40),),
    }[kind]()
    return (kind, place, *values)


def apply_changes(data: bytes, steps: list[Step]) -> bytes:
    """Return the bytes after the changes among the steps; other steps are left out."""
    for name, *values in steps:
        if name in ("flip", "set", "number", "insert", "delete", "cut", "repeat"):
            data = _apply(bytearray(data), name, int(values[0] * len(data)), values[1:])
    return data


def _apply(data: bytearray, name: str, place: int, values: list) -> bytes:
    if name == "flip" and data:
        data[place] ^= values[0]
    elif name == "set" and data:
        data[place] = values[0]
    elif name == "number":
        value = (values[0] % 256 ** values[1]).to_bytes(values[1], "little")
        data[place : place + len(value)] = value
    elif name == "insert":
        data[place:place] = bytes.fromhex(values[0])
    elif name == "delete":
        del data[place : place + values[0]]
    elif name == "cut":
        del data[place:]
    elif name == "repeat":
        data[place:place] = data[place : place + values[0]]
    return bytes(data)

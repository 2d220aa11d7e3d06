"""This module counts the rows and cells of a text from its bytes, so that ragged rows are found before it is parsed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparsefield.app.tables.file_format import FileFormat

if TYPE_CHECKING:
    import numpy as np

BLOCK = 1 << 16
"""How many bytes are scanned at once; they fit into the cache of a processor."""

LARGE_BLOCK = 1 << 25
"""How many bytes are scanned at once where lines are blank."""


@dataclass(frozen=True)
class RecordScan:
    """What a quick look at all bytes of a text says about its rows."""

    records: int
    ragged: bool
    """Whether a row seems to have fewer cells than the first, or a quotation mark is not closed."""
    blank: list[int]
    """Blank lines, counted from 0."""
    spaces: bool = True
    """Whether there may be spaces or tabs around cells."""
    zeros: bool = True
    """Whether there may be numbers with leading zeros."""


@dataclass
class ByteCounts:
    """What is counted in the bytes of a text."""

    records: int = 0
    separators: int = 0
    blank: bool = False
    spaces: bool = False
    zeros: bool = False
    inside: bool = False
    """Whether the text ends within quotes."""


def scan_records(data: bytes, found: FileFormat, width: int) -> RecordScan:
    """Count the rows and cells of a text, which ends in a newline.

    The total number of cells shows that no row has fewer than the first, provided that none has more, which the parser
    refuses. Quotes within unquoted cells are not understood, so that rows may seem ragged.
    """
    counts = _count_bytes(data, found)
    if counts.blank:
        return _scan_lines(data, found, width, counts.spaces)
    ragged = counts.inside or counts.separators != (width - 1) * counts.records
    return RecordScan(counts.records, ragged, [], counts.spaces, counts.spaces or counts.zeros)


def _count_bytes(data: bytes, found: FileFormat) -> ByteCounts:
    import numpy as np

    counts, has_quotes = ByteCounts(), found.quote.encode() in data
    blanks = [blank for blank in (32, 9) if blank != ord(found.separator) and bytes([blank]) in data]
    counts.spaces, counts.blank = data[0] in blanks, data[:1] in (b"\n", b"\r")
    counts.zeros = data[:1] in (b"0", b"+", b"-")
    for start in range(0, len(data), BLOCK):
        # The next bytes are part of the block, since neighbors show blank lines, spaces at separators, leading zeros.
        block = np.frombuffer(data, np.uint8, min(BLOCK + 3, len(data) - start), start)
        own = slice(0, BLOCK)
        quotes = block == ord(found.quote) if has_quotes else None
        ends, marks = block == 10, block == ord(found.separator)
        returns = block == 13 if found.line_ending == "\r\n" else None
        counts.blank |= bool((ends[:-1] & (ends if returns is None else ends | returns)[1:]).any())
        edges = ends | marks if quotes is None else ends | marks | quotes
        if blanks and not counts.spaces:
            counts.spaces = _has_spaces(block, edges if returns is None else edges | returns, blanks)
        counts.zeros = counts.zeros or _has_leading_zeros(block, edges)
        if quotes is not None:
            outside = ~(np.bitwise_xor.accumulate(quotes[own]) ^ counts.inside)
            counts.inside = not outside[-1]
            ends, marks = ends[own] & outside, marks[own] & outside
        counts.records += int(np.count_nonzero(ends[own]))
        counts.separators += int(np.count_nonzero(marks[own]))
    return counts


def _has_spaces(block: np.ndarray, edges: np.ndarray, blanks: list[int]) -> bool:
    """Return whether a blank is beside an edge of a cell."""
    for blank in blanks:
        here = block == blank
        if bool((here[1:] & edges[:-1]).any() or (here[:-1] & edges[1:]).any()):
            return True
    return False


def _has_leading_zeros(block: np.ndarray, edges: np.ndarray) -> bool:
    """Return whether a cell begins with a zero and a digit, also after a sign."""
    pairs = (block[:-1] == 48) & (block[1:] - 48 < 10)
    if bool((pairs[1:] & edges[:-2]).any()):
        return True
    signs = (block == 43) | (block == 45)
    return bool((pairs[2:] & signs[1:-2] & edges[:-3]).any())


def _scan_lines(data: bytes, found: FileFormat, width: int, spaces: bool) -> RecordScan:
    """Count the cells of each row, and find blank lines."""
    import numpy as np

    quotes = found.quote.encode() in data
    records, inside, partial, begun, blank = 0, False, 0, 0, []
    for start in range(0, len(data), LARGE_BLOCK):
        block = np.frombuffer(data, np.uint8, min(LARGE_BLOCK, len(data) - start), start)
        ends, marks = block == 10, block == ord(found.separator)
        if quotes:
            quoted = np.bitwise_xor.accumulate(block == ord(found.quote)) ^ inside
            inside = bool(quoted[-1])
            ends &= ~quoted
            marks &= ~quoted
        places = np.flatnonzero(ends)
        total = int(np.count_nonzero(marks))
        if not len(places):
            partial, begun = partial + total, begun + len(block)
            continue
        seen = np.cumsum(marks, dtype=np.int32)[places]
        cells, lengths = np.diff(seen, prepend=-partial) + 1, np.diff(places, prepend=-begun - 1) - 1
        if data[start + places[0] - 1 : start + places[0]] == b"\r" or found.line_ending == "\r\n":
            lengths -= block[places - 1] == 13
        empty = lengths == 0
        if bool(((cells != width) & ~empty).any()):
            return RecordScan(0, True, [])
        blank += (np.flatnonzero(empty) + records).tolist()
        records, partial, begun = records + len(places), total - int(seen[-1]), len(block) - 1 - int(places[-1])
    return RecordScan(records, inside, blank, spaces)

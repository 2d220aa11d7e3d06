"""Encodings of text files: found by the byte order mark, by UTF-8, by the letters of languages, or a guess."""

from __future__ import annotations

import codecs
import re

from sparsefield.app.tables.source import encoding_title
from sparsefield.errors import DataError

SAMPLE_BYTES = 1 << 16
"""How many bytes around characters beyond ASCII decide a code page."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks, and encodings that read and write them."""

_ALPHABETS = (
    ("cp1252", "äöüß"),
    ("cp1252", "àâæçéèêëîïôœùûüÿ"),
    ("cp1252", "áéíñóúüªº"),
    ("cp1252", "àáâãçéêíóôõúüªº"),
    ("cp1252", "àèéìíîòóùú"),
    ("cp1252", "åäöéü"),
    ("cp1252", "åæøéèêôóò"),
    ("cp1250", "áčďéěíňóřšťúůýž"),
    ("cp1250", "ąćęłńóśźż"),
    ("cp1250", "áéíóöőúüű"),
    ("cp1250", "čćđšž"),
    ("cp1250", "ăâîşţ"),
    ("cp1254", "çğıöşüâîû"),
    ("cp1252", "àáâãäåæçèéêëìíîïñòóôõöøœùúûüÿß"),
)
"""Letters beyond ASCII of languages, with their code pages; of equally good ones the first is taken.

Cells are too short for charset-normalizer to tell code pages of Latin letters apart: it reads "Nuñez" as "Nuńez".
"""

_OLDER = {"cp1252": ("mac-roman", "cp850"), "cp1250": ("iso8859-2", "cp852"), "cp1254": ("cp857",)}
"""Code pages of other systems that are tried where those of Windows do not fit."""

_LATIN_FIT = 0.9
"""The share of letters that must belong to the alphabet of one language."""


def find_encoding(data: bytes, name: str) -> str:
    """Return the encoding of a text: by its byte order mark, else UTF-8 or UTF-16 where valid, else a code page.

    Parameters
    ----------
    data : the whole file
    name : its name, for messages
    """
    marked = next((encoding for mark, encoding in _BOMS if data.startswith(mark)), None)
    if marked or (wide := wide_encoding(data)):
        return marked or wide
    try:
        data.decode()
        return "utf-8"
    except UnicodeDecodeError as error:
        sample = _unusual_lines(data)
        text = sample.decode(errors="replace")
        bad, good = text.count("\ufffd"), sum(sign > "\x7f" for sign in text)
        if good - bad > 2 * bad:  # no code page would read the other lines rightly
            line = data.count(b"\n", 0, error.start) + 1
            raise DataError(
                f"{name}: line {line:,} is not UTF-8 (byte 0x{data[error.start]:02x}), "
                "although most of the file is: correct the line, or give the encoding of the file, such as --set "
                "read.encoding=cp1252."
            ) from None
    return guess_code_page(sample)


def wide_encoding(data: bytes) -> str:
    """Return UTF-16 without a byte order mark, where nearly every second byte of western text is NUL; else nothing."""
    even, odd = data[:4096:2], data[1:4096:2]
    if len(odd) < 2:
        return ""
    if odd.count(0) > 0.7 * len(odd) and even.count(0) < 0.1 * len(even):
        return "utf-16-le"
    return "utf-16-be" if even.count(0) > 0.7 * len(even) and odd.count(0) < 0.1 * len(odd) else ""


def to_utf8(data: bytes, encoding: str, name: str) -> bytes:
    """Return the text as UTF-8 without a byte order mark; refuse bytes that the encoding does not have."""
    if encoding == "utf-8" and data.isascii():
        return data
    try:
        return data.decode(encoding).removeprefix("\ufeff").encode()
    except UnicodeDecodeError as error:
        line = data[: error.start].decode(encoding, errors="replace").count("\n") + 1
        raise DataError(
            f"{name}: line {line:,} is not text in {encoding_title(encoding)} (byte 0x{data[error.start]:02x}): give "
            "the encoding of the file, such as --set read.encoding=cp1252, or save the file as UTF-8."
        ) from None


def guess_code_page(sample: bytes) -> str:
    """Return the code page of text that is not UTF-8.

    Text in Latin letters has few characters beyond ASCII, and they belong to the alphabet of one language. Text in
    other letters is left to charset-normalizer.

    Examples
    --------
    >>> guess_code_page("größer, süß".encode("cp1252")), guess_code_page("příliš žluťoučký".encode("cp1250"))
    ('cp1252', 'cp1250')
    """
    unusual = re.findall(rb"[\x80-\xff]+", sample)
    if sum(len(run) for run in unusual if len(run) > 2) <= 0.4 * sum(map(len, unusual)):
        older = [(old, letters) for page, letters in _ALPHABETS for old in _OLDER[page]]
        for pages in (_ALPHABETS, older):
            fits = [_share_of_letters(sample, page, letters) for page, letters in pages]
            if max(fits) >= _LATIN_FIT:
                return pages[fits.index(max(fits))][0]
    from charset_normalizer import from_bytes

    best = from_bytes(sample).best()
    return "cp1252" if best is None else best.encoding


def _share_of_letters(sample: bytes, page: str, letters: str) -> float:
    """Return the share of characters beyond ASCII that are of an alphabet, or signs such as the euro.

    Signs within words and capital letters after small ones, as where a code page is wrong, do not count.
    """
    try:
        text = sample.decode(page)
    except UnicodeDecodeError:
        return 0.0
    unusual = [sign for sign in text if sign > "\x7f"]
    known = {*letters, *letters.upper(), *"İµªº\xa0"}
    bad = sum(sign not in known and (sign.isalpha() or not sign.isprintable()) for sign in unusual)
    bad += len(re.findall(r"(?<=\w)[¹²³¿¡ª¼½¾](?=\w)|(?<=[^\W\d_])[¬¦¶¤†‡°±·¨](?=\w)", text))
    bad += sum(pair[1].isupper() for pair in re.findall(r"[a-z][^\W\d_a-zA-Z]", text))
    return 1 - bad / max(len(unusual), 1)


def _unusual_lines(data: bytes) -> bytes:
    """Return lines with characters beyond ASCII, of `SAMPLE_BYTES` in all."""
    lines, length = [], 0
    for line in re.finditer(rb"[^\r\n]{0,1000}[\x80-\xff][^\r\n]{0,1000}", data):
        lines.append(line[0])
        length += len(line[0])
        if length > SAMPLE_BYTES:
            break
    return b"\n".join(lines)

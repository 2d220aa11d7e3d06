"""This module finds the encoding of a text file and converts its bytes to UTF-8."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from sparsefield.app.tables.file_format import encoding_title
from sparsefield.errors import DataError

CHUNK = 1 << 24
"""How many bytes are checked or converted at once."""

SAMPLE_BYTES = 1 << 16
"""How many bytes around characters beyond ASCII decide a code page."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_WESTERN, _CENTRAL, _TURKISH = "cp1252", "cp1250", "cp1254"

_ALPHABETS = (
    (_WESTERN, "äöüß"),
    (_WESTERN, "àâæçéèêëîïôœùûüÿ"),
    (_WESTERN, "áéíñóúüªº"),
    (_WESTERN, "àáâãçéêíóôõúüªº"),
    (_WESTERN, "àèéìíîòóùú"),
    (_WESTERN, "åäöéü"),
    (_WESTERN, "åæøéèêôóò"),
    (_WESTERN, "äëïéèêüóöû"),
    (_WESTERN, "àçèéíïòóúü"),
    (_CENTRAL, "áčďéěíňóřšťúůýž"),
    (_CENTRAL, "áäčďéíĺľňóôŕšťúýž"),
    (_CENTRAL, "ąćęłńóśźż"),
    (_CENTRAL, "áéíóöőúüű"),
    (_CENTRAL, "čćđšž"),
    (_CENTRAL, "ăâîşţ"),
    (_TURKISH, "çğıöşüâîû"),
    (_WESTERN, "áðéíóúýþæö"),
    (_WESTERN, "àáâãäåæçèéêëìíîïñòóôõöøœùúûüÿß"),
)
"""Letters beyond ASCII of languages, with their code pages; of equally good ones the first is taken."""

_OLDER = {_WESTERN: ("mac-roman", "cp850"), _CENTRAL: ("iso8859-2", "cp852", "mac-latin2"), _TURKISH: ("cp857",)}
"""Code pages of other systems that are tried where those of Windows do not fit."""

_LATIN_FIT = 0.9
"""The share of letters that must belong to the alphabet of one language."""


@dataclass(frozen=True)
class TextEncoding:
    """An encoding, and whether a byte order mark precedes the text."""

    name: str
    bom: bool = False


def find_encoding(data: bytes, name: str) -> TextEncoding:
    """Return the encoding of a text: by its byte order mark, else UTF-8 or UTF-16 where valid, else a code page.

    Parameters
    ----------
    data : the whole file
    name : its name, for messages
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return TextEncoding(encoding, bom=True)
    wide = _wide_encoding(data)
    if wide:
        return TextEncoding(wide)
    fault = _first_fault(data, "utf-8")
    if fault is None:
        return TextEncoding("utf-8")
    _refuse_broken_utf8(data, fault, name)
    return TextEncoding(guess_code_page(_unusual_lines(data)))


def to_utf8(data: bytes, encoding: TextEncoding, name: str) -> bytes:
    """Return the text as UTF-8 without a byte order mark; refuse bytes that the encoding does not have."""
    if encoding.bom:
        data = data[next(len(mark) for mark, known in _BOMS if known == encoding.name) :]
    fault = _first_fault(data, encoding.name)
    if fault is not None:
        line = _line_at(data, fault, encoding.name)
        raise DataError(
            f"{name}: line {line:,} is not text in {encoding_title(encoding.name)} (byte 0x{data[fault]:02x}): give "
            "the encoding of the file, such as --encoding cp1252, or save the file as UTF-8."
        )
    if codecs.lookup(encoding.name).name in ("utf-8", "ascii"):
        return data
    decoder = codecs.getincrementaldecoder(encoding.name)()
    parts = (decoder.decode(data[k : k + CHUNK]).encode() for k in range(0, len(data), CHUNK))
    return b"".join((*parts, decoder.decode(b"", final=True).encode()))


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
    in_runs = sum(len(run) for run in unusual if len(run) > 2)
    if in_runs <= 0.4 * sum(map(len, unusual)):
        found = _latin_page(sample)
        if found:
            return found
    return _other_page(sample) or _WESTERN


def _latin_page(sample: bytes) -> str | None:
    """Return the code page in which the letters fit one alphabet best, or None."""
    fits = [(_fit(sample, page, letters), page) for page, letters in _ALPHABETS]
    if max(fits)[0] < _LATIN_FIT:
        fits += [(_fit(sample, old, letters), old) for page, letters in _ALPHABETS for old in _OLDER[page]]
    best = max(fit for fit, _ in fits)
    return next(page for fit, page in fits if fit == best) if best >= _LATIN_FIT else None


def _fit(sample: bytes, page: str, letters: str) -> float:
    """Return the share of characters beyond ASCII that are of an alphabet; signs such as the euro count as much as it.

    A capital letter after a small one, as where a code page is wrong, does not count.
    """
    try:
        text = sample.decode(page)
    except UnicodeDecodeError:
        return 0.0
    unusual = [sign for sign in text if sign > "\x7f"]
    known = set(letters) | set(letters.upper()) | set("İµªº")
    bad = sum(sign.isalpha() and sign not in known for sign in unusual)
    bad += len(re.findall(r"(?<=\w)[¹²³¿¡ª¼½¾](?=\w)|(?<=[^\W\d_])[¬¦¶¤†‡°±·¨](?=\w)", text))
    bad += sum(not sign.isprintable() and sign != "\xa0" for sign in unusual)
    bad += len([pair for pair in re.findall(r"[a-z][^\W\d_a-zA-Z]", text) if pair[1].isupper()])
    return 1 - bad / max(len(unusual), 1)


def _other_page(sample: bytes) -> str | None:
    from charset_normalizer import from_bytes

    best = from_bytes(sample).best()
    return None if best is None else best.encoding


def _wide_encoding(data: bytes) -> str | None:
    """Return UTF-16 without a byte order mark, where nearly every second byte of western text is NUL."""
    even, odd = data[:4096:2], data[1:4096:2]
    if len(odd) < 2 or len(data) % 2:
        return None
    if odd.count(0) > 0.7 * len(odd) and even.count(0) < 0.1 * len(even):
        return "utf-16-le"
    return "utf-16-be" if even.count(0) > 0.7 * len(even) and odd.count(0) < 0.1 * len(odd) else None


def _first_fault(data: bytes, encoding: str) -> int | None:
    """Return the place of the first byte that is not text in an encoding, or None."""
    decoder, plain = codecs.getincrementaldecoder(encoding)(), codecs.lookup(encoding).name in ("utf-8", "ascii")
    pending = 0
    for start in range(0, len(data), CHUNK):
        chunk = data[start : start + CHUNK]
        if plain and not pending and chunk.isascii():
            continue
        try:
            decoder.decode(chunk, final=start + CHUNK >= len(data))
        except UnicodeDecodeError as error:
            return min(start - pending + error.start, len(data) - 1)
        pending = len(decoder.getstate()[0])
    return None


def _refuse_broken_utf8(data: bytes, fault: int, name: str) -> None:
    """Refuse text that is mostly valid UTF-8 beyond ASCII, which no code page would read rightly."""
    text = _unusual_lines(data).decode("utf-8", errors="replace")
    bad, good = text.count("\ufffd"), sum(sign > "\x7f" for sign in text)
    if good - bad > 2 * bad:
        raise DataError(
            f"{name}: line {_line_at(data, fault, 'utf-8'):,} is not UTF-8 (byte 0x{data[fault]:02x}), although most "
            "of the file is: correct the line, or give the encoding of the file, such as --encoding cp1252."
        )


def _unusual_lines(data: bytes) -> bytes:
    """Return lines with characters beyond ASCII, of `SAMPLE_BYTES` in all."""
    found, length = [], 0
    for line in re.finditer(rb"[^\r\n]{0,1000}[\x80-\xff][^\r\n]{0,1000}", data):
        found.append(line[0])
        length += len(line[0])
        if length > SAMPLE_BYTES:
            break
    return b"\n".join(found)


def _line_at(data: bytes, place: int, encoding: str) -> int:
    before = data[:place]
    if encoding.startswith(("utf-16", "utf-32")):
        return before.decode(encoding, errors="replace").count("\n") + 1
    return before.count(b"\n") + 1 if b"\n" in data else before.count(b"\r") + 1

"""This module parses Alchemy's ground-atom format: declarations, constants and atoms, each with its line number."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from sparsefield.errors import DataError

_NAME = r"[^\W\d][\w\-]*"
_QUOTED = r'"[^"]*"'
_PREDICATE = re.compile(rf"(!?)\s*({_NAME})\s*\((.*)\)\s*\.?")
_CONSTANTS = re.compile(rf"({_NAME})\s*=\s*\{{(.*)\}}")
_CONSTANT = re.compile(rf"{_QUOTED}|-?\d+(?:\.\d+)?|[A-Z][\w\-.']*")
_TYPE = re.compile(r"([a-z_]\w*)(!?)")
_COMMENT = re.compile(rf"({_QUOTED})|//.*")
_PARTS = re.compile(rf"((?:{_QUOTED}|[^,\"])*)(?:,|$)")
MAX_RANGE = 1_000_000
SUPPORTED = "only 1 (an attribute) or 2 (a relation) are supported."


@dataclass(frozen=True)
class Predicate:
    """A predicate has typed arguments; the last one may be its value (``type!``)."""

    name: str
    types: tuple[str, ...]
    valued: bool
    place: str


@dataclass(frozen=True)
class Atom:
    """A ground atom states that a predicate of some constants is true or false."""

    name: str
    constants: tuple[str, ...]
    true: bool
    place: str


@dataclass
class AtomFile:
    """The declarations, constants and atoms of a text, in order of appearance."""

    predicates: dict[str, Predicate] = field(default_factory=dict)
    constants: dict[str, list[str]] = field(default_factory=dict)
    """Constants by type."""
    atoms: list[Atom] = field(default_factory=list)


def read_text_or_lines(given: Path | str, what: str) -> tuple[str, str]:
    """Return the text of a file, or the text itself, and the prefix that names a line in error messages."""
    if isinstance(given, str) and (
        "\n" in given or not given.strip() or (("(" in given or "{" in given) and not Path(given).is_file())
    ):
        return given, f"{what}, line"
    path = Path(given)
    try:
        return path.read_text(encoding="utf-8-sig"), f"{path}, line"
    except (FileNotFoundError, IsADirectoryError):
        raise DataError(f"{path}: there is no such file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as text: {error}.") from None


def parse_atoms(text: str, line_word: str, into: AtomFile, *, only_declarations: bool = False) -> AtomFile:
    """Parse a text and add its declarations, constants and atoms to ``into``."""
    for number, raw in enumerate(text.splitlines(), start=1):
        line = _COMMENT.sub(lambda found: found.group(1) or "", raw).strip()
        if not line:
            continue
        place = f"{line_word} {number}"
        constants = _CONSTANTS.fullmatch(line)
        found = _PREDICATE.fullmatch(line)
        if constants:
            _add_constants(into, constants.group(1), _split(constants.group(2)), place)
        elif found:
            arguments = _split(found.group(3))
            if arguments and all(_TYPE.fullmatch(word) for word in arguments) and not into.atoms:
                _declare(into, found.group(1), found.group(2), arguments, place)
            else:
                into.atoms.append(_atom(found.group(1), found.group(2), arguments, place, into))
        else:
            raise DataError(
                f"{place}: {line!r} is neither a ground atom such as Swims(Dolphin), a declaration such as "
                "Swims(animal), nor a list of constants such as animal = {Dolphin, Ant}."
            )
        if only_declarations and into.atoms:
            raise DataError(f"{place}: the file of types contains a ground atom: move it to the file of atoms.")
    return into


def _split(inside: str) -> list[str]:
    """Split a text at commas that are not inside quotes."""
    if not inside.strip():
        return []
    words, at = [], 0
    while at <= len(inside):
        found = _PARTS.match(inside, at)
        if found is None:  # an unclosed quote
            return [*words, inside[at:].strip()]
        words.append(found.group(1).strip())
        at = found.end() + (found.end() == len(inside) and not found.group(0).endswith(","))
    return words


def _constant(word: str, place: str) -> str:
    if not _CONSTANT.fullmatch(word):
        raise DataError(
            f"{place}: {word!r} is not a constant: constants begin with a capital letter, are numbers, or are in "
            "double quotes. Declare types, which begin with a lowercase letter, before the first ground atom."
        )
    return word[1:-1] if word.startswith('"') else word


def _atom(sign: str, name: str, arguments: list[str], place: str, lines: AtomFile) -> Atom:
    known = lines.predicates.get(name)
    wanted = (len(known.types),) if known else (1, 2)
    if len(arguments) not in wanted:
        expected = f"{known.place} declares {len(known.types)}." if known else SUPPORTED
        raise DataError(f"{place}: {name} has {_arguments(len(arguments))}, but {expected}")
    if known is None and lines.predicates:
        raise DataError(
            f"{place}: the predicate {name!r} is not declared; declared predicates: {', '.join(lines.predicates)}."
        )
    return Atom(name, tuple(_constant(word, place) for word in arguments), not sign, place)


def _declare(lines: AtomFile, sign: str, name: str, arguments: list[str], place: str) -> None:
    if sign:
        raise DataError(f"{place}: a declaration cannot begin with '!': remove it.")
    if len(arguments) not in (1, 2):
        raise DataError(f"{place}: {name} has {_arguments(len(arguments))}; {SUPPORTED}")
    marks = [word.endswith("!") for word in arguments]
    if any(marks[:-1]) or (marks[-1] and len(marks) == 1):
        raise DataError(f"{place}: '!' marks the value of a predicate, its second argument: {name}(animal, color!).")
    made = Predicate(name, tuple(word.rstrip("!") for word in arguments), marks[-1], place)
    known = lines.predicates.setdefault(name, made)
    if (known.types, known.valued) != (made.types, made.valued):
        raise DataError(
            f"{place}: {name} is declared differently in {known.place}. (If "
            f"{arguments[0]!r} is a constant, begin it with a capital letter or put it in double quotes.)"
        )


def _add_constants(lines: AtomFile, kind: str, words: list[str], place: str) -> None:
    if not _TYPE.fullmatch(kind):
        raise DataError(f"{place}: {kind!r} is not a type: the name of a type begins with a lowercase letter.")
    if kind in lines.constants:
        raise DataError(f"{place}: the constants of {kind!r} are listed twice: merge the two lists.")
    if not words:
        raise DataError(f"{place}: the list of constants of {kind!r} is empty.")
    if len(words) == 3 and words[1] == "...":
        try:
            first, last = int(words[0]), int(words[2])
        except ValueError:
            raise DataError(f"{place}: a range of constants needs an integer at each end.") from None
        if not first <= last < first + MAX_RANGE:
            raise DataError(f"{place}: the range {first}, ..., {last} is empty or longer than {MAX_RANGE:,}.")
        words = [str(number) for number in range(first, last + 1)]
    lines.constants[kind] = list(dict.fromkeys(_constant(word, place) for word in words))


def _arguments(count: int) -> str:
    return f"{count} argument{'' if count == 1 else 's'}"

"""This module reads ground atoms (Alchemy's format) as tables of entities and tables of pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsefield.app.tables.atom_lines import Atom, AtomFile, Predicate, parse_atoms, read_text_or_lines
from sparsefield.app.tables.pair_statements import (
    ENDS,
    ClosedWorld,
    Statements,
    build_pair_table,
    check_closed_world,
    flags,
    require_negatives,
)
from sparsefield.data.relational import Relational
from sparsefield.errors import DataError

if TYPE_CHECKING:
    import polars as pl

REMEDY = "Add atoms with '!' before them"


def read_atoms(
    path_or_text: Path | str, *, types: Path | str | None = None, closed_world: ClosedWorld = True
) -> Relational:
    """Read linked tables from ground atoms such as ``Swims(Dolphin)``, ``!Swims(Ant)`` and ``Eats(Dolphin, Squid)``.

    The format is that of Alchemy. Constants begin with a capital letter, are numbers or are in double quotes; ``//``
    starts a comment. Predicates may be declared before the first atom, or in a file of their own, with types that
    begin with a lowercase letter: ``Swims(animal)``, ``Lives(animal, place)``. ``Color(animal, color!)`` declares that
    an animal has one color. ``animal = {Dolphin, Ant}`` lists the constants of a type; without a list they are those
    that occur. If no predicate is declared, all constants are of one type, ``entity``.

    Parameters
    ----------
    path_or_text : file, or its lines as text
    types : file or lines with declarations, if they do not precede the atoms
    closed_world : {True, "mentioned", False}
        The meaning of an atom that is not stated. True: it is false, and each ordered pair is a row, including pairs
        of an entity with itself. ``"mentioned"``: it is false, but only pairs that some atom mentions are rows.
        False: it is missing. A predicate with a value (``!``) is missing where no value is stated.

    Returns
    -------
    Relational
        For each type of entity a table with that name and a key of that name; predicates of one argument are its 0/1
        columns, those with a value its categorical columns. For every two types that a predicate connects, such as
        ``animal`` and ``place``, a table ``animal_place`` with the links ``subject`` and ``object``; where there are
        several such tables, the links are called ``animal_place.subject`` and so on.

    Examples
    --------
    >>> data = read_atoms('''
    ... Swims(animal)
    ... Eats(animal, animal)
    ... Swims(Dolphin)
    ... Eats(Dolphin, Squid)
    ... ''')
    >>> data
    Relational(animal: 2 rows, 1 variable; animal_animal: 4 rows, 1 variable; links subject, object)
    >>> data.tables["animal"].rows()
    [('Dolphin', 1), ('Squid', 0)]
    """
    check_closed_world(closed_world)
    lines = AtomFile()
    if types is not None:
        parse_atoms(*read_text_or_lines(types, "types"), lines, only_declarations=True)
    parse_atoms(*read_text_or_lines(path_or_text, "atoms"), lines)
    if not lines.atoms:
        raise DataError(
            "There are no ground atoms such as Swims(Dolphin): constants begin with a capital letter, are numbers, or "
            "are in double quotes."
        )
    predicates = _predicates(lines)
    stated = _statements(lines.atoms, predicates)
    members = _members(lines, predicates)
    tables = {kind: _entity_table(kind, members[kind], predicates, stated, closed_world) for kind in members}
    ends: dict[str, tuple[str, str]] = {}
    for kinds in dict.fromkeys(p.types for p in predicates.values() if len(p.types) == 2 and not p.valued):
        name = "_".join(kinds)
        if name in tables:
            raise DataError(
                f"The pairs of {kinds[0]!r} and {kinds[1]!r} would make a second table {name!r}: rename a type."
            )
        mine = [p for p in predicates.values() if p.types == kinds and not p.valued]
        tables[name] = _pair_table(kinds, mine, members, stated, closed_world)
        ends[name] = (kinds[0], kinds[1])
    links = {
        end if len(ends) == 1 else f"{name}.{end}": (name, end, kind)
        for name, kinds in ends.items()
        for end, kind in zip(ENDS, kinds, strict=True)
    }
    return Relational(tables, keys={kind: kind for kind in members}, links=links)


def _predicates(lines: AtomFile) -> dict[str, Predicate]:
    """Return the declared predicates; if none are declared, those that occur, with one type for all."""
    if lines.predicates:
        return lines.predicates
    if len(lines.constants) > 1:
        raise DataError(
            f"Constants of {', '.join(lines.constants)} are listed, but no predicate is declared: declare the types "
            "of each one, as in Swims(animal)."
        )
    kind = next(iter(lines.constants), "entity")
    found: dict[str, Predicate] = {}
    for atom in lines.atoms:
        made = Predicate(atom.name, (kind,) * len(atom.constants), False, atom.place)
        known = found.setdefault(atom.name, made)
        if known.types != made.types:
            raise DataError(
                f"{atom.place}: {atom.name} has {len(made.types)} argument(s) here and {len(known.types)} in "
                f"{known.place}."
            )
    return found


Stated = dict[str, dict[tuple[str, ...], Atom]]


def _statements(atoms: Iterable[Atom], predicates: Mapping[str, Predicate]) -> Stated:
    """Index atoms by predicate and entities, without the value of a ``!`` predicate, and refuse contradictions."""
    stated: Stated = {name: {} for name in predicates}
    for atom in atoms:
        valued = predicates[atom.name].valued
        if valued and not atom.true:
            raise DataError(
                f"{atom.place}: {atom.name} has a value ('!' in its declaration), so it cannot be negated: "
                "remove the line."
            )
        key = atom.constants[:1] if valued else atom.constants
        known = stated[atom.name].setdefault(key, atom)
        if (known.true, known.constants) != (atom.true, atom.constants):
            raise DataError(
                f"{atom.place}: this contradicts {known.place} on {atom.name}({', '.join(key)}): remove one."
            )
    return stated


def _members(lines: AtomFile, predicates: Mapping[str, Predicate]) -> dict[str, list[str]]:
    """Return the constants of each type of entity: those listed, or those that occur, in sorted order."""
    listed = {kind: dict.fromkeys(names) for kind, names in lines.constants.items()}
    met: dict[str, dict[str, None]] = {}
    home: dict[str, tuple[str, str]] = {name: (kind, "the lists") for kind in listed for name in listed[kind]}
    for atom in lines.atoms:
        for constant, kind in zip(atom.constants, predicates[atom.name].types, strict=True):
            if kind in listed and constant not in listed[kind]:
                raise DataError(f"{atom.place}: {constant} is not in the list of constants of {kind!r}: add it.")
            known, where = home.setdefault(constant, (kind, atom.place))
            # The same number may be a constant of several types.
            number = constant.lstrip("-").replace(".", "", 1).isdigit()
            if known != kind and constant not in listed.get(kind, ()) and not number:
                raise DataError(f"{atom.place}: {constant} is of type {kind!r} here, but {known!r} in {where}.")
            met.setdefault(kind, {}).setdefault(constant)
    kinds = [p.types[:1] if p.valued else p.types for p in predicates.values()]
    members = {}
    for kind in dict.fromkeys(kind for several in kinds for kind in several):
        members[kind] = list(listed.get(kind, ())) or sorted(met.get(kind, ()))
        if not members[kind]:
            raise DataError(f"There are no constants of type {kind!r}: list some, as in {kind} = {{A, B}}.")
    return members


def _entity_table(
    kind: str, members: Sequence[str], predicates: Mapping[str, Predicate], stated: Stated, closed_world: ClosedWorld
) -> pl.DataFrame:
    import polars as pl

    columns: dict[str, Any] = {kind: list(members)}
    cells: dict[str, np.ndarray] = {}
    for name, predicate in predicates.items():
        if predicate.types[0] != kind or (len(predicate.types) == 2 and not predicate.valued):
            continue
        if name in columns:
            raise DataError(f"{predicate.place}: the predicate {name!r} has the same name as its type: rename one.")
        atoms = [stated[name].get((member,)) for member in members]
        if predicate.valued:
            columns[name] = pl.Series(name, [atom and atom.constants[1] for atom in atoms], dtype=pl.String)
            continue
        unstated = -1 if closed_world is False else 0
        cells[name] = np.array([unstated if atom is None else int(atom.true) for atom in atoms], dtype=np.int8)
        columns[name] = flags(name, cells[name])
    if closed_world is False:
        require_negatives(list(cells), list(cells.values()), REMEDY)
    return pl.DataFrame(columns)


def _pair_table(
    kinds: tuple[str, ...],
    predicates: Sequence[Predicate],
    members: Mapping[str, Sequence[str]],
    stated: Stated,
    closed_world: ClosedWorld,
) -> pl.DataFrame:
    import polars as pl

    taken = next((p for p in predicates if p.name in ENDS), None)
    if taken:
        raise DataError(
            f"{taken.place}: the predicate {taken.name!r} has the name of a column of the table of pairs: rename it."
        )
    rows = [{name: k for k, name in enumerate(members[kind])} for kind in kinds]
    atoms = [(relation, atom) for relation, p in enumerate(predicates) for atom in stated[p.name].values()]
    statements = Statements(
        np.array([rows[0][atom.constants[0]] for _, atom in atoms], dtype=np.int64),
        np.array([rows[1][atom.constants[1]] for _, atom in atoms], dtype=np.int64),
        np.array([relation for relation, _ in atoms], dtype=np.int64),
        np.array([atom.true for _, atom in atoms], dtype=np.int8),
    )
    if not atoms and closed_world is not True:
        raise DataError(
            f"No atom mentions a pair of {kinds[0]!r} and {kinds[1]!r}: remove the declarations of its predicates."
        )
    what = f"pairs of {kinds[0]!r} and {kinds[1]!r}"
    entities = [pl.Series(members[kind]) for kind in kinds]
    return build_pair_table(statements, entities, [p.name for p in predicates], closed_world, what, REMEDY)

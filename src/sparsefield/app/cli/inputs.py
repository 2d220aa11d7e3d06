"""The data of a fit: one table, a sparse matrix, or linked tables; what cannot be learned is left out, in words."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sparsefield.app.cli.console import inform, note
from sparsefield.app.tables.file_format import FileFormat, Source
from sparsefield.app.tables.places import MAGIC, SUFFIXES, as_url, system_of
from sparsefield.app.tables.read import STANDARD_INPUT, SourceTable, is_parquet, list_columns, read_source
from sparsefield.errors import DataError, count, list_first

if TYPE_CHECKING:
    import polars as pl

    from sparsefield.app.tables.codebook import Codebook
    from sparsefield.app.tables.column_findings import FindingType
    from sparsefield.app.tables.schema_file import SchemaFile

CELLS_TO_HOLD_OUT = 10_000_000
"""Largest number of cells of a sparse matrix that is made dense for a hold-out check, which needs missing values."""

MAX_NAMES = 10
KINDS = ("numeric", "ordinal", "nominal")
FINDINGS_OF_KIND: tuple[FindingType, ...] = ("identifier", "free text", "dates as text", "numbers as text", "codes")
"""Findings that an option about the kind of a column answers."""

KEEP = "name a column with --nominal, --numeric or --observed to keep it, or with --id to leave it out without a note"


column_option = functools.partial(typer.Option, rich_help_panel="Columns")


def _columns(flag: str, help: str) -> Any:
    return column_option(flag, metavar="COLUMN", help=f"{help} May be repeated, or put commas between names.")


@dataclass(frozen=True)
class ColumnOptions:
    """The options about columns; each entry of those that name some is one name, or several separated by commas."""

    observed: Annotated[
        list[str] | None, _columns("--observed", "Column that is conditioned on and never predicted, a covariate.")
    ] = None
    identifiers: Annotated[
        list[str] | None, _columns("--id", "Column to leave out, such as a name; 'predict' copies it to its output.")
    ] = None
    numeric: Annotated[
        list[str] | None,
        _columns(
            "--numeric",
            "Column of numbers, by default one with fractions or more than ten whole numbers; 'income=normal-scores' "
            "learns from normal quantiles of ranks, 'income=linear-scores' does not.",
        ),
    ] = None
    ordinal: Annotated[
        list[str] | None,
        _columns(
            "--ordinal",
            "Column of ordered states, by default one with three to ten whole numbers; 'answer=never<rarely<often' "
            "gives the order, 'one=another=never<often' that of two columns.",
        ),
    ] = None
    nominal: Annotated[
        list[str] | None, _columns("--nominal", "Column of states without an order, such as a postal code.")
    ] = None
    top_levels: Annotated[
        int | None,
        column_option(
            "--top-levels",
            min=1,
            help="Keep this many frequent levels of each nominal column of text, and group the others as '(other)'.",
        ),
    ] = None

    def as_options(self) -> str:
        """Return the options as words of the command line."""
        named = {"--observed": self.observed, "--id": self.identifiers}
        named |= {f"--{kind}": getattr(self, kind) for kind in KINDS}
        words = [part for option, values in named.items() for value in values or () for part in (option, value)]
        return shlex.join(words + ([] if self.top_levels is None else ["--top-levels", str(self.top_levels)]))

    def find(self, columns: Sequence[str], weight: str | None = None, group: str | None = None) -> NamedColumns:
        """Return the roles and kinds of columns, and refuse unknown columns and contradictions."""
        from sparsefield.app.tables.schema_file import find_kinds  # not above: --help does not import NumPy

        ids = find_columns(self.identifiers or (), columns, "--id")
        observed = find_columns(self.observed or (), columns, "--observed")
        kinds = find_kinds({kind: (f"--{kind}", getattr(self, kind) or ()) for kind in KINDS}, columns)
        single = {"--weight": weight, "--group": group}
        for option, name in single.items():
            if name is not None and name not in columns:
                raise DataError(f"{option} names the column {name!r}, which does not exist; {list_columns(columns)}.")
        roles = {"an --id": ids} | {f"the {option}": [name] for option, name in single.items()}
        for role, own in roles.items():
            for what, names in (("be observed", observed), ("have a kind", kinds)):
                both = [name for name in names if name in own]
                if both:
                    problem = f"is {role}, which is not learned, and cannot also {what}"
                    raise DataError(f"Column {both[0]!r} {problem}: remove one option.")
        return NamedColumns(ids, observed, kinds, weight, group)


@dataclass(frozen=True)
class NamedColumns:
    """What the options say about the columns of a table; kinds are those of `find_kinds`."""

    identifiers: list[str]
    observed: list[str]
    kinds: dict[str, str]
    weight: str | None = None
    group: str | None = None

    @property
    def not_learned(self) -> list[str]:
        """Identifiers, and the columns of weights and of groups."""
        return list(dict.fromkeys([*self.identifiers, *(name for name in (self.weight, self.group) if name)]))


def find_columns(words: Sequence[str], columns: Sequence[str], option: str) -> list[str]:
    """Return the column names of an option, each of which is one name or several separated by commas."""
    names: list[str] = []
    for word in words:
        names += [word] if word in columns else [part.strip() for part in word.split(",")]
    for name in names:
        if name not in columns:
            raise DataError(f"{option} names the column {name!r}, which does not exist; {list_columns(columns)}.")
    return list(dict.fromkeys(names))


@dataclass(frozen=True)
class InputData:
    """The data of a fit and the roles of their columns."""

    X: Any
    """A frame, a `Relational`, or a sparse matrix."""
    observed: list[Any]
    kinds: Any
    """{column: kind} of the columns whose kind is set, for linked tables {table: {column: kind}}, or "auto"."""
    rows: int
    inputs: Sequence[Path]
    """Files that were read."""
    source: Source
    """How they were read, which a model records."""
    linked: bool = False
    unchecked: str = ""
    """The reason why no cells can be held out to check a field, or empty."""
    weight: Any = None
    groups: Any = None
    """Values of the columns of --weight and --group, (rows,), or None."""
    book: Codebook | None = None
    names: tuple[str, ...] = ()
    """Names of the columns of a sparse matrix, or none for x0, x1, ..."""

    @property
    def roles(self) -> dict[str, Any]:
        """Keywords of `fit`; linked tables declare their observed columns themselves."""
        if self.linked:
            return {}
        more = {"sample_weight": self.weight, "groups": self.groups, "columns": self.names or None}
        return {"observed": self.observed} | {name: value for name, value in more.items() if value is not None}


def form_of(data: Path) -> Literal["table", "matrix", "linked"]:
    """Return what a path names: a table; a sparse 0/1 matrix, ``.npz`` or a folder of Parquet files with the same
    columns; or linked tables, by their schema file, its folder, a folder of other files, or a URL."""
    if data.is_dir():
        parquet = [] if (data / "schema.toml").exists() else [path for path in data.iterdir() if is_parquet(path)]
        if not parquet or len(parquet) < sum(path.suffix.lower() in SUFFIXES for path in data.iterdir()):
            return "linked"
        import polars as pl

        with suppress(pl.exceptions.PolarsError, OSError):
            return "matrix" if len({tuple(pl.read_parquet_schema(path)) for path in parquet}) == 1 else "linked"
        return "matrix"
    if data.suffix.lower() == ".npz":
        return "matrix"
    return "linked" if data.suffix.lower() == ".toml" or system_of(data) == "postgres" else "table"


def has_linked_tables(data: Path) -> bool:
    """Return whether a path names a SQLite or DuckDB file of several tables."""
    if system_of(data) not in MAGIC:
        return False
    from sparsefield.app.tables.database import open_database

    with open_database(data) as database:
        return len(database.tables) > 1


def read_data(
    data: Path, reading: FileFormat, columns: ColumnOptions, *, weight: str | None = None, group: str | None = None
) -> InputData:
    """Read a table without its identifiers, a sparse matrix, or linked tables."""
    form = form_of(data)
    if form == "linked" or (reading.sheet is None and has_linked_tables(data)):
        linked = read_linked(data, reading, columns, weight or group)
        sizes = {name: source.n_rows for name, source in linked.data.sources.items()}
        inform(f"{data.name}: {list_first([f'{name} ({rows:,})' for name, rows in sizes.items()], MAX_NAMES)}")
        links = [f"{name} ({link.table} to {link.to})" for name, link in linked.data.links.items()]
        inform(f"Links: {list_first(links, MAX_NAMES) or 'none'}")
        rows, how = sum(sizes.values()), Source(as_url(data))
        return InputData(linked.data, [], linked.kinds or "auto", rows, linked.inputs, how, linked=True)
    if form == "matrix":
        return _read_matrix(data, columns, weight or group)
    source = read_source(data, reading)
    note_format(data, source.format)
    kinds = columns.find(source.table.columns, weight, group).kinds
    source = _without_codes(source, data, reading, kinds)
    weights = None if weight is None else read_weights(source.table, weight)
    groups = None if group is None else source.table[group]
    table, book, named = describe_columns(source, columns, weight=weight, group=group)
    _print_notes(table, book, named.kinds, sorted({*source.format.missing} - {*reading.missing}))
    roles = tuple(named.identifiers), book.left_out, weight, group, columns.top_levels
    how, about = Source(as_url(data), source.format, *roles), {"weight": weights, "groups": groups, "book": book}
    X = table.drop([*named.not_learned, *book.left_out])
    return InputData(X, named.observed, named.kinds or "auto", table.height, [data], how, **about)


def _without_codes(source: SourceTable, data: Path, reading: FileFormat, kinds: Mapping[str, str]) -> SourceTable:
    """Read a table again with missing values for texts such as k.A. among numbers, and for -9 beside a scale of 1 to 5.

    Columns whose kind is given, and files whose words for missing values are, stay as they are.
    """
    import polars as pl

    from sparsefield.app.tables.codebook import inspect
    from sparsefield.app.tables.column_findings import are_text_codes

    codes: dict[str, list[str]] = {}
    while not (reading.missing or reading.missing_only) and (rest := source.table.drop(kinds)).width:
        book, before = inspect(rest, decimal=source.format.decimal or "."), len(codes)
        for entry in book.columns:
            finding = entry.finding("missing codes") if entry.kind == "ordinal" else None
            negative = [code for code in (finding.values if finding else ()) if code.startswith("-")]
            texts = entry.other_texts if are_text_codes(pl.Series(entry.other_texts, dtype=pl.String)).all() else ()
            for code in [code for code in (*texts, *negative) if code not in book.values]:
                codes.setdefault(code, []).append(entry.name)
        if len(codes) == before:
            break
        source = read_source(data, replace(reading, missing=tuple(codes)))
    if codes:
        shown = list_first([f"{code!r} (as in {list_first(own, MAX_NAMES)})" for code, own in codes.items()], MAX_NAMES)
        note(f"Read as missing values in all columns: {shown}; give --missing to read only its own words so.")
    return source


def note_format(data: Path, file_format: FileFormat) -> None:
    """Print a note about the format of a file if it is not the usual one."""
    if not file_format.is_plain:
        note(f"{data} is read as {file_format.describe()}.")


def _read_matrix(data: Path, columns: ColumnOptions, weight_or_group: str | None) -> InputData:
    from sparsefield.app.tables.matrix_files import parquet_columns, parquet_files, read_matrix, read_sparse
    from sparsefield.data import as_source

    matrix: Any
    if data.is_dir():
        known = parquet_columns(parquet_files(data))
        named = columns.find(known)
        matrix, names = read_sparse(data, columns=[name for name in known if name not in named.identifiers])
    else:
        matrix, names = read_matrix(data), ()
        named = columns.find([f"x{k}" for k in range(matrix.shape[1])])
    if weight_or_group or named.kinds or (named.identifiers and not data.is_dir()):
        raise DataError(
            f"{data}: a sparse matrix is read with all its columns, which are 0/1: remove --id, --weight, --group, "
            "--numeric, --ordinal and --nominal."
        )
    source = as_source(matrix, what=str(data))
    large = source.n_rows * len(source.names) > CELLS_TO_HOLD_OUT
    why = "held-out cells need a dense table, and this matrix is too large for one." if large else ""
    # By position, since a check on held-out cells works on an array without names.
    position = {name: k for k, name in enumerate(names)}
    observed = [position.get(name, name) for name in named.observed]
    how = Source(as_url(data), identifiers=tuple(named.identifiers))
    return InputData(source.native, observed, "auto", source.n_rows, [data], how, unchecked=why, names=names)


def read_linked(
    data: Path, reading: FileFormat, columns: ColumnOptions | None = None, other: str | None = None
) -> SchemaFile:
    """Read linked tables, and refuse options for one table, which a schema file replaces."""
    from sparsefield.app.tables.schema_file import parse_schema_file

    changed = reading != FileFormat() or (columns is not None and columns != ColumnOptions()) or other is not None
    if changed:
        raise DataError(
            f"{data}: options about columns and how they are read are for one table: for linked tables, write them in "
            "the schema file, such as observed = [...] or ignore = [...] under [tables.NAME], and remove the options."
        )
    parsed = parse_schema_file(data)
    for name, source in parsed.sources.items():
        note_format(parsed.files[name], source.format)
    return parsed


def fit_command(
    data: Path, reading: FileFormat, columns: ColumnOptions, book: Codebook, *, weight: str | None, group: str | None
) -> str:
    """Return the fit with the options that are given and those that answer the findings; empty where none does."""
    if not book.options or str(data) == STANDARD_INPUT:
        return ""
    roles = [word for option, name in (("--weight", weight), ("--group", group)) if name for word in (option, name)]
    words = [shlex.join(["sparsefield", "fit", str(data), "-o", "model.safetensors"]), reading.as_words()]
    return " ".join(filter(None, [*words, columns.as_options(), shlex.join(roles), book.options]))


# -- columns of a table before a fit ---------------------------------------------------------------------------------


def describe_columns(
    source: SourceTable, columns: ColumnOptions, *, weight: str | None = None, group: str | None = None, about: str = ""
) -> tuple[pl.DataFrame, Codebook, NamedColumns]:
    """Return a table with the types and grouped levels that options give it, and the codebook of the columns to learn.

    Raises
    ------
    DataError
        If a column that an option names cannot be learned, or no column is left.
    """
    named = columns.find(source.table.columns, weight, group)
    from sparsefield.app.tables.codebook import inspect
    from sparsefield.data.schema_learning import given_kinds

    chosen = given_kinds(named.kinds, source.table.columns)
    table = _with_numbers(source, [name for name, kind in chosen.items() if kind.kind == "numeric"])
    kept, most = {*named.observed, *named.kinds}, columns.top_levels
    if most is not None:  # before the inspection, which might find that they are identifiers
        table = group_levels(table, [name for name in kept if named.kinds.get(name, "nominal") == "nominal"], most)
    book = inspect(table.drop(named.not_learned), source=about, decimal=source.format.decimal or ".")
    answered = dict.fromkeys(chosen, FINDINGS_OF_KIND)
    levels = () if most is None else ("many levels",)
    entries = tuple(
        replace(
            entry,
            kind=chosen[entry.name].kind if entry.name in chosen else entry.kind,
            left_out="" if entry.name in kept else entry.left_out,
            findings=tuple(f for f in entry.findings if f.type not in (*answered.get(entry.name, ()), *levels)),
        )
        for entry in book.columns
    )
    book = replace(book, columns=entries)
    _refuse(book, kept)
    if most is not None:
        others = [entry.name for entry in entries if entry.name not in kept and not entry.left_out]
        table = group_levels(table, others, most)
    return table, book, named


def _with_numbers(source: SourceTable, names: Sequence[str]) -> pl.DataFrame:
    """Return the table with columns of text that an option calls numeric as numbers, as the file writes numbers."""
    import polars as pl

    from sparsefield.app.tables.values import numbers_of

    table, converted = source.table, []
    for name in names:
        column = table[name]
        if column.dtype != pl.String:
            continue
        numbers = numbers_of(column.str.strip_chars(), source.format.decimal or ".", known=True)
        others = column.filter(numbers.is_null() & column.is_not_null())
        if len(others):
            raise DataError(
                f"Column {name!r} has {count(len(others), 'cell')} without a number, such as {others[0]!r}: correct "
                f"the cells, give words for missing values with --missing, or drop --numeric {name}."
            )
        converted.append(numbers)
    return table.with_columns(converted)


def group_levels(table: pl.DataFrame, names: Sequence[str], most: int) -> pl.DataFrame:
    """Return a table in which columns of text have their most frequent levels, and "(other)" for the rest.

    Of equally frequent levels the first in alphabetical order are kept.
    """
    import polars as pl

    from sparsefield.app.tables.fill import OTHER_LEVEL

    grouped = []
    for name in names:
        if table[name].dtype not in (pl.String, pl.Categorical):  # an Enum is ordered
            continue
        column = table[name].cast(pl.String)
        counts = column.alias("level").drop_nulls().value_counts(name="rows")
        kept = counts.sort("rows", "level", descending=[True, False])["level"].head(most).to_list()
        if len(kept) < counts.height:
            grouped.append(column.set(~column.is_in(kept), OTHER_LEVEL))  # a null is neither
    return table.with_columns(grouped)


def _refuse(book: Codebook, named: set[str]) -> None:
    """Raise one error about all columns that cannot be learned although an option names them, or if none can be."""
    from sparsefield.data.schema_learning import is_identifier

    problems = []
    for entry in (entry for entry in book.columns if entry.name in named):
        if not entry.n_values:
            problems.append(f"column {entry.name!r} has no values at all")
        elif entry.kind != "numeric" and is_identifier(entry.n_distinct, entry.n_values):
            values = f"{entry.n_distinct:,} different values in {entry.n_values:,} cells"
            problems.append(f"column {entry.name!r} has {values}")
    if problems:
        text = "; ".join(problems)
        raise DataError(f"C{text[1:]}: group its values (--top-levels 20), or leave it out (--id).")
    if len(book.left_out) == len(book):
        raise DataError(f"No column can be learned: {_left_out(book)}; name those to keep with --nominal or --numeric.")


def _left_out(book: Codebook) -> str:
    reasons = [f"{entry.name!r} ({entry.left_out})" for entry in book.columns if entry.left_out]
    return list_first(reasons, MAX_NAMES)


def _print_notes(table: pl.DataFrame, book: Codebook, kinds: Mapping[str, str], codes: Sequence[str]) -> None:
    """Print what is left out, what may mean missing values beside the codes, and orders of levels that nobody gave."""
    import polars as pl

    if book.left_out:
        note(f"Left out: {_left_out(book)}; {KEEP}.")
    for advice in book.advice:
        if advice.option.startswith("--missing"):  # else a code such as -99 is learned as a value
            note(" --missing ".join([str(advice), *map(shlex.quote, codes)]))
    for name, kind in kinds.items():
        if kind == "ordinal" and table[name].dtype == pl.String:
            levels = table[name].drop_nulls().unique().sort().to_list()[:MAX_NAMES]
            example = shlex.quote(f"{name}={'<'.join(reversed(levels[:3]))}")
            note(
                f"Column {name!r} is ordinal in alphabetical order: {'<'.join(levels)}. If that is not its order, give "
                f"it, as in --ordinal {example}."
            )


def read_weights(table: pl.DataFrame, name: str) -> Any:
    """Return the (rows,) weights of a column; DataError unless all cells are numbers that are not negative."""
    import polars as pl

    weights = table[name].cast(pl.Float64, strict=False)
    wrong = (weights.is_null() | weights.is_nan() | weights.is_infinite() | (weights < 0)).fill_null(True)
    if wrong.any():
        row = wrong.arg_max() or 0
        raise DataError(
            f"--weight: column {name!r} has {table[name][row]!r} in row {row + 1}: weights are numbers from 0."
        )
    return weights.to_numpy()

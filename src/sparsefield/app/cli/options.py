"""This module defines the options that several commands share, and builds estimators from them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.app.cli.input_data import ColumnOptions, InputData
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.parameters import CommandLineOption, command_line_options

if TYPE_CHECKING:
    from sparsefield import FitCallbacks, MarkovField, RelationalField
    from sparsefield.app.cli.console import StatusLine

    AnyField = MarkovField | RelationalField


READING, LEARNING, RUNNING = "Reading the table", "Learning", "Running"

reading_option = functools.partial(typer.Option, rich_help_panel=READING)
learning_option = functools.partial(typer.Option, rich_help_panel=LEARNING)
running_option = functools.partial(typer.Option, rich_help_panel=RUNNING)

TABLE_HELP = "File of a table: CSV or other text, Parquet, Excel, SPSS, Stata, SAS, SQLite, ...; - is standard input."
DATA_HELP = f"{TABLE_HELP} For linked tables, the TOML file that describes them, or its folder."
Data = Annotated[Path, typer.Argument(metavar="DATA", help=DATA_HELP)]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file that 'fit' wrote.")]
TableOutput = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="File to write, such as .csv, .tsv, .csv.gz, .parquet, .arrow, .jsonl or .xlsx; - is text on standard "
        "output. For linked tables, a folder.",
    ),
]

Observed = Annotated[
    list[str] | None,
    reading_option(
        "--observed",
        metavar="COLUMN",
        help="Column that is conditioned on and never predicted. May be repeated, or put commas between names.",
    ),
]
Identifiers = Annotated[
    list[str] | None,
    reading_option(
        "--id",
        metavar="COLUMN",
        help="Column to leave out, such as a name; 'predict' copies it to its output. May be repeated, or put commas "
        "between names.",
    ),
]
Group = Annotated[
    str | None,
    reading_option(
        "--group",
        metavar="COLUMN",
        help="Column that says which rows belong together, such as a patient. It is not learned; rows with the same "
        "value are held out together when l1 is selected.",
    ),
]
Numeric = Annotated[
    list[str] | None,
    reading_option(
        "--numeric",
        metavar="COLUMN",
        help="Column of numbers; 'income=normal-scores' replaces values by normal quantiles of their ranks in "
        "features, 'income=linear-scores' does not, and without either this is done if values are very skewed. By "
        "default, columns with fractions or with more than ten whole numbers are numeric. May be repeated, or put "
        "commas between names.",
    ),
]
Ordinal = Annotated[
    list[str] | None,
    reading_option(
        "--ordinal",
        metavar="COLUMN",
        help="Column of ordered states: sorted ones, or in the given order, such as 'answer=never<rarely<often', or "
        "'one=another=never<often' for columns of the same states. By default, columns with three to ten whole numbers "
        "are ordinal. May be repeated, or put commas between columns.",
    ),
]
Nominal = Annotated[
    list[str] | None,
    reading_option(
        "--nominal",
        metavar="COLUMN",
        help="Column of states without an order, even if they are numbers, such as a postal code. May be repeated, or "
        "put commas between names.",
    ),
]
TopLevels = Annotated[
    int | None,
    reading_option(
        "--top-levels",
        min=1,
        help="Keep this many of the most frequent levels of each nominal column of text, and group the others as "
        "'(other)'; 'predict' treats unknown values of such a column as '(other)', too.",
    ),
]
Strict = Annotated[
    bool,
    reading_option(
        "--strict", help="Refuse a table with identifiers, free text or empty columns, instead of leaving them out."
    ),
]
Weight = Annotated[
    str | None,
    reading_option("--weight", metavar="COLUMN", help="Column with the weights of the rows, which is not learned."),
]
Missing = Annotated[
    list[str] | None,
    reading_option(
        "--missing",
        metavar="TEXT",
        help="Word for a missing value, such as -99, in addition to empty cells, NA, N/A, NaN, null, ?, . and errors "
        "of Excel. May be repeated, or put commas between words.",
    ),
]
MissingOnly = Annotated[
    list[str] | None,
    reading_option(
        "--missing-only",
        metavar="TEXT",
        help="Word for a missing value, in place of the default ones; an empty cell is always missing. May be "
        "repeated, or put commas between words.",
    ),
]
NoHeader = Annotated[bool, reading_option("--no-header", help="There is no header row; columns are named x0, x1, ...")]
Separator = Annotated[
    str | None,
    reading_option(
        "--separator",
        metavar="TEXT",
        help="Separator of the cells of a text file, such as ';' or tab; found by default.",
    ),
]
Encoding = Annotated[
    str | None,
    reading_option("--encoding", metavar="NAME", help="Encoding of a text file, such as cp1252; found by default."),
]
Decimal = Annotated[
    str | None,
    reading_option("--decimal", metavar=".|,", help="Decimal mark of a text file; found by default."),
]
Dates = Annotated[
    str | None,
    reading_option(
        "--dates",
        metavar="day-first|month-first|text",
        help="What comes first in dates such as 01/02/2024, where the column does not show it; text leaves dates as "
        "they are.",
    ),
]
Sheet = Annotated[
    str | None, reading_option("--sheet", metavar="NAME", help="Sheet of an Excel or OpenDocument file with several.")
]
DatabaseTable = Annotated[
    str | None, reading_option("--table", metavar="NAME", help="Table of a SQLite or DuckDB file with several.")
]
ColumnNames = Annotated[
    Path | None,
    reading_option("--columns", metavar="FILE", help="Names of the columns of an .npz matrix, one per line."),
]

Templates = Annotated[
    list[str] | None,
    learning_option(
        "--template",
        metavar="TEMPLATE",
        help="Pairs of rows that features of linked tables connect, such as 'within person', 'across employer', "
        "'swapped from to'. May be repeated. Default: those of the schema file, or within tables and across links.",
    ),
]
Latent = Annotated[
    list[str] | None,
    learning_option(
        "--latent",
        metavar="NAME=STATES",
        help="Latent variable and its number of states, such as topic=8; 'predict' adds it as a column. May be "
        "repeated.",
    ),
]
Jobs = Annotated[
    int | None,
    running_option("--jobs", min=1, help="Number of threads; all cores by default. The result does not depend on it."),
]
Seed = Annotated[
    int, running_option("--seed", min=0, help="Random seed of held-out cells and of the start of latent variables.")
]

REFITS = {"no": False, "yes": True, "ml": "ml"}
"""Values of the parameter ``refit`` by those of its option."""

LearningOptions = dict[str, Any]
"""Values of the generated options, by the names that ``set_params`` takes, such as ``induction__threshold``."""


def _read_options(
    missing: Missing = None,
    missing_only: MissingOnly = None,
    no_header: NoHeader = False,
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    dates: Dates = None,
    sheet: Sheet = None,
    table: DatabaseTable = None,
) -> ReadOptions:
    words, only = _split_words(missing), _split_words(missing_only)
    return ReadOptions(words, only, False if no_header else None, separator, encoding, decimal, dates, sheet, table)


def _split_words(given: list[str] | None) -> tuple[str, ...]:
    return tuple(part.strip() for word in given or () for part in word.split(","))


def _column_options(
    observed: Observed = None,
    identifiers: Identifiers = None,
    numeric: Numeric = None,
    ordinal: Ordinal = None,
    nominal: Nominal = None,
    top_levels: TopLevels = None,
    strict: Strict = False,
) -> ColumnOptions:
    names = (tuple(words or ()) for words in (observed, identifiers, numeric, ordinal, nominal))
    return ColumnOptions(*names, top_levels=top_levels, strict=strict)


def with_shared_options(*, without: Collection[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that replaces some parameters of a command by the options that commands share.

    ``columns`` are `ColumnOptions`, ``reading`` are `ReadOptions`, and ``learning`` are `LearningOptions`: one option
    for each parameter that `FieldParameters` gives to the command line, except those in ``without``.
    """
    chosen = [option for option in command_line_options() if option.name not in without]

    def learning_options(**given: Any) -> LearningOptions:
        return {option.name: _read_value(option, given[option.key]) for option in chosen}

    makers: dict[str, Callable[..., Any]] = {
        "columns": _column_options,
        "reading": _read_options,
        "learning": learning_options,
    }
    shared = {
        name: list(inspect.signature(make, eval_str=True).parameters.values()) for name, make in makers.items()
    } | {"learning": [_make_parameter(option) for option in chosen]}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)

        @functools.wraps(command)
        def run(**given: Any) -> None:
            for name in signature.parameters.keys() & makers.keys():
                given[name] = makers[name](**{option.name: given.pop(option.name) for option in shared[name]})
            command(**given)

        parameters = [one for name, own in signature.parameters.items() for one in shared.get(name, [own])]
        parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
        run.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportAttributeAccessIssue]
        return run

    return decorate


def _make_parameter(option: CommandLineOption) -> inspect.Parameter:
    """Return a parameter of a command that typer turns into the option."""
    kind, flags, default = type(option.default), [option.flag], option.default
    if option.name == "refit":
        kind, default = str, "no"
    elif kind is bool:
        flags = [f"{option.flag}/{option.flag.replace('--', '--no-', 1)}"]
    if option.name == "selection":  # whose default depends on other options
        kind, default = str | None, None
    annotation = Annotated[kind, learning_option(*flags, metavar=option.metavar, min=option.minimum, help=option.help)]
    return inspect.Parameter(option.key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _read_value(option: CommandLineOption, value: Any) -> Any:
    """Return a value in the type of its parameter: a number or "auto" where both are possible."""
    if option.name == "refit":
        if value not in REFITS:
            raise typer.BadParameter(f"--refit must be 'no', 'yes' or 'ml', got {value!r}")
        return REFITS[value]
    if value is None or not (option.metavar or "").endswith("|auto") or value == "auto":
        return value
    try:
        return int(value) if value.isdecimal() and option.key != "l1" else float(value)
    except ValueError:
        raise typer.BadParameter(f"{option.flag} must be 'auto' or a number, got {value!r}") from None


def make_estimator(
    given: InputData,
    templates: list[str] | None,
    learning: LearningOptions,
    *,
    jobs: int | None,
    seed: int,
    latent: list[str] | None = None,
    **more: Any,
) -> AnyField:
    """Return an unfitted estimator for the data, with the options of the command line.

    ``more`` are further parameters, by the names that ``set_params`` takes. An option that the chosen induction rule
    does not have is ignored.
    """
    from sparsefield import MarkovField, RelationalField
    from sparsefield.data import resolve_templates
    from sparsefield.estimators.training import check_parameters

    if templates and not given.linked:
        raise typer.BadParameter("--template is for linked tables; DATA is one table")
    if latent and given.linked:
        raise typer.BadParameter("--latent is for one table; DATA describes linked tables")
    if given.linked:
        resolve_templates(given.X, templates)  # reports a mistake in them before any work is done
        field = RelationalField(templates=templates)
    else:
        field = MarkovField(latent=_parse_latent(latent))
    options = learning | more
    plain = {name: value for name, value in options.items() if "__" not in name and value is not None}
    field.set_params(**plain, kinds=given.kinds, n_jobs=jobs, random_state=seed)
    known = field.get_params()
    nested = {name: value for name, value in options.items() if "__" in name}
    field.set_params(**{name: value for name, value in nested.items() if name in known and known[name] != value})
    check_parameters(field)
    return field


def report_to(watch: StatusLine) -> FitCallbacks:
    """Return callbacks that show the progress of a fit."""
    from sparsefield import FitCallbacks

    return FitCallbacks(
        on_iteration=watch.on_iteration,
        on_path_point=lambda point: watch.update(f"l1 {point.l1:.3g}, {len(point.fit.field.features):,} features"),
    )


def _parse_latent(words: list[str] | None) -> dict[str, int] | None:
    """Return {name: states} from NAME=STATES."""
    found: dict[str, int] = {}
    for word in words or ():
        name, _, count = word.rpartition("=")
        if not name or not count.isdecimal():
            raise typer.BadParameter(f"--latent takes a name and a number of states, such as topic=8; got {word!r}")
        if name in found:
            raise typer.BadParameter(f"--latent names {name!r} twice")
        found[name] = int(count)
    return found or None

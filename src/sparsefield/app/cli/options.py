"""Options that several commands share, ``--set NAME=VALUE``, and estimators made from them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from inspect import getdoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.app.tables.file_format import OPTIONS, FileFormat
from sparsefield.errors import DataError
from sparsefield.parameters import EVERYDAY, FieldParameters

if TYPE_CHECKING:
    from sparsefield import FitCallbacks, MarkovField, RelationalField
    from sparsefield.app.cli.console import StatusLine
    from sparsefield.app.cli.inputs import InputData

    AnyField = MarkovField | RelationalField

TABLE_HELP = "File of a table: CSV or other text, Parquet, Excel, SPSS, Stata, SAS, SQLite, ...; - is standard input."
READ = "read"
"""The part of a name of ``--set`` that stands for `FileFormat`."""

column_option = functools.partial(typer.Option, rich_help_panel="Columns")
reading_option = functools.partial(typer.Option, rich_help_panel="Reading the table")
learning_option = functools.partial(typer.Option, rich_help_panel="Learning")
running_option = functools.partial(typer.Option, rich_help_panel="Running")


def _columns(flag: str, help: str) -> Any:
    """Return an option that names columns."""
    return column_option(flag, metavar="COLUMN", help=f"{help} May be repeated, or put commas between names.")


def _everyday(name: str) -> Any:
    """Return the option of a parameter, with the help and the placeholder that are beside its default."""
    about = EVERYDAY[name].metadata
    return learning_option(f"--{name}", metavar=about["metavar"], help=about["help"])


def output_option(help: str, metavar: str = "FILE") -> Any:
    """Return the option of an output."""
    return typer.Option("--output", "-o", metavar=metavar, help=help)


OneTable = Annotated[Path, typer.Argument(metavar="DATA", help=TABLE_HELP)]
Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", help=f"{TABLE_HELP} For linked tables, the TOML file that describes them, or its folder."
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file that 'fit' wrote.")]
TableOutput = Annotated[
    Path,
    output_option(
        "File to write, such as .csv, .tsv, .csv.gz, .parquet, .arrow, .jsonl or .xlsx; - is text on standard output. "
        "For linked tables, a folder."
    ),
]
ResultOutput = Annotated[
    Path | None, output_option("Also write the whole table to this file, such as .csv, .parquet or .xlsx.")
]

Observed = Annotated[
    list[str] | None, _columns("--observed", "Column that is conditioned on and never predicted, a covariate.")
]
Identifiers = Annotated[
    list[str] | None, _columns("--id", "Column to leave out, such as a name; 'predict' copies it to its output.")
]
Numeric = Annotated[
    list[str] | None,
    _columns(
        "--numeric",
        "Column of numbers, by default one with fractions or more than ten whole numbers; 'income=normal-scores' "
        "learns from normal quantiles of ranks, 'income=linear-scores' does not.",
    ),
]
Ordinal = Annotated[
    list[str] | None,
    _columns(
        "--ordinal",
        "Column of ordered states, by default one with three to ten whole numbers; 'answer=never<rarely<often' gives "
        "the order, 'one=another=never<often' that of two columns.",
    ),
]
Nominal = Annotated[
    list[str] | None, _columns("--nominal", "Column of states without an order, such as a postal code.")
]
TopLevels = Annotated[
    int | None,
    column_option(
        "--top-levels",
        min=1,
        help="Keep this many frequent levels of each nominal column of text, and group the others as '(other)'.",
    ),
]
Strict = Annotated[
    bool, column_option("--strict", help="Refuse identifiers, free text and empty columns instead of leaving them out.")
]
Weight = Annotated[
    str | None, column_option("--weight", metavar="COLUMN", help="Column with the weights of rows; it is not learned.")
]
Group = Annotated[
    str | None,
    column_option(
        "--group",
        metavar="COLUMN",
        help="Column that says which rows belong together, such as a patient, and are held out together; it is not "
        "learned.",
    ),
]

Missing = Annotated[
    list[str] | None,
    reading_option(
        "--missing",
        metavar="TEXT",
        help="Word for a missing value, such as -99, besides empty cells, NA, N/A, NaN, null, ?, . and errors of "
        "Excel. May be repeated, or put commas between words.",
    ),
]
READ_NAMES = (
    "read.separator, read.encoding, read.decimal, read.dates=day-first|month-first|text, read.header=no, read.sheet, "
    "read.missing_only"
)
ReadSet = Annotated[
    list[str] | None,
    reading_option(
        "--set",
        metavar="NAME=VALUE",
        help=f"How a file is read, where this is not found out: {READ_NAMES}. May be repeated.",
    ),
]
AnySet = Annotated[
    list[str] | None,
    learning_option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other option, by its name in Python, such as l2=0.5, solver.tol=1e-8, induction.threshold=0.1 or "
        "missing=mean-field; a name without a value prints what it means. Also how a file is read, where this is not "
        f"found out: {READ_NAMES}. May be repeated.",
    ),
]

L1 = Annotated[str, _everyday("l1")]
Selection = Annotated[str, _everyday("selection")]
Penalty = Annotated[str, _everyday("penalty")]
Objective = Annotated[str, _everyday("objective")]
Induction = Annotated[str, _everyday("induction")]
Refit = Annotated[str, _everyday("refit")]
Templates = Annotated[
    list[str] | None,
    learning_option(
        "--template",
        metavar="TEMPLATE",
        help="Pairs of rows that features of linked tables connect, such as 'within person', 'across employer', "
        "'swapped from to'; by default those of the schema file. May be repeated.",
    ),
]
Latent = Annotated[
    list[str] | None,
    learning_option(
        "--latent",
        metavar="NAME=STATES",
        help="Latent variable and its number of states, such as topic=8; 'predict' adds a column. May be repeated.",
    ),
]
Json = Annotated[bool, running_option("--json", help="Print JSON with everything instead of tables and sentences.")]
Jobs = Annotated[
    int | None,
    running_option("--jobs", min=1, help="Number of threads, which does not change results; by default all."),
]
Seed = Annotated[int, running_option("--seed", min=0, help="Random seed; the same seed gives the same result.")]
CheckpointFolder = Annotated[
    Path | None,
    running_option(
        "--checkpoint",
        metavar="FOLDER",
        help="Save the state here every now and then; after an interruption, the same command continues from it.",
    ),
]


@dataclass(frozen=True)
class Setting:
    """A value that the command line gives to a parameter."""

    name: str
    """Name in Python, with the object that it belongs to: ``"l1"`` or ``"solver.tol"``."""
    text: str
    option: str
    """The words of the command line, for messages."""


def parse_value(text: str) -> Any:
    """Return the value that a text on the command line stands for.

    Examples
    --------
    >>> parse_value("yes"), parse_value("1e-8"), parse_value("0.1,0.2"), parse_value("mean-field")
    (True, 1e-08, (0.1, 0.2), 'mean-field')
    """
    words = {"yes": True, "true": True, "no": False, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return tuple(map(parse_value, text.split(","))) if "," in text else text


def _settings(words: Iterable[str] | None) -> list[Setting]:
    parts = [(word, *word.partition("=")) for word in words or ()]
    return [Setting(name.strip(), text if equals else "", f"--set {word}") for word, name, equals, text in parts]


def reading_options(
    missing: Sequence[str] | None, words: Sequence[str] | None, *, learning: bool = False
) -> FileFormat:
    """Return the options for reading a table; ``learning`` is whether ``--set`` may have other names, too."""
    known = [name for name in OPTIONS if name != "missing"]  # which has a flag
    values: dict[str, Any] = {"missing": _split_words(missing or ())}
    problems = []
    for setting in _settings(words):
        part, _, name = setting.name.partition(".")
        if part != READ and learning:
            continue
        if part != READ or name not in known or not setting.text:
            problems.append(f"{setting.option}: write {READ}.NAME=VALUE; names are {', '.join(known)}.")
        elif name == "header" and not isinstance(parse_value(setting.text), bool):
            problems.append(f"{setting.option}: write yes or no.")
        elif name == "header":
            values[name] = parse_value(setting.text)
        else:
            values[name] = _split_words([setting.text]) if name.startswith("missing") else setting.text
    if problems:
        raise DataError(" ".join(problems))
    return FileFormat(**values)


def _split_words(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(part.strip() for word in given for part in word.split(","))


def learning_settings(words: Sequence[str] | None, **everyday: str) -> list[Setting]:
    """Return the learning options, those with a flag first; unknown names are refused before anything is imported."""
    found = [Setting(name, text, f"--{name} {text}") for name, text in everyday.items()]
    known = [option.name for option in fields(FieldParameters)]
    problems = []
    for setting in _settings(words):
        part = setting.name.partition(".")[0]
        if part == READ:
            continue
        if part not in known:
            problems.append(f"{setting.option}: there is no option {part!r}; names are {', '.join([READ, *known])}.")
        found.append(setting)
    if problems:
        raise DataError(" ".join(problems))
    return found


def make_estimator(
    given: InputData,
    settings: Sequence[Setting],
    *,
    jobs: int | None,
    seed: int,
    templates: list[str] | None = None,
    latent: list[str] | None = None,
) -> AnyField:
    """Return an unfitted estimator for the data, with the options of the command line."""
    from sparsefield import MarkovField, RelationalField
    from sparsefield.data import resolve_templates

    if templates and not given.linked:
        raise DataError("--template is for linked tables; DATA is one table.")
    if latent and given.linked:
        raise DataError("--latent is for one table; DATA describes linked tables.")
    if given.linked:
        resolve_templates(given.X, templates)  # reports a mistake in them before any work is done
        field = RelationalField(templates=templates)
    else:
        field = MarkovField(latent=_parse_latent(latent))
    field.set_params(kinds=given.kinds, n_jobs=jobs, random_state=seed)
    _apply(field, settings)
    return field


def _apply(field: AnyField, settings: Sequence[Setting]) -> None:
    """Set parameters of an estimator, and raise one error about all that it does not have or that make no sense."""
    from sparsefield.estimators.training import check_parameters
    from sparsefield.options import RULES

    problems = []
    for setting in sorted(settings, key=lambda setting: "." in setting.name):  # a rule comes before its options
        known, key, value = field.get_params(), setting.name.replace(".", "__"), parse_value(setting.text)
        part, _, name = key.rpartition("__")
        rule = RULES.get(name)
        if key not in known:
            names = [other.removeprefix(f"{part}__") for other in known if other.startswith(f"{part}__")]
            owner, listed = part.replace("__", "."), ", ".join(names) or "none"
            problems.append(f"{setting.option}: {owner} has no option {name!r}; its options are: {listed}.")
        elif not setting.text:
            problems.append(f"{setting.option}: write {setting.name}=VALUE. {_describe(field, part, name)}")
        elif rule is not None and not rule.accepts(value):
            wanted = re.sub(r"\bTrue\b", "yes", re.sub(r"\bFalse\b", "no", rule.wanted))
            problems.append(f"{setting.option}: {name} must be {wanted}, got {setting.text!r}.")
        else:
            is_float = isinstance(known[key], float) or (key in EVERYDAY and "float" in str(EVERYDAY[key].type))
            field.set_params(**{key: float(value) if is_float and type(value) is int else value})
    try:
        check_parameters(field)
    except ValueError as error:
        problems.append(str(error))
    if problems:
        raise DataError(" ".join(problems))


def _describe(field: AnyField, part: str, name: str) -> str:
    """Return what a parameter means: its help, or the entry of the docstring of its option object."""
    if not part:
        return next(option.metadata.get("help", "") for option in fields(FieldParameters) if option.name == name)
    entry = re.search(rf"^{name} : .*\n((?:    .*\n?)+)", getdoc(field.resolve(part)) or "", re.MULTILINE)
    return " ".join(entry.group(1).split()) if entry else ""


def report_to(watch: StatusLine) -> FitCallbacks:
    """Return callbacks that show the progress of a fit."""
    from sparsefield import FitCallbacks

    return FitCallbacks(
        on_iteration=watch.on_iteration,
        on_path_point=lambda point: watch.update(f"l1 {point.l1:.3g}, {len(point.field.features):,} features"),
    )


def _parse_latent(words: list[str] | None) -> dict[str, int] | None:
    """Return {name: states} from NAME=STATES."""
    found: dict[str, int] = {}
    for word in words or ():
        name, _, count = word.rpartition("=")
        if not name or not count.isdecimal():
            raise DataError(f"--latent takes a name and a number of states, such as topic=8; got {word!r}.")
        if name in found:
            raise DataError(f"--latent names {name!r} twice.")
        found[name] = int(count)
    return found or None

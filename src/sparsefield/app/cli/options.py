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

from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.errors import DataError
from sparsefield.parameters import EVERYDAY, FieldParameters

if TYPE_CHECKING:
    from sparsefield import FitCallbacks, MarkovField, RelationalField
    from sparsefield.app.cli.console import StatusLine
    from sparsefield.app.cli.inputs import InputData

    AnyField = MarkovField | RelationalField

TABLE_HELP = "File of a table: CSV or other text, Parquet, Excel, SPSS, Stata, SAS, SQLite, ...; - is standard input."
MAY_BE_REPEATED = "May be repeated, or put commas between names."
READ = "read"
"""The part of a name of ``--set`` that stands for `ReadOptions`."""

column_option = functools.partial(typer.Option, rich_help_panel="Columns")
reading_option = functools.partial(typer.Option, rich_help_panel="Reading the table")
learning_option = functools.partial(typer.Option, rich_help_panel="Learning")
running_option = functools.partial(typer.Option, rich_help_panel="Running")

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
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="File to write, such as .csv, .tsv, .csv.gz, .parquet, .arrow, .jsonl or .xlsx; - is text on standard "
        "output. For linked tables, a folder.",
    ),
]
ResultOutput = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Also write the whole table, to .csv, .parquet, .xlsx, ..."),
]
Json = Annotated[bool, running_option("--json", help="Print JSON with everything instead of tables and sentences.")]

Observed = Annotated[
    list[str] | None,
    column_option(
        "--observed",
        metavar="COLUMN",
        help=f"Column that is conditioned on and never predicted. {MAY_BE_REPEATED}",
    ),
]
Identifiers = Annotated[
    list[str] | None,
    column_option(
        "--id",
        metavar="COLUMN",
        help=f"Column to leave out, such as a name; 'predict' copies it to its output. {MAY_BE_REPEATED}",
    ),
]
Numeric = Annotated[
    list[str] | None,
    column_option(
        "--numeric",
        metavar="COLUMN",
        help="Column of numbers; 'income=normal-scores' replaces values by normal quantiles of their ranks in "
        "features, 'income=linear-scores' does not. By default, columns with fractions or with more than ten whole "
        f"numbers are numeric. {MAY_BE_REPEATED}",
    ),
]
Ordinal = Annotated[
    list[str] | None,
    column_option(
        "--ordinal",
        metavar="COLUMN",
        help="Column of ordered states: sorted ones, or in the given order, such as 'answer=never<rarely<often', or "
        "'one=another=never<often' for columns of the same states. By default, columns with three to ten whole numbers "
        f"are ordinal. {MAY_BE_REPEATED}",
    ),
]
Nominal = Annotated[
    list[str] | None,
    column_option(
        "--nominal",
        metavar="COLUMN",
        help=f"Column of states without an order, even if they are numbers, such as a postal code. {MAY_BE_REPEATED}",
    ),
]
TopLevels = Annotated[
    int | None,
    column_option(
        "--top-levels",
        min=1,
        help="Keep this many of the most frequent levels of each nominal column of text, and group the others as "
        "'(other)'; 'predict' treats unknown values of such a column as '(other)', too.",
    ),
]
Strict = Annotated[
    bool,
    column_option(
        "--strict", help="Refuse a table with identifiers, free text or empty columns, instead of leaving them out."
    ),
]
Weight = Annotated[
    str | None,
    column_option("--weight", metavar="COLUMN", help="Column with the weights of the rows, which is not learned."),
]
Group = Annotated[
    str | None,
    column_option(
        "--group",
        metavar="COLUMN",
        help="Column that says which rows belong together, such as a patient. It is not learned; rows with the same "
        "value are held out together when l1 is selected.",
    ),
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
ReadSet = Annotated[
    list[str] | None,
    reading_option(
        "--set",
        metavar="read.NAME=VALUE",
        help="How a file is read, where this is not found out: read.separator, read.encoding, read.decimal, "
        "read.dates=day-first|month-first|text, read.header=no, read.sheet, read.table, read.missing_only. May be "
        "repeated.",
    ),
]
AnySet = Annotated[
    list[str] | None,
    learning_option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other option, by its name in Python: l2=0.5, solver.tol=1e-8, induction.threshold=0.1, "
        "missing=mean-field; and how a file is read, where this is not found out: read.separator, read.encoding, "
        "read.decimal, read.dates=day-first|month-first|text, read.header=no, read.sheet, read.table, "
        "read.missing_only. A name without a value prints what it means. May be repeated.",
    ),
]


def _everyday(name: str) -> Any:
    """Return the option of a parameter, with the help and the placeholder that are beside its default."""
    about = EVERYDAY[name].metadata
    return learning_option(f"--{name}", metavar=about["metavar"], help=about["help"])


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
Seed = Annotated[int, running_option("--seed", min=0, help="Random seed; the same seed gives the same result.")]


@dataclass(frozen=True)
class Setting:
    """A value that the command line gives to a parameter."""

    name: str
    """Name in Python, with the object that it belongs to: ``"l1"`` or ``"solver.tol"``."""
    text: str
    option: str
    """The words of the command line, for messages."""

    @property
    def key(self) -> str:
        """Name that `set_params` takes."""
        return self.name.replace(".", "__")

    @property
    def value(self) -> Any:
        """The text as None, a bool, a number, a tuple where it has commas, or itself."""
        return parse_value(self.text)


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
) -> ReadOptions:
    """Return the options for reading a table; ``learning`` is whether ``--set`` may have other names, too."""
    known = [option.name for option in fields(ReadOptions)]
    values: dict[str, Any] = {"missing": _split_words(missing or ())}
    problems = []
    for setting in _settings(words):
        part, _, name = setting.name.partition(".")
        if part != READ and learning:
            continue
        if part != READ or name not in known or not setting.text:
            problems.append(f"{setting.option}: write {READ}.NAME=VALUE; names are {', '.join(known)}.")
        elif name == "header" and not isinstance(setting.value, bool):
            problems.append(f"{setting.option}: write yes or no.")
        else:
            value = setting.value if name == "header" else setting.text
            values[name] = _split_words([setting.text]) if name.startswith("missing") else value
    if problems:
        raise DataError(" ".join(problems))
    return ReadOptions(**values)


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
        raise typer.BadParameter("--template is for linked tables; DATA is one table")
    if latent and given.linked:
        raise typer.BadParameter("--latent is for one table; DATA describes linked tables")
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
    from sparsefield.parameter_checks import RULES

    problems = []
    for setting in sorted(settings, key=lambda setting: "." in setting.name):  # a rule comes before its options
        known, key, value = field.get_params(), setting.key, setting.value
        part, _, name = key.rpartition("__")
        rule = RULES.get(name)
        if key not in known:
            names = [other.removeprefix(f"{part}__") for other in known if other.startswith(f"{part}__")]
            problems.append(f"{setting.option}: {part} has no option {name!r}; its options are: {', '.join(names)}.")
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

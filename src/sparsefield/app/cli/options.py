"""Options that several commands share, ``--set NAME=VALUE``, and estimators made from them.

A group of options is a dataclass with an annotated field for each option; `expanded` makes a command of a function
that takes such groups.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from inspect import Parameter, Signature, getdoc, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from sparsefield.app.cli.inputs import InputData, column_option
from sparsefield.app.tables.file_format import OPTIONS, FileFormat
from sparsefield.errors import DataError
from sparsefield.options import RULES
from sparsefield.parameters import EVERYDAY, FieldParameters

if TYPE_CHECKING:
    from sparsefield import FitCallbacks, MarkovField, RelationalField
    from sparsefield.app.cli.console import StatusLine

    AnyField = MarkovField | RelationalField

TABLE_HELP = "File of a table: CSV or other text, Parquet, Excel, SPSS, Stata, SAS, SQLite, ...; - is standard input."
READ = "read"
"""The part of a name of ``--set`` that stands for `FileFormat`."""

READ_NAMES = (
    "read.separator, read.encoding, read.decimal, read.dates=day-first|month-first|text, read.header=no, read.sheet, "
    "read.missing_only"
)

reading_option = functools.partial(typer.Option, rich_help_panel="Reading the table")
learning_option = functools.partial(typer.Option, rich_help_panel="Learning")
running_option = functools.partial(typer.Option, rich_help_panel="Running")


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with an option for each field of the parameters that are groups of options.

    The help of other options is in the docstring, below "Options:", as ``name: help``.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    about, _, text = (getdoc(command) or "").partition("\nOptions:\n")
    helps = {name: " ".join(words.split()) for name, words in re.findall(r"(?m)^    (\w+): (.+(?:\n {6,}.+)*)", text)}
    parameters: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        options = {name: (hints[name], parameter.default)}
        if name in groups:
            types = get_type_hints(groups[name], include_extras=True)
            options = {option.name: (types[option.name], option.default) for option in fields(groups[name])}
        if name in helps:
            options = {name: (_with_help(name, hints[name], helps.pop(name), parameter.default), parameter.default)}
        parameters += [
            Parameter(key, Parameter.KEYWORD_ONLY, default=default, annotation=hint)
            for key, (hint, default) in options.items()
        ]
    assert not helps, helps

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{option.name: values.pop(option.name) for option in fields(group)})
        command(**values)

    run.__doc__ = about
    run.__signature__ = Signature(parameters)  # pyright: ignore[reportAttributeAccessIssue]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _with_help(name: str, hint: Any, help: str, default: Any) -> Any:
    """Return the type of an option with its help; one that is False by default has no opposite."""
    if hasattr(hint, "__metadata__"):
        (option,) = hint.__metadata__
        option = copy.copy(option)
        option.help = help
        return Annotated[hint.__origin__, option]
    flags = [f"--{name.replace('_', '-')}"] if default is False else []
    return Annotated[hint, typer.Option(*flags, help=help)]


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
        metavar="DATA",
        help=f"{TABLE_HELP} For linked tables, the TOML file that describes them, a folder of files, a SQLite or "
        "DuckDB file, or postgresql://USER@HOST/DATABASE.",
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
ResultOutput = Annotated[Path | None, output_option("Also write the whole table to this file (.csv, .parquet, .xlsx).")]
Communities = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|auto",
        help="Communities of columns: 'auto' finds them; a file has them in its columns 'column' and 'community', as "
        "'analyze centrality' writes it.",
    ),
]
Weight = Annotated[str | None, column_option("--weight", metavar="COLUMN", help="Column of row weights, not learned.")]
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
class ReadingOptions:
    """How a table is read, for commands that have a model."""

    missing: Missing = None
    settings: Annotated[
        list[str] | None,
        reading_option(
            "--set",
            metavar="NAME=VALUE",
            help=f"How a file is read, where this is not found out: {READ_NAMES}. May be repeated.",
        ),
    ] = None

    def reading(self) -> FileFormat:
        """Return the options for reading a table."""
        return _reading_options(self.missing, self.settings, learning=False)


@dataclass(frozen=True)
class LearningOptions:
    """How a table is read and learned from."""

    missing: Missing = None
    l1: Annotated[str, _everyday("l1")] = "auto"
    selection: Annotated[str, _everyday("selection")] = "heldout"
    penalty: Annotated[str, _everyday("penalty")] = "l1"
    objective: Annotated[str, _everyday("objective")] = "pl"
    induction: Annotated[str, _everyday("induction")] = "cfi"
    refit: Annotated[str, _everyday("refit")] = "no"
    latent: Annotated[
        list[str] | None,
        learning_option(
            "--latent",
            metavar="NAME=STATES",
            help="Latent variable and its number of states, such as topic=8; 'predict' adds a column. May be repeated.",
        ),
    ] = None
    template: Annotated[
        list[str] | None,
        learning_option(
            "--template",
            metavar="TEMPLATE",
            help="Pairs of rows that features of linked tables connect, such as 'within person' (may be repeated). "
            "'base' stands for within and across; 'auto', without a schema file that names some, finds them.",
        ),
    ] = None
    settings: Annotated[
        list[str] | None,
        learning_option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other option, by its name in Python, such as l2=0.5, solver.tol=1e-8, induction.threshold=0.1 or "
            "missing=mean-field; a name without a value prints its value. Also how a file is read, where this is "
            f"not found out: {READ_NAMES}. May be repeated.",
        ),
    ] = None

    def reading(self) -> FileFormat:
        """Return the options for reading a table; names and values of all others are checked, too."""
        self.parameters()
        return _reading_options(self.missing, self.settings, learning=True)

    def parameters(self) -> list[Setting]:
        """Return the parameters of the estimator, those with a flag first; refuse unknown names and bad values."""
        known = [option.name for option in fields(FieldParameters)]
        parameters = [Setting(name, getattr(self, name), f"--{name} {getattr(self, name)}") for name in EVERYDAY]
        parameters += [setting for setting in _split_settings(self.settings) if setting.part != READ]
        problems = []
        for setting in parameters:
            name = setting.name.rpartition(".")[2]
            rule = RULES.get(name)
            if setting.part not in known:
                names = ", ".join([READ, *known])
                problems.append(f"{setting.option}: there is no option {setting.part!r}; names are {names}.")
            elif setting.text and rule is not None and not rule.accepts(parse_value(setting.text)):
                wanted = re.sub(r"\bTrue\b", "yes", re.sub(r"\bFalse\b", "no", rule.wanted))
                problems.append(f"{setting.option}: {name} must be {wanted}, got {setting.text!r}.")
        _refuse(problems)
        return parameters


@dataclass(frozen=True)
class Setting:
    """A text for a parameter, which has its name in Python such as ``"solver.tol"``, and the words to say so."""

    name: str
    text: str
    option: str

    @property
    def part(self) -> str:
        """The first part of the name."""
        return self.name.partition(".")[0]


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


def _split_settings(words: Iterable[str] | None) -> list[Setting]:
    parts = [(word, *word.partition("=")) for word in words or ()]
    return [Setting(name.strip(), text if equals else "", f"--set {word}") for word, name, equals, text in parts]


def _reading_options(missing: Sequence[str] | None, words: Sequence[str] | None, *, learning: bool) -> FileFormat:
    """Return the options for reading a table; ``learning`` is whether ``--set`` may have other names, too."""
    known = [name for name in OPTIONS if name != "missing"]  # which has a flag
    values: dict[str, Any] = {"missing": _split_words(missing or ())}
    problems = []
    for setting in _split_settings(words):
        name = setting.name.partition(".")[2]
        if setting.part != READ and learning:
            continue
        if setting.part != READ or name not in known or not setting.text:
            problems.append(f"{setting.option}: write {READ}.NAME=VALUE; names are {', '.join(known)}.")
        elif name == "header" and not isinstance(parse_value(setting.text), bool):
            problems.append(f"{setting.option}: write yes or no.")
        elif name == "header":
            values[name] = parse_value(setting.text)
        else:
            values[name] = _split_words([setting.text]) if name.startswith("missing") else setting.text
    _refuse(problems)
    return FileFormat(**values)


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise DataError(" ".join(problems))


def _split_words(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(part.strip() for word in words for part in word.split(","))


def make_estimator(dataset: InputData, learning: LearningOptions, *, jobs: int | None, seed: int) -> AnyField:
    """Return an unfitted estimator for the data, with the options of the command line."""
    from sparsefield import MarkovField, RelationalField
    from sparsefield.data import resolve_templates

    if learning.template and not dataset.linked:
        raise DataError("--template is for linked tables; DATA is one table.")
    if learning.latent and dataset.linked:
        raise DataError("--latent is for one table; DATA describes linked tables.")
    if dataset.linked:
        resolve_templates(dataset.X, learning.template)  # reports a mistake in them before any work is done
        field = RelationalField(templates=learning.template)
    else:
        latent: dict[str, int] = {}
        for word in learning.latent or ():
            name, _, states = word.rpartition("=")
            if not name or not states.isdecimal() or name in latent:
                raise DataError(f"--latent takes a new name and a number of states, such as topic=8; got {word!r}.")
            latent[name] = int(states)
        field = MarkovField(latent=latent or None)
    field.set_params(kinds=dataset.kinds, n_jobs=jobs, random_state=seed)
    _apply(field, learning.parameters())
    return field


def _apply(field: AnyField, settings: Sequence[Setting]) -> None:
    """Set parameters of an estimator, and raise one error about all that it does not have or that make no sense."""
    from sparsefield.estimators.training import check_parameters

    problems = []
    for setting in sorted(settings, key=lambda setting: "." in setting.name):  # a rule comes before its options
        known, key, value = field.get_params(), setting.name.replace(".", "__"), parse_value(setting.text)
        part, _, name = key.rpartition("__")
        if key not in known:
            names = [other.removeprefix(f"{part}__") for other in known if other.startswith(f"{part}__")]
            owner, listed = part.replace("__", "."), ", ".join(names) or "none"
            problems.append(f"{setting.option}: {owner} has no option {name!r}; its options are: {listed}.")
        elif not setting.text:
            problems.append(f"{setting.option}: write {setting.name}=VALUE; the value is {known[key]!r}.")
        else:
            is_float = isinstance(known[key], float) or (key in EVERYDAY and "float" in str(EVERYDAY[key].type))
            field.set_params(**{key: float(value) if is_float and type(value) is int else value})
    try:
        check_parameters(field)
    except ValueError as error:
        problems.append(str(error))
    _refuse(problems)


def report_to(watch: StatusLine) -> FitCallbacks:
    """Return callbacks that show the progress of a fit."""
    from sparsefield import FitCallbacks

    return FitCallbacks(on_iteration=watch.on_iteration, on_path_point=watch.on_path_point)

"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sparsefield import MarkovField, RelationalField
    from sparsefield.cli.input_data import InputData

    AnyField = MarkovField | RelationalField

__all__ = ["make_markov_field"]

READING, LEARNING, RUNNING = "Reading the table", "Learning", "Running"

Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Table to read, CSV or Parquet; or a TOML file that describes linked tables, or its folder.",
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model written by 'fit'.")]

Observed = Annotated[
    list[str] | None,
    typer.Option(
        "--observed",
        metavar="COLUMN",
        help="Column that is conditioned on and never predicted. Repeat it, or put commas between names.",
        rich_help_panel=READING,
    ),
]
Identifiers = Annotated[
    list[str] | None,
    typer.Option(
        "--id",
        metavar="COLUMN",
        help="Column to leave out, such as a name; 'predict' carries it through. May be repeated.",
        rich_help_panel=READING,
    ),
]
Numeric = Annotated[
    list[str] | None,
    typer.Option(
        "--numeric",
        metavar="COLUMN",
        help="Observed column that is a number; other observed columns are then categories. Without it, "
        "columns with fractions or more than ten whole numbers are numbers.",
        rich_help_panel=READING,
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        "--missing",
        metavar="WORD",
        help="What stands for a gap beside an empty cell. May be repeated. Without it: NA, NaN, null, ?",
        rich_help_panel=READING,
    ),
]
NoHeader = Annotated[
    bool,
    typer.Option("--no-header", help="The CSV has no names; columns are x0, x1, ...", rich_help_panel=READING),
]
Separator = Annotated[
    str | None,
    typer.Option(
        "--separator",
        metavar="MARK",
        help="What stands between the cells of a CSV; a comma unless told.",
        rich_help_panel=READING,
    ),
]

Templates = Annotated[
    list[str] | None,
    typer.Option(
        "--template",
        metavar="WORDS",
        help="Where features of linked tables may lie, such as 'within person', 'across employer', 'swapped from to'. "
        "May be repeated; without it: those of the schema file, or within each table and across each link.",
        rich_help_panel=LEARNING,
    ),
]
L1 = Annotated[
    str,
    typer.Option(
        "--l1",
        metavar="NUMBER|auto",
        help="Strength of the penalty that leaves features out; auto finds it, see --selection.",
        rich_help_panel=LEARNING,
    ),
]
Selection = Annotated[
    str | None,
    typer.Option(
        "--selection",
        metavar="heldout|ebic",
        help="What --l1 auto goes by: predictions of held-out cells, or a criterion that wants few features, for "
        "networks. heldout unless told; ebic with --stream, or where workers of --cluster read DATA.",
        rich_help_panel=LEARNING,
    ),
]
Refit = Annotated[
    bool,
    typer.Option(
        "--refit/--no-refit",
        help="Estimate the features that were chosen anew, without the penalty that shrinks them.",
        rich_help_panel=LEARNING,
    ),
]
L2 = Annotated[
    float,
    typer.Option("--l2", help="Strength of the penalty on large weights.", rich_help_panel=LEARNING),
]
Objective = Annotated[
    str,
    typer.Option("--objective", help="pl (pseudo-likelihood) or cd (the paper's).", rich_help_panel=LEARNING),
]
Threshold = Annotated[
    float,
    typer.Option("--threshold", help="Signals and errors below it are ignored by cfi.", rich_help_panel=LEARNING),
]
BatchSize = Annotated[
    str,
    typer.Option(
        "--batch-size",
        metavar="NUMBER|auto",
        help="Features that join at a time; the paper has 50.",
        rich_help_panel=LEARNING,
    ),
]
Inference = Annotated[
    str,
    typer.Option(
        "--inference",
        metavar="mean-field|bp|exact|gibbs",
        help="How gaps are filled, while learning and in answers.",
        rich_help_panel=LEARNING,
    ),
]
MaxOrder = Annotated[
    int,
    typer.Option(
        "--max-order",
        min=2,
        help="Most columns of a feature: 2 for pairs; with 3 and more, what has a weight may grow.",
        rich_help_panel=LEARNING,
    ),
]
Lift = Annotated[
    str,
    typer.Option(
        "--lift",
        metavar="active|all",
        help="What triples grow from: pairs with a weight, or all pairs, where no pair shows anything.",
        rich_help_panel=LEARNING,
    ),
]
OrderPenalty = Annotated[
    float,
    typer.Option(
        "--order-penalty",
        min=1.0,
        help="Each column of a feature beyond two multiplies its L1 penalty by so much.",
        rich_help_panel=LEARNING,
    ),
]
Certify = Annotated[
    bool,
    typer.Option(
        "--certify/--no-certify",
        help="Go on until no candidate misses the optimality conditions, or stop where the paper does.",
        rich_help_panel=LEARNING,
    ),
]
PenalizeUnary = Annotated[
    bool,
    typer.Option(
        "--penalize-unary/--no-penalize-unary",
        help="Whether the penalties hold for single states too.",
        rich_help_panel=LEARNING,
    ),
]
MaxIter = Annotated[int, typer.Option("--max-iter", min=1, help="Most iterations of a fit.", rich_help_panel=LEARNING)]
Hidden = Annotated[
    list[str] | None,
    typer.Option(
        "--latent",
        metavar="NAME=STATES",
        help="Variable that no table has, with so many states, such as topic=8; 'predict' adds it. May be repeated.",
        rich_help_panel=LEARNING,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", min=1, help="Threads; all cores unless told. Changes no result.", rich_help_panel=RUNNING),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed", help="Which cells are hidden at random, and where --hidden starts.", rich_help_panel=RUNNING
    ),
]


def read_l1(l1: str) -> float | str:
    """The value of --l1."""
    try:
        return l1 if l1 == "auto" else float(l1)
    except ValueError:
        raise typer.BadParameter(f"--l1 must be 'auto' or a number, got {l1!r}") from None


def make_markov_field(
    given: InputData,
    templates: list[str] | None,
    *,
    batch_size: str,
    jobs: int | None,
    seed: int,
    latent: list[str] | None = None,
    **options: object,
) -> AnyField:
    """A field for the data, with the options of the command line, which keep the names that they have in Python."""
    from sparsefield import MarkovField, RelationalField
    from sparsefield.data import resolve_templates

    if batch_size != "auto" and not batch_size.isdecimal():
        raise typer.BadParameter(f"--batch-size must be 'auto' or a number, got {batch_size!r}")
    options |= {"batch_size": batch_size if batch_size == "auto" else int(batch_size), "n_jobs": jobs}
    options |= {"random_state": seed, "numeric": given.numeric}
    if templates and not given.linked:
        raise typer.BadParameter("--template is for linked tables; DATA is one table")
    if latent and given.linked:
        raise typer.BadParameter("--hidden is for one table; DATA describes linked tables")
    if given.linked:
        resolve_templates(given.X, templates)  # a mistake in them is told at once
        field = RelationalField(templates=templates, **options)  # pyright: ignore[reportArgumentType]
    else:
        field = MarkovField(latent=_hidden(latent), **options)  # pyright: ignore[reportArgumentType]
    field._check_parameters()
    return field


def _hidden(words: list[str] | None) -> dict[str, int] | None:
    """{name: states} from NAME=STATES."""
    found: dict[str, int] = {}
    for word in words or ():
        name, _, count = word.rpartition("=")
        if not name or not count.isdecimal():
            raise typer.BadParameter(f"--hidden takes a name and a number of states, such as topic=8; got {word!r}")
        if name in found:
            raise typer.BadParameter(f"--hidden names {name!r} twice")
        found[name] = int(count)
    return found or None

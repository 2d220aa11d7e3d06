"""This module defines the options for linear chains, which label the tokens of sequences."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from sparsefield.errors import DataError

sequence_option = partial(typer.Option, rich_help_panel="Labeling sequences")

Chain = Annotated[
    bool,
    sequence_option(
        "--chain",
        help="Learn a linear chain, which labels the tokens of sequences. DATA is a CoNLL file, with a token per line, "
        "columns between blanks or tabs, and empty lines between sequences; or a table with --sequence.",
    ),
]
Label = Annotated[
    str | None,
    sequence_option("--label", metavar="COLUMN", help="Column of labels; the last one of a CoNLL file by default."),
]
Sequence_ = Annotated[
    str | None,
    sequence_option(
        "--sequence",
        metavar="COLUMN",
        help="DATA is a table with a row per token, and this column names the sequence of each row.",
    ),
]
Names = Annotated[
    str | None,
    sequence_option(
        "--names", metavar="NAMES", help="Names of the columns of a CoNLL file, such as word,tag,label; default: 0,1,2."
    ),
]
Window = Annotated[
    list[str] | None,
    sequence_option(
        "--window",
        metavar="NUMBER",
        help="Use the inputs of so many tokens before and after each token, too; word=2 does so for one column. May be "
        "repeated.",
    ),
]
Spelling = Annotated[
    list[str] | None,
    sequence_option(
        "--spelling",
        metavar="COLUMN",
        help="Use the lower case, the shape, and prefixes and suffixes of one to three letters of the words of this "
        "column, too. May be repeated.",
    ),
]
Attributes = Annotated[
    list[str] | None,
    sequence_option(
        "--attribute",
        metavar="TEMPLATE",
        help="A further attribute of each token, such as 'word[-1]' (of the token before), 'word[-1] & word' (of both "
        "together), 'word:suffix4[+1]', 'word:lower'. May be repeated.",
    ),
]
AllStates = Annotated[
    bool,
    sequence_option(
        "--all-states", help="Also learn weights for attributes with labels that they never occur with in DATA."
    ),
]
AllTransitions = Annotated[
    bool,
    sequence_option("--all-transitions", help="Also learn weights for labels that never follow each other in DATA."),
]
LabelingModel = Annotated[
    Path | None,
    sequence_option("--model", metavar="MODEL", help="Label DATA with this saved chain, instead of fitting chains."),
]

READING_PARAMETERS = frozenset(
    ("data", "missing", "missing_only", "no_header", "separator", "encoding", "decimal", "sheet", "table")
)
LABELING_PARAMETERS = READING_PARAMETERS | {"model", "output", "proba", "as_json", "jobs"}
"""Parameters of commands that apply to saved chains."""

CHAIN_PARAMETERS = LABELING_PARAMETERS | {
    *("chain", "label", "sequence", "names", "window", "spelling", "attribute", "all_states", "all_transitions"),
    *("observed", "identifiers", "nominal", "l1", "l2", "max_iter", "check", "seed", "folds"),
}
"""Parameters of commands that apply to chains."""


@dataclass(frozen=True)
class SequenceOptions:
    """The options for linear chains."""

    chain: bool = False
    label: str | None = None
    sequence: str | None = None
    names: str | None = None
    window: tuple[str, ...] = ()
    spelling: tuple[str, ...] = ()
    attribute: tuple[str, ...] = ()
    all_states: bool = False
    all_transitions: bool = False

    def check_chain(self) -> None:
        """Refuse options for chains without --chain."""
        if self.chain or self == SequenceOptions():
            return
        given = [f"--{name.replace('_', '-')}" for name, value in vars(self).items() if value]
        verb = "is an option" if len(given) == 1 else "are options"
        raise DataError(f"{' and '.join(given)} {verb} of linear chains: add --chain.")

    def windows(self, inputs: Sequence[str]) -> dict[str, int]:
        """Return how many tokens before and after are used, for each column."""
        found = dict.fromkeys(inputs, 0)
        for word in self.window:
            column, _, number = word.rpartition("=")
            if not number.isdecimal() or len(number) > 2 or (column and column not in inputs):
                raise DataError(
                    f"--window takes a number below 100, such as 2, or a column and a number, such as "
                    f"{next(iter(inputs), 'word')}=2; got {word!r}. The inputs are {', '.join(inputs)}."
                )
            found |= dict.fromkeys([column] if column else inputs, int(number))
        return found


def make_sequence_options(
    chain: Chain = False,
    label: Label = None,
    sequence: Sequence_ = None,
    names: Names = None,
    window: Window = None,
    spelling: Spelling = None,
    attribute: Attributes = None,
    all_states: AllStates = False,
    all_transitions: AllTransitions = False,
) -> SequenceOptions:
    """Return the options for linear chains."""
    return SequenceOptions(
        chain,
        label,
        sequence,
        names,
        tuple(window or ()),
        tuple(spelling or ()),
        tuple(attribute or ()),
        all_states,
        all_transitions,
    )


def given_options(ctx: typer.Context) -> dict[str, str]:
    """Return {parameter: flag} of the options and arguments that were given."""
    flags: Mapping[str, str] = {str(one.name): one.opts[0] for one in ctx.command.params}
    return {name: flags[name] for name in ctx.params if _is_given(ctx.get_parameter_source(name))}


def _is_given(source: Any) -> bool:
    return source is not None and source.name == "COMMANDLINE"


def refuse_other_options(ctx: typer.Context, kept: Collection[str], what: str = "a linear chain") -> None:
    """Refuse options that do not apply, all at once."""
    wrong = [flag for name, flag in given_options(ctx).items() if name not in kept]
    if wrong:
        raise DataError(f"{' and '.join(wrong)} cannot be used with {what}: remove {'them' if wrong[1:] else 'it'}.")

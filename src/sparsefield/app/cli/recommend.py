"""``sparsefield recommend`` lists the items that are most probable beside those of a basket."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.basket_data import BasketOptions, check_basket_options, read_orders
from sparsefield.app.cli.console import new_table, show, show_json
from sparsefield.app.cli.input_data import is_matrix
from sparsefield.app.cli.model_input import open_model, require_estimator
from sparsefield.app.cli.table_files import check_table_output, show_written
from sparsefield.app.pages.fit_summary import count as count_of
from sparsefield.app.tables.output_paths import refuse_overwriting_inputs
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.app.tables.write import write_table
from sparsefield.errors import DataError, UnknownItemError

Orders = Annotated[
    Path | None,
    typer.Argument(
        metavar="[DATA]",
        help="Baskets: a CSV or Parquet file, with --long, or an .npz matrix with the model's columns.",
    ),
]
Basket = Annotated[
    list[str] | None,
    typer.Option("--basket", metavar="ITEMS", help="Items of a basket, separated by commas. May be repeated."),
]
Count = Annotated[int, typer.Option("--count", "-n", min=1, help="Number of items for each basket.")]
Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="ITEM", help="Item that is not recommended. May be repeated."),
]
IgnoreUnknown = Annotated[
    bool, typer.Option("--ignore-unknown", help="Ignore items that the model does not have, instead of stopping.")
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="File to write, such as .csv or .parquet; needed for DATA."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@opt.with_shared_options()
def recommend(
    model: opt.Model,
    data: Orders = None,
    *,
    basket: Basket = None,
    count: Count = 5,
    exclude: Exclude = None,
    ignore_unknown: IgnoreUnknown = False,
    output: Output = None,
    as_json: Json = False,
    orders: BasketOptions,
    reading: ReadOptions,
) -> None:
    """Recommend items for baskets: those that are most probable beside the items that a basket has.

    The probability of an item is that it is in the basket, given that it has the named items and no others. Its lift
    is this probability over the item's share of all baskets of the fit.

    --basket prints a table. For the baskets of DATA, the file of --output has the columns basket, rank, item,
    probability and lift.
    """
    if (data is None) == (not basket):
        raise DataError("Give either DATA or one or several --basket ITEMS.")
    if data is not None and output is None:
        raise DataError("--output FILE is needed for the baskets of DATA.")
    if output is not None:
        check_table_output(output)
        refuse_overwriting_inputs([output], [model, data])
    saved = open_model(model, data)
    require_estimator(saved, "MarkovField", what="recommends items")
    field = saved.load()
    given: Any = _named_baskets(field, basket or []) if data is None else _read(data, reading, orders)
    try:
        unknown = "ignore" if ignore_unknown else "raise"
        found = _as_polars(field.recommend(given, count, exclude=exclude or (), unknown=unknown))
    except UnknownItemError as error:
        raise UnknownItemError(error.items, "add --ignore-unknown") from error
    if output is not None:
        write_table(found, output)
    if as_json:
        written = {} if output is None else {"output": str(output)}
        show_json({"model": str(model), **written, "recommendations": found.to_dicts()})
        return
    if output is None:
        _show(found, several=len(given) > 1)
        return
    rows = given.shape[0] if hasattr(given, "shape") else len(given)
    show_written(f"Up to {count_of(count, 'item')} for each of {count_of(rows, 'basket')}", output)


def _named_baskets(field: Any, words: list[str]) -> dict[str, list[str]]:
    """Return {text of --basket: its items}; an item of the model may contain commas."""
    known = set(field.field_.schema.input_names)
    return {
        word: [word] if word in known else [part.strip() for part in word.split(",") if part.strip()] for word in words
    }


def _read(data: Path, reading: ReadOptions, baskets: BasketOptions) -> Any:
    check_basket_options(data, baskets)
    if baskets.long is not None:
        return read_orders(data, reading, baskets)
    if not is_matrix(data):
        raise DataError(f"{data}: --long BASKET,ITEM is needed: the columns of the baskets and of their items.")
    from sparsefield.app.tables.matrix_files import read_matrix

    return read_matrix(data)


def _as_polars(frame: Any) -> Any:
    import polars as pl

    return frame if isinstance(frame, pl.DataFrame) else pl.DataFrame(frame)


def _show(found: Any, *, several: bool) -> None:
    table = new_table(*(["basket"] if several else []), "item", "probability", "lift", left=1 + several)
    for row in found.iter_rows(named=True):
        words = [row["basket"], row["item"]] if several else [row["item"]]
        table.add_row(*words, f"{row['probability']:.1%}", f"{row['lift']:.2f}")
    show(table)

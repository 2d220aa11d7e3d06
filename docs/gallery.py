"""This script draws the pictures of docs/gallery.md into docs/images/gallery: ``python docs/gallery.py``.

Pictures whose data are neither in the folder of ``SPARSEFIELD_DATA`` nor can be downloaded are left as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import polars as pl

from sparsefield import MarkovField, RelationalField, plot_network
from sparsefield.app.datasets import load_dataset, load_mixed
from sparsefield.app.pages.network_plot import NetworkPlot

FOLDER = Path(__file__).parent / "images" / "gallery"
TRAITS = {"A": "Agreeableness", "C": "Conscientiousness", "E": "Extraversion", "N": "Neuroticism", "O": "Openness"}


@cache
def _items() -> pl.DataFrame:
    """Return the 25 items of the personality test and the gender of those who answered."""
    table = load_mixed("bfi")
    return table.select(*(name for name in table.columns if name[1:].isdigit()), "gender")


def _traits() -> dict[str, str]:
    return {name: TRAITS[name[0]] for name in _items().columns if name != "gender"}


def _learn_items(rows: pl.DataFrame, l1: float) -> MarkovField:
    items = rows.drop("gender")
    return MarkovField(l1=l1, kinds=dict.fromkeys(items.columns, "ordinal")).fit(items)


@cache
def draw_bfi() -> NetworkPlot:
    """Draw the items of a personality test, colored by the trait that each measures."""
    field = _learn_items(_items(), 60.0)
    return plot_network(field, communities=_traits(), width_mm=150)


def draw_men() -> NetworkPlot:
    """Draw the items as men answered them, at the positions of the network of all."""
    return _draw_gender(1, "Men")


def draw_women() -> NetworkPlot:
    """Draw the items as women answered them, at the positions of the network of all."""
    return _draw_gender(2, "Women")


def _draw_gender(code: int, title: str) -> NetworkPlot:
    field = _learn_items(_items().filter(pl.col("gender") == code), 30.0)
    return plot_network(field,
        title=title, layout=draw_bfi(), communities=_traits(), legend=False, width_mm=100, max_edges=60
    )  # fmt: skip


def draw_chile() -> NetworkPlot:
    """Draw a table of numbers, categories and ordered answers, with the weights of its edges."""
    return plot_network(MarkovField(l1=20.0).fit(load_mixed("Chile")), edge_labels=True, width_mm=130)


def draw_digits() -> NetworkPlot:
    """Draw the pixels of handwritten digits where they are in the picture."""
    from sklearn.datasets import load_digits

    dark = (load_digits().data > 7).astype(int)
    field = MarkovField(l1=20.0).fit(dark)
    places = {f"x{k}": (k % 8, k // 8) for k in range(64)}
    same = dict.fromkeys(places, "pixel")
    return plot_network(
        field, layout=places, communities=same, width_mm=110, height_mm=110, names="inside", max_edges=150
    )


def draw_nations() -> NetworkPlot:
    """Draw the attributes of nations and the relations between them, colored by table."""
    return plot_network(RelationalField(l1=3.0).fit(load_dataset("nations").open_world()), width_mm=180, max_edges=60)


PICTURES: dict[str, Callable[[], NetworkPlot]] = {
    "bfi.svg": draw_bfi,
    "men.svg": draw_men,
    "women.svg": draw_women,
    "chile.svg": draw_chile,
    "digits.svg": draw_digits,
    "nations.svg": draw_nations,
}


def main(folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        try:
            draw().save(folder / name)
        except OSError as error:
            print(f"{folder / name}: the data are not available ({error})", file=sys.stderr)
        else:
            print(folder / name, file=sys.stderr)


if __name__ == "__main__":
    main()

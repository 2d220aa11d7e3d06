"""This module denoises images: a field over linked pixels against filters, and against independent pixels."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from threadpoolctl import threadpool_limits

from benchmarks.command_line import Json, Seed, print_rows
from benchmarks.measure import Report
from sparsefield.app.cli.console import print_message
from sparsefield.data import OffsetLink, Relational, Template
from sparsefield.estimators import RelationalField
from sparsefield.inference import MeanField

__all__ = ["METHODS", "Pictures", "describe", "draw_pictures", "link_pixels", "make_frame", "run_denoising"]

Array = np.ndarray[Any, np.dtype[Any]]
Row = dict[str, Any]

INK = 8
"""Where ink begins, on the data's own scale of 0 to 16."""
AROUND = tuple((dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dy, dx) != (0, 0))
NEIGHBORS = tuple(f"noisy{dy:+d}{dx:+d}" for dy, dx in AROUND)
L1_GRID, L2_GRID = (0.3, 3.0, 30.0), (1.0, 30.0)
DRAWS, SWEEPS = 15, 40
"""Gibbs chains whose last states vote, and how long each runs."""


@dataclass(frozen=True)
class Pictures:
    """Pictures are 0/1 arrays (pictures, height, width), with and without noise."""

    clean: Array
    noisy: Array

    def part(self, first: int, count: int) -> Pictures:
        return Pictures(self.clean[first : first + count], self.noisy[first : first + count])


@dataclass(frozen=True)
class Method:
    """A method is a field over pixels: its covariates, whether pixels are linked, and whether samples vote."""

    title: str
    observed: tuple[str, ...] = ("noisy",)
    linked: bool = True
    draws: bool = False
    inference: str = ""
    """Of the answers, where it is not that of the fit."""
    refit: bool | str = False
    most_scale: int | None = None
    """Largest scale, where the grid would be too wide otherwise."""


METHODS: dict[str, Method | str] = {
    "noisy": "as they are",
    "median": "median of 3 x 3",
    "pixels": Method("pixels on their own", linked=False),
    "grid": Method("grid"),
    "grid-bp": Method("grid, belief propagation", inference="bp"),
    "grid-gibbs": Method("grid, Gibbs draws", draws=True),
    "grid-exact": Method("grid, exact inference", inference="exact", refit=True, most_scale=1),
    "grid-ml": Method("grid, exact likelihood", inference="exact", refit="ml", most_scale=1),
    "pixels-around": Method("pixels that see 3 x 3", ("noisy", *NEIGHBORS), linked=False),
    "grid-around": Method("grid that sees 3 x 3", ("noisy", *NEIGHBORS)),
    "pixels-place": Method("pixels that know their place", ("noisy", "place"), linked=False),
    "grid-place": Method("grid that knows its place", ("noisy", "place")),
}


def run_denoising(
    scales: Sequence[int] = (1, 2),
    rows: int = 400,
    flipped: float = 0.2,
    seed: int = 0,
    methods: Sequence[str] | None = None,
    report: Report = print,
    *,
    validation_rows: int = 100,
    test_rows: int = 300,
    **ours: Any,
) -> list[Row]:
    """Learn from pairs of clean and noisy pictures, then clean pictures of which only the noisy one is known.

    The penalties of each field are chosen on validation pictures, by the share of wrong pixels.

    Parameters
    ----------
    scales : sides of the pictures, in 8 pixels: at 2 every pixel becomes four, and strokes are wider
    rows, validation_rows, test_rows : pictures for training, choosing and scoring, 1,797 in all
    flipped : share of the pixels that noise flips
    seed : of the shuffle and of the noise
    methods : keys of `METHODS`; None runs all
    report : callable
        Called with a line of text after each step.
    **ours
        Options of the fields, such as ``objective="cd"``.

    Returns
    -------
    list of dict
        One per size and method: data, method, status, setting, error (share of wrong pixels), pictures_right (share
        without a wrong pixel), seconds (of the processor, for one fit and the cleaning, on one thread), weights.
    """
    unknown = sorted(set(methods or ()) - set(METHODS))
    if unknown:
        raise ValueError(f"no such method: {', '.join(unknown)}; there are {', '.join(METHODS)}")
    counts, table = (rows, validation_rows, test_rows), []
    for scale in scales:
        name = f"{8 * scale} x {8 * scale}"
        pictures = draw_pictures(flipped, scale=scale, seed=seed)
        parts = [pictures.part(sum(counts[:k]), count) for k, count in enumerate(counts)]
        report(f"{name}: {rows} pictures to learn from, {test_rows} to clean, {flipped:.0%} of pixels flipped")
        for key in methods or METHODS:
            method = METHODS[key]
            if isinstance(method, Method) and scale > (method.most_scale or scale):
                continue
            if isinstance(method, Method):
                row = _field_row(method, parts, ours)
            else:
                row = _filter_row(method, parts[-1], median=key == "median")
            table.append({"data": name, **row})
            report(describe(table[-1]))
    return table


def describe(row: Row) -> str:
    """Return one row of :func:`run_denoising` as a line of text."""
    text = f"  {row['method']}: {row['error']:.4f} of pixels wrong"
    if row["weights"] is None:
        return text
    return f"{text}, {row['seconds']:.2f} s, {row['weights']:,} weights, {row['setting']}"


def draw_pictures(flipped: float, *, scale: int = 1, seed: int = 0) -> Pictures:
    """Return scikit-learn's digits in black and white, enlarged and shuffled, with a share of their pixels flipped."""
    from sklearn.datasets import load_digits

    data: Any = load_digits()
    rng = np.random.default_rng(seed)
    clean = (data.images >= INK).astype(np.int64)[rng.permutation(len(data.images))]
    clean = clean.repeat(scale, axis=1).repeat(scale, axis=2)
    return Pictures(clean, np.where(rng.random(clean.shape) < flipped, 1 - clean, clean))


def make_frame(pictures: Pictures, *, known: bool = True) -> pl.DataFrame:
    """Return a row per pixel: its position, clean (null unless ``known``), noisy, and the noisy pixels around it."""
    which, y, x = np.indices(pictures.noisy.shape)
    height, width = pictures.noisy.shape[1:]
    padded = np.pad(pictures.noisy, ((0, 0), (1, 1), (1, 1)))  # paper goes on beyond the edge
    columns = {"picture": which, "y": y, "x": x, "place": y * width + x, "noisy": pictures.noisy}
    for name, (dy, dx) in zip(NEIGHBORS, AROUND, strict=True):
        columns[name] = padded[:, 1 + dy : 1 + dy + height, 1 + dx : 1 + dx + width]
    frame = pl.DataFrame({name: values.ravel() for name, values in columns.items()})
    clean = pl.Series("clean", pictures.clean.ravel()) if known else pl.lit(None, dtype=pl.Int64).alias("clean")
    return frame.with_columns(clean)


def link_pixels(frame: pl.DataFrame, observed: Sequence[str], *, linked: bool = True) -> Relational:
    """Link pixels to the right and down; features pair a clean pixel with a covariate, or with the next clean pixel."""
    grid = [Template("across", (name,), left=("clean",), right=("clean",)) for name in ("right", "down")]
    return Relational(
        {"pixel": frame.select("picture", "y", "x", "clean", *observed)},
        links={
            "right": OffsetLink("pixel", along="x", within=("picture", "y")),
            "down": OffsetLink("pixel", along="y", within=("picture", "x")),
        },
        observed={"pixel": list(observed)},
        templates=["within pixel", *(grid if linked else [])],
    )


def _filter_row(title: str, test: Pictures, *, median: bool) -> Row:
    from scipy.ndimage import median_filter

    start = time.process_time()
    found = median_filter(test.noisy, size=(1, 3, 3), mode="constant") if median else test.noisy
    seconds = time.process_time() - start
    return _new_row(title) | {"seconds": seconds} | _score(found, test)


def _field_row(method: Method, parts: Sequence[Pictures], options: dict[str, Any]) -> Row:
    train, validation, test = parts
    with threadpool_limits(limits=1):
        errors = []
        for l1, l2 in product(L1_GRID, L2_GRID):
            found = _clean(_fit(method, train, l1, l2, options), method, validation)
            errors.append((_score(found, validation)["error"], l1, l2))
        _, l1, l2 = min(errors)
        start = time.process_time()  # on one thread, so that other work on the machine does not count
        field = _fit(method, train, l1, l2, options)
        found = _clean(field, method, test)
        seconds = time.process_time() - start
    row = _new_row(method.title) | {
        "setting": f"l1 {l1:g}, l2 {l2:g}",
        "weights": len(field.features_) + len(field.biases_),
    }
    return row | {"seconds": seconds} | _score(found, test)


def _fit(method: Method, train: Pictures, l1: float, l2: float, options: dict[str, Any]) -> RelationalField:
    settings = {"inference": MeanField(tolerance=1e-3), "n_jobs": 1, **options}
    kinds = {"pixel": dict.fromkeys(method.observed, "nominal")}
    field = RelationalField(l1=l1, l2=l2, refit=method.refit, kinds=kinds, **settings)
    return field.fit(link_pixels(make_frame(train), method.observed, linked=method.linked))


def _clean(field: RelationalField, method: Method, pictures: Pictures) -> Array:
    asked = link_pixels(make_frame(pictures, known=False), method.observed, linked=method.linked)
    if method.inference:
        field.set_params(inference=method.inference)
    if method.draws:
        drawn = [field.sample(asked, sweeps=SWEEPS, random_state=seed) for seed in range(DRAWS)]
        ink = np.mean([one.tables["pixel"]["clean"].to_numpy() for one in drawn], axis=0) > 0.5
    else:
        ink = field.transform(asked).tables["pixel"]["clean"].to_numpy()
    return np.asarray(ink, dtype=np.int64).reshape(pictures.noisy.shape)


def _score(found: Array, truth: Pictures) -> Row:
    wrong = found != truth.clean
    return {"error": float(wrong.mean()), "pictures_right": float((~wrong).all(axis=(1, 2)).mean())}


def _new_row(title: str) -> Row:
    empty = dict.fromkeys(["error", "pictures_right", "seconds", "weights"])
    return {"method": title, "status": "done", "setting": "", **empty}


def command(
    scale: Annotated[
        list[int] | None,
        typer.Option("--scale", min=1, help="Side in units of 8 pixels; by default 1 and 2."),
    ] = None,
    flipped: Annotated[float, typer.Option("--flipped", help="Share of flipped pixels.")] = 0.2,
    method: Annotated[list[str] | None, typer.Option("--method", help="Only these methods.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Clean pictures of digits: a field over linked pixels beside filters and pixels on their own."""
    found = run_denoising(tuple(scale or (1, 2)), flipped=flipped, seed=seed, methods=method, report=print_message)
    print_rows(found, ("data", "method", "error", "pictures_right", "seconds", "weights", "setting"), as_json)

"""A planted shop: customers, orders, their lines and products, where customers leave by what they bought."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from benchmarks.command_line import Json, Row, Seed, print_rows
from benchmarks.measure import growth, in_child, measure
from sparsefield import Relational, RelationalField
from sparsefield.app.cli.console import show, show_json

__all__ = ["Shop", "draw_shop", "sweep"]

Array = np.ndarray[Any, np.dtype[Any]]

PLANTED = "mean buyer of what"
"""The template of the planted path: customer - order - line - product."""

HIDDEN = 0.2
"""Share of the customers of whom it is not known whether they left."""

DEFAULTS = "within customer", "within order", "within line", "across buyer", "across of", "across what"

L1, SAME_L1 = 0.045, 50_000
"""l1 is this times the square root of the lines; in the sweep in proportion to the lines, and the same at so many."""

SIZES = (20_000, 41_000, 82_000, 165_000, 330_000)
"""Customers of the sweep; the last have 5 x 10^6 links among 10^6 customers, orders and products."""

KINDS, AGES, REGIONS, CHANNELS = 8, 3, 4, 3


@dataclass(frozen=True)
class Shop:
    """Linked tables, and what they hide."""

    data: Relational
    left: Array
    """(customers,): whether they left."""
    chance: Array
    """(customers,): its probability."""
    hidden: Array
    """(customers,): whether the data have a gap there."""

    def log_loss(self, chance: Array) -> float:
        """Return the mean log-loss of probabilities (hidden customers,)."""
        p = np.clip(chance, 1e-12, 1.0 - 1e-12)
        return -float(np.where(self.left[self.hidden] == 1, np.log(p), np.log1p(-p)).mean())


def draw_shop(customers: int, lines: int, seed: int = 0) -> Shop:
    """Draw a shop with three orders for ten lines, and a product for 50 customers.

    The log-odds that a customer left depend on the shares of two kinds of products among all lines of their orders, and
    on their age. Channels depend on regions, quantities on kinds, and baskets on tastes.
    """
    rng = np.random.default_rng(seed)
    n_orders, n_products = 3 * lines // 10, max(customers // 50, 5 * KINDS)
    kind, price = rng.integers(0, KINDS, n_products), rng.normal(size=n_products)
    price += 0.5 * (kind % 3)
    age, region = rng.integers(0, AGES, customers), rng.integers(0, REGIONS, customers)
    buyer = np.concatenate([rng.permutation(customers), rng.integers(0, customers, n_orders)])[:n_orders]
    channel = np.where(rng.random(n_orders) < 0.5, region[buyer] % CHANNELS, rng.integers(0, CHANNELS, n_orders))
    order = np.concatenate([rng.permutation(n_orders), rng.integers(0, n_orders, lines)])[:lines]
    taste = rng.gamma(0.4, size=(customers, KINDS)) + 1e-9
    taste = np.cumsum(taste / taste.sum(axis=1, keepdims=True), axis=1)
    wanted = np.minimum((rng.random(lines)[:, None] > taste[buyer[order]]).sum(axis=1), KINDS - 1)
    by_kind = np.argsort(kind, kind="stable")
    starts = np.searchsorted(kind[by_kind], np.arange(KINDS + 1))
    size = np.diff(starts)[wanted]
    product = by_kind[starts[wanted] + (rng.random(lines) * size).astype(int)]
    quantity = np.minimum(1 + rng.poisson(0.3 + 0.4 * (kind[product] % 2)), 4)
    n_lines = np.maximum(np.bincount(buyer[order], minlength=customers), 1)
    share = [np.bincount(buyer[order], kind[product] == k, customers) / n_lines for k in (0, 1)]
    logit = -1.2 + 3.0 * share[0] - 2.5 * share[1] + 0.6 * (age == 2)
    chance = 1.0 / (1.0 + np.exp(-logit))
    left, hidden = (rng.random(customers) < chance).astype(int), rng.random(customers) < HIDDEN
    ages, regions, channels = (
        np.array(words.split()) for words in ("young middle old", "north east south west", "web shop phone")
    )
    state = [None if gap else int(known) for known, gap in zip(left, hidden, strict=True)]
    customer = {"id": np.arange(customers), "age": ages[age], "region": regions[region], "left": state}
    tables = {
        "customer": pl.DataFrame(customer),
        "order": pl.DataFrame({"id": np.arange(n_orders), "buyer": buyer, "channel": channels[channel]}),
        "line": pl.DataFrame({"order": order, "product": product, "quantity": quantity.astype(str)}),
        "product": pl.DataFrame({"id": np.arange(n_products), "kind": [f"k{k}" for k in kind], "price": price}),
    }
    data = Relational(
        tables,
        keys={"customer": "id", "order": "id", "product": "id"},
        observed={"product": ["kind", "price"]},  # the catalog is known
        links={
            "buyer": ("order", "buyer", "customer"),
            "of": ("line", "order", "order"),
            "what": ("line", "product", "product"),
        },
    )
    return Shop(data, left, chance, hidden)


def join_aggregates(shop: Shop) -> Array:
    """Return what one would join by hand: numbers, shares and means of the orders, lines and products of a customer."""
    tables = shop.data.tables
    lines = (
        tables["line"]
        .join(tables["order"], left_on="order", right_on="id")
        .join(tables["product"], left_on="product", right_on="id")
        .with_columns(pl.col("quantity").cast(pl.Int64))
    )
    kinds = [(pl.col("kind") == f"k{k}").mean().alias(f"kind{k}") for k in range(KINDS)]
    by_line = lines.group_by("buyer").agg(pl.len().alias("lines"), pl.col("quantity", "price").mean(), *kinds)
    channels = [(pl.col("channel") == name).mean().alias(name) for name in ("web", "shop", "phone")]
    by_order = tables["order"].group_by("buyer").agg(pl.len().alias("orders"), *channels)
    flags = tables["customer"].drop("left").to_dummies(["age", "region"])
    joined = flags.join(by_order, left_on="id", right_on="buyer", how="left", maintain_order="left")
    return joined.join(by_line, left_on="id", right_on="buyer", how="left", maintain_order="left").drop("id").to_numpy()


def fit_field(shop: Shop, l1: float, templates: Any, threads: int | None = None, seed: int = 0) -> Row:
    """Fit a field and predict the hidden cells; return what that cost, and how well it did."""
    field = RelationalField(l1=l1, templates=templates, random_state=seed, n_jobs=threads)
    begun = time.process_time()
    cost = measure(lambda: field.fit(shop.data), repeats=1)
    cpu = time.process_time() - begun
    features = field.features_
    begun = time.perf_counter()
    chance = field.infer(shop.data)["customer"].state_probabilities("left")[shop.hidden, 1]
    return {
        "log_loss": shop.log_loss(chance),
        "seconds": round(cost.best, 1),
        "cpu_seconds": round(cpu, 1),
        "infer_seconds": round(time.perf_counter() - begun, 1),
        "total_mb": round(cost.total_bytes / 2**20),
        "steps": field.field_.record.n_iter,
        "features": len(features),
        "converged": field.converged_,
        "found": features.filter(pl.col("template") == PLANTED, pl.col("variable_b") == "kind").height > 0,
        "search": getattr(field, "template_search_", []),
    }


def fit_peer(shop: Shop, method: str) -> Row:
    """Fit gradient boosting or logistic regression to aggregates that are joined by hand."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    boosting = HistGradientBoostingClassifier(max_iter=500, learning_rate=0.05, random_state=0)
    model = boosting if method == "boosting" else make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))

    def fit() -> Any:
        X = np.nan_to_num(join_aggregates(shop))
        return model.fit(X[~shop.hidden], shop.left[~shop.hidden]).predict_proba(X[shop.hidden])[:, 1]

    begun = time.process_time()
    cost = measure(fit, repeats=1)
    return {
        "log_loss": shop.log_loss(cost.result),
        "seconds": round(cost.best, 1),
        "cpu_seconds": round(time.process_time() - begun, 1),
        "total_mb": round(cost.total_bytes / 2**20),
    }


def run_method(method: str, customers: int, lines: int, seed: int, threads: int | None) -> Row:
    """Draw a shop and predict who left, by a field, one of its peers, the true probabilities, or the frequency."""
    size = {"method": method, "customers": customers, "lines": lines}
    if method in ("boosting", "logistic"):
        return size | fit_peer(draw_shop(customers, lines, seed), method)
    if method not in ("auto", "sweep"):
        shop = draw_shop(customers, lines, seed)
        frequency = np.full(int(shop.hidden.sum()), shop.left[~shop.hidden].mean())
        return size | {"log_loss": shop.log_loss(shop.chance[shop.hidden] if method == "truth" else frequency)}
    templates = "auto" if method == "auto" else [*DEFAULTS, PLANTED, "shared what"]
    fit_field(draw_shop(200, 1000), 5.0, templates, threads)  # imports, and kernels that are compiled
    shop = draw_shop(customers, lines, seed)
    l1 = L1 * np.sqrt(lines) if method == "auto" else L1 * lines / np.sqrt(SAME_L1)
    entities = sum(shop.data.sources[table].n_rows for table in shop.data.keys)
    links = sum(len(shop.data.linked_rows(name)[0]) for name in shop.data.links)
    return size | {"entities": entities, "links": links} | fit_field(shop, float(l1), templates, threads, seed)


def sweep(customers: list[int], threads: int | None = None, seed: int = 0) -> tuple[list[Row], float | None]:
    """Return what fits to shops of several sizes cost, seven lines to a customer, and the growth of seconds in links.

    The penalty is in proportion to the rows, so that the fields are about the same.
    """
    rows = [in_child(run_method, "sweep", n, 7 * n, seed, threads) for n in customers]
    return rows, growth([row["links"] for row in rows], [row["cpu_seconds"] for row in rows])


def command(
    customers: Annotated[
        int, typer.Option("--customers", min=100, help="Customers; there are ten lines for each.")
    ] = 100_000,
    sizes: Annotated[
        list[int] | None,
        typer.Option("--sizes", help="Customers of the sweep; by default up to 330,000 in five steps."),
    ] = None,
    threads: Annotated[int | None, typer.Option("--threads", help="By default all cores.")] = None,
    short: Annotated[bool, typer.Option("--short", help="A twentieth of the size.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Predict who leaves a shop over a path of three links, which is to be found, and measure the growth with links."""
    customers = customers // 20 if short else customers
    methods = ("frequency", "logistic", "boosting", "auto", "truth")
    rows = [in_child(run_method, method, customers, 10 * customers, seed, threads) for method in methods]
    costs, exponent = sweep(sizes or [n // 20 if short else n for n in SIZES], threads, seed)
    if as_json:
        show_json({"methods": rows, "sweep": costs, "growth": exponent})
        return
    shown = ("log_loss", "seconds", "cpu_seconds", "infer_seconds", "total_mb", "features", "converged", "found")
    print_rows([{**dict.fromkeys(shown), **row} for row in rows], ("method", *shown))
    for line in rows[3]["search"]:
        show(line)
    show()
    print_rows(costs, ("customers", "entities", "links", "seconds", "cpu_seconds", "total_mb", "steps", "features"))
    show(f"Processor seconds grow with links to the power of {exponent}.")

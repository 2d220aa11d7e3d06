"""Lists of orders and matrices with names, at the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from sparsefield import load, read_baskets

SHARES = {"bread": 0.4, "butter": 0.1, "jam": 0.15, "milk": 0.2, "nuts": 0.1, "tea": 0.25}


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Orders in which butter follows bread and milk follows tea; some lines are doubled, and one has no item."""
    rng = np.random.default_rng(0)
    lines = ["price,order,item"]
    for order in range(150):
        basket = [name for name, share in SHARES.items() if rng.random() < share]
        basket += ["butter"] * ("bread" in basket and rng.random() < 0.6)
        basket += ["milk"] * ("tea" in basket and rng.random() < 0.7)
        lines += [f"1.5,a{order:03d},{name}" for name in basket]
    path = tmp_path / "orders.csv"
    path.write_text("\n".join([*lines, "2.0,a000,"]) + "\n")
    return path


@pytest.fixture
def shop(orders: Path, run) -> Path:
    """The model of the orders."""
    path = orders.parent / "shop.safetensors"
    assert run("fit", orders, "--long", "order,item", "-o", path, "--no-check", "--l1", "3").code == 0
    return path


@pytest.mark.filterwarnings("ignore::sparsefield.errors.LeftOutWarning")
def test_fit_learns_what_the_matrix_of_baskets_says(orders, shop, run) -> None:
    found = run("fit", orders, "--long", "order,item", "-o", shop, "--l1", "3")
    assert found.code == 0
    assert "bread=1 and butter=1 go together" in found.out
    assert "held-out cells" in found.out
    assert "orders.csv: 1 of" in found.err  # the note about the line without an item
    baskets = read_baskets(orders, "order", "item")
    field = load(shop)
    assert field.field_.schema.input_names == baskets.items
    again = load(shop).fit(baskets.matrix, columns=baskets.items)
    assert again.features_.equals(field.features_)


def test_names_of_a_matrix_come_from_a_file(orders, tmp_path, run) -> None:
    with pytest.warns(UserWarning, match="left out"):
        baskets = read_baskets(orders, "order", "item")
    sp.save_npz(tmp_path / "m.npz", baskets.matrix)
    names, output = tmp_path / "names.txt", tmp_path / "m.safetensors"
    names.write_text("\n".join(baskets.items) + "\n")
    fit = ("fit", tmp_path / "m.npz", "-o", output, "--no-check", "--l1", "3", "--columns", names)
    found = run(*fit, "--observed", "bread")
    assert found.code == 0
    assert [one.name for one in load(output).field_.schema.observed] == ["bread"]
    assert "butter=1 and bread=1 go together" in found.out
    names.write_text("bread\nbutter\n")
    run(*fit).one_error("names.txt", "2 names", "6 columns")
    names.write_text("bread\n\nbutter\n")
    run(*fit).one_error("line 2 is empty")


def test_rare_items_are_left_out(orders, tmp_path, run) -> None:
    output = tmp_path / "m.safetensors"
    fit = ("fit", orders, "--long", "order,item", "-o", output, "--no-check", "--l1", "3", "--min-support")
    assert run(*fit, "0.2").code == 0
    assert "nuts" not in load(output).field_.schema.input_names
    run(*fit, "1000").one_error("orders.csv: no item is in 1,000 or more", "--min-support")


def test_items_are_recommended_for_named_baskets(shop, run) -> None:
    found = run("recommend", shop, "--basket", "bread, jam", "-n", "2")
    assert found.code == 0
    expected = load(shop).recommend(["bread", "jam"], 2)
    rows = [line.split() for line in found.out.splitlines() if line.strip()][1:]
    assert [row[0] for row in rows] == expected["item"].to_list()
    assert rows[0] == ["butter", f"{expected['probability'][0]:.1%}", f"{expected['lift'][0]:.2f}"]
    both = run("recommend", shop, "--basket", "bread", "--basket", "tea", "-n", "1", "--exclude", "butter")
    assert [line.split()[0] for line in both.out.splitlines()[1:] if line.strip()] == ["bread", "tea"]
    assert "butter" not in both.out


def test_items_are_recommended_for_the_baskets_of_a_file(shop, orders, tmp_path, run) -> None:
    new, output = tmp_path / "new.csv", tmp_path / "next.csv"
    new.write_text("order,item\nb1,tea\nb2,bread\nb1,jam\n")
    found = run("recommend", shop, new, "--long", "order,item", "-n", "2", "-o", output)
    assert (found.code, found.out) == (0, f"Up to 2 items for each of 2 baskets; wrote {output}.\n")
    table = pl.read_csv(output)
    assert table.columns == ["basket", "rank", "item", "probability", "lift"]
    expected = load(shop).recommend({"b1": ["tea", "jam"], "b2": ["bread"]}, 2)
    assert table.select("basket", "rank", "item").equals(expected.select("basket", "rank", "item"))
    np.testing.assert_allclose(table["probability"], expected["probability"])


def test_other_commands_read_orders(shop, orders, tmp_path, run) -> None:
    long = ("--long", "order,item")
    page = tmp_path / "r.html"
    assert run("report", shop, "--data", orders, *long, "-o", page).code == 0
    assert all(f">{title}<" in page.read_text() for title in ("support", "lift"))
    assert run("stability", shop, orders, *long, "--resamples", "2").code == 0
    assert run("path", orders, *long, "-o", tmp_path / "p.csv", "--selection", "ebic").code == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("fit", "orders.csv", "--long", "order,sku"), ("'sku'", "columns: price, order, item")),
        (("fit", "orders.csv", "--long", "order"), ("names two columns", "order,item")),
        (("fit", "orders.csv", "--long", "order,item", "--numeric", "tea"), ("--numeric",)),
        (("fit", "orders.csv", "--min-support", "2"), ("--min-support", "--long")),
        (("fit", "orders.csv", "--columns", "names.txt"), ("--columns", ".npz")),
        (("fit", "m.npz", "--long", "order,item"), ("--long", "matrix")),
        (("fit", "schema.toml", "--long", "order,item"), ("--long", "linked tables")),
        (("recommend", "shop.safetensors"), ("DATA", "--basket")),
        (("recommend", "shop.safetensors", "--basket", "gin,tea,rum"), ("'gin', 'rum'", "--ignore-unknown")),
        (("recommend", "shop.safetensors", "orders.csv"), ("--long",)),
        (("report", "shop.safetensors", "--long", "order,item"), ("--data",)),
    ],
)
def test_bad_options_are_refused_in_one_line(shop, orders, run, monkeypatch, args, words) -> None:
    monkeypatch.chdir(orders.parent)
    output = {"fit": "m.safetensors", "recommend": "r.csv", "report": "r.html"}[args[0]]
    found = run(*args, "-o", output)
    errors = [line for line in found.err.splitlines() if line.startswith("Error: ")]
    assert (found.code, found.out, len(errors)) == (2, "", 1)
    assert all(word in errors[0] for word in words)


def test_ignored_items_change_nothing(shop, run) -> None:
    plain = run("recommend", shop, "--basket", "tea")
    assert run("recommend", shop, "--basket", "tea,gin", "--ignore-unknown").out == plain.out

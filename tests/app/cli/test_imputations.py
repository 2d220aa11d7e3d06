"""``predict --imputations`` writes several imputed tables in the long form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField, impute, load

QUICK = ("-m", 3)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table as a German program writes it: decimal commas, an identifier, and empty cells."""
    rng = np.random.default_rng(0)
    height = rng.normal(170, 10, 80)
    table = pl.DataFrame(
        {
            "id": [f"p{k:03d}" for k in range(80)],
            "height": [f"{value:.1f}".replace(".", ",") for value in height],
            "team": np.where(height + rng.normal(0, 5, 80) > 170, "ja", "nein"),
            "age": rng.integers(20, 70, 80),
        }
    ).with_columns(
        pl.when(pl.int_range(80) % 5 == k).then(None).otherwise(pl.col(name)).alias(name)
        for k, name in enumerate(("height", "team", "age"))
    )
    path = tmp_path_factory.mktemp("people") / "people.csv"
    table.write_csv(path, separator=";")
    return path


@pytest.fixture(scope="module")
def model(people: Path) -> Path:
    table = pl.read_csv(people, separator=";", decimal_comma=True).drop("id")
    path = people.with_name("model.sfm")
    MarkovField(l1=5.0).fit(table).save(path)
    return path


def test_the_output_has_all_imputed_tables_spelled_as_the_input(run, people: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "imputed.csv"
    done = run("predict", model, people, *QUICK, "-o", out).ok()
    assert done.err.count("is read as") == 1
    assert done.out == f"48 missing values in 3 columns and 80 rows, imputed 3 times.\nWrote {out}.\n"
    given = pl.read_csv(people, separator=";", infer_schema=False)
    found = pl.read_csv(out, separator=";", infer_schema=False)
    assert found.columns == ["imputation", "row", *given.columns]
    assert found["imputation"].to_list() == [k for k in "123" for _ in range(80)]
    assert found["row"].to_list() == 3 * [str(k) for k in range(1, 81)]
    for part in found.partition_by("imputation"):
        assert part.null_count().sum_horizontal()[0] == 0
        for name in given.columns:
            known = given[name].is_not_null()
            assert part[name].filter(known).to_list() == given[name].filter(known).to_list()
    assert found["height"].str.contains(r"^\d+,\d$").all()
    drawn = impute(load(model), pl.read_csv(people, separator=";", decimal_comma=True).drop("id"), 3)
    assert [int(value) for value in found["age"]] == drawn.to_frame()["age"].to_list()


def test_parquet_has_types(run, people: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "imputed.parquet"
    run("predict", model, people, *QUICK, "-o", out).ok()
    found = pl.read_parquet(out)
    assert found["height"].null_count() == 0
    assert (found["imputation"].dtype, found["height"].dtype, found["age"].dtype) == (pl.Int64, pl.Float64, pl.Int64)


def test_new_rows_need_the_table_of_the_fit(run, people: Path, model: Path, tmp_path: Path) -> None:
    few, out = tmp_path / "few.csv", tmp_path / "o.csv"
    few.write_text("\n".join(people.read_text(encoding="utf-8").splitlines()[:6]) + "\n")
    refused = run("predict", model, few, *QUICK, "-o", out)
    assert refused.code == 2
    assert "with new rows below it" in refused.err


def test_tables_that_cannot_be_imputed_are_refused(run, people: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.csv"
    full, clash = tmp_path / "full.csv", tmp_path / "clash.csv"
    full.write_text("height,team,age\n170.5,ja,30\n160.5,nein,40\n")
    run("predict", model, full, *QUICK, "-o", out).one_error(str(full), "no missing values")
    clash.write_text("row,height,team,age\n1,170.5,,30\n")
    run("predict", model, clash, *QUICK, "-o", out).one_error("'row'", "rename")
    run("predict", model, people, *QUICK, "--proba", "-o", out).one_error("--imputations draws")
    run("predict", model, people, "-m", 1, "-o", out).one_error("--imputations")
    run("predict", model, people, *QUICK, "-o", people).one_error("write to another file")

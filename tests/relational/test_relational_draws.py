"""Draws over links have the joint distribution of all cells, and are the same for a seed and any number of threads."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
from relational_oracle import ends_counted, layout_of, problem_of, random_field
from scipy.stats import chi2
from villages import relational, village

from sparsefield import RelationalField
from sparsefield.data import NEIGHBOR_COUNT


def copies(rows: dict[str, list[dict]], count: int) -> dict[str, list[dict]]:
    """A tiny village many times over, each with keys of its own."""
    keys = {"id", "home", "best", "name", "owner", "sender", "receiver", "who", "whom"}
    return {
        name: [
            {
                column: f"{value}/{k}"
                if column in keys and value is not None
                else value + 100 * k
                if column in ("rank", "bag")
                else value
                for column, value in row.items()
            }
            for k in range(count)
            for row in table
        ]
        for name, table in rows.items()
    }


def test_draws_over_links_have_the_frequencies_of_the_joint_distribution() -> None:
    """Copies of one village are independent of each other, so each is a draw; all are one chain of linked rows."""
    seed = 0
    _, rows = village(seed, missing=0.0, persons=2, letters=2, loose=0.0)
    for row in rows["letter"]:
        row.update(sender="p0", receiver="p1")
    rows["letter"][1].update(sender="p1", receiver="p0", bag=rows["letter"][0]["bag"])
    for k, row in enumerate(rows["person"]):
        row.update(mood=["glad", "sad"][k], smokes=k, best=f"p{1 - k}", home="hill", rank=k)
    rows["letter"][0]["kind"], rows["letter"][1]["kind"] = "bill", "love"
    counted = ends_counted("every", relational(rows), rows)
    layout = layout_of(relational(rows), counted=counted)
    hidden = [("person", 0, "smokes"), ("person", 1, "smokes"), ("person", 1, "mood"), ("letter", 0, "kind")]
    for table, i, column in hidden:
        rows[table][i][column] = None
    problem = problem_of(relational(rows), rows, seed, size=0.5, layout=layout, counted=counted)
    assert any(NEIGHBOR_COUNT in (name[1][1], name[2][1]) for name in problem.slow.weights)
    exact = problem.slow.joint(hidden)
    many, count = copies(rows, 4000), 4000
    estimator = RelationalField(l1=2.0, n_jobs=1)
    estimator.field_, estimator.kind_ = problem.field, "polars"
    drawn = estimator.sample(relational(many), sweeps=40, random_state=7)
    columns = [drawn.tables[table][column].to_list()[i :: len(rows[table])] for table, i, column in hidden]
    found = Counter(zip(*columns, strict=True))
    assert sum(found.values()) == count
    assert set(found) <= set(exact)
    assert min(exact.values()) * count > 5  # else the statistic has another distribution
    statistic = sum((found[way] - count * p) ** 2 / (count * p) for way, p in exact.items())
    limit = chi2.ppf(0.999, len(exact) - 1)
    assert statistic < limit
    # The test has teeth: independent cells would not pass it.
    single = problem.slow.marginals(hidden)
    alone = {way: np.prod([single[c][s] for c, s in zip(hidden, way, strict=True)]) for way in exact}
    assert sum((found[way] - count * p) ** 2 / (count * p) for way, p in alone.items()) > limit


def test_draws_are_the_same_for_a_seed_and_on_any_number_of_threads() -> None:
    data, rows = village(4, missing=0.4, persons=300, letters=400)
    layout = layout_of(data, counted=ends_counted("every", data, rows))
    field = random_field(layout, np.random.default_rng(4), size=0.2)
    drawn = []
    for n_jobs, seed in ((1, 5), (2, 5), (1, 6)):
        estimator = RelationalField(l1=2.0, n_jobs=n_jobs)
        estimator.field_, estimator.kind_ = field, "polars"
        drawn.append(estimator.sample(data, sweeps=5, random_state=seed))
    for name in data.tables:
        assert drawn[0].tables[name].equals(drawn[1].tables[name])
    assert not drawn[0].tables["person"].equals(drawn[2].tables["person"])
    seen = pl.DataFrame(rows["person"], infer_schema_length=None)["mood"]
    assert drawn[0].tables["person"]["mood"].null_count() == 0
    assert (drawn[0].tables["person"]["mood"].filter(seen.is_not_null()) == seen.drop_nulls()).all()

"""This module writes the result of `run_table1` as files: a line per method, every fold, and a picture."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.charts import save_figure
from benchmarks.csv_text import as_csv
from reproduction.cited import CANDIDATES, CITED, LAO_ZHU, Cited
from reproduction.plots import DotBoard, DotLine, Mark, draw_dots
from reproduction.table1 import DATA, PAPER, Row, Table1
from sparsefield.atomic_write import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["as_json", "draw_table", "records", "write_files"]

SCORES = ("ap", "ap_positive", "cll", "error_rate")
COSTS = ("seconds", "induced", "active")
PANELS = {"ap": "AP, all states", "ap_positive": "AP, true state alone", "cll": "CLL"}
Record = dict[str, Any]


def write_files(found: Table1, folder: Path) -> list[Path]:
    """Write table1.csv, table1.json and table1.svg, each atomically; return the files."""
    contents = {"table1.csv": as_csv(records(found)), "table1.json": as_json(found)}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        write_atomically(folder / name, content.encode("utf-8"))
    save_figure(draw_table(found), folder / "table1.svg")
    return [folder / name for name in (*contents, "table1.svg")]


def records(found: Table1) -> list[Record]:
    """Return a flat record per line of the table: for each data set the cited ones, then the measured ones."""
    lines = []
    for data in found.candidates:
        lines += [_cited_record(cited) for cited in CITED if cited.data == data]
        lines += [_measured_record(row) for row in found.rows if row.data == data]
    return lines


def as_json(found: Table1) -> str:
    """Return `records` with every fold, the paired tests, the counts of candidates and the paper's setting."""
    measured = iter(found.rows)
    rows = []
    for record in records(found):
        row = next(measured) if record["origin"] == "measured" else None
        more = {"picks": list(row.picks), "folds": [asdict(fold) for fold in row.evaluation.folds]} if row else {}
        rows.append({**record, **more})
    tests = [
        {
            **{name: getattr(one, name) for name in ("data", "setting", "objective", "first", "second", "measure")},
            **asdict(one.test),
            "verdict": one.verdict,
            "claim": one.claim,
        }
        for one in found.comparisons
    ]
    counts = {
        name: {**asdict(count), "total": count.total, "paper": CANDIDATES[name]}
        for name, count in found.candidates.items()
    }
    document = {
        "folds": found.folds,
        "seed": found.seed,
        "paper_setting": {**PAPER, "l1": {name: DATA[name].l1 for name in found.candidates}},
        "candidates": counts,
        "rows": rows,
        "tests": tests,
    }
    return json.dumps(_finite(document), indent=2, allow_nan=False) + "\n"


def draw_table(found: Table1) -> Figure:
    """Draw all lines of the table as dots with whiskers."""
    boards = []
    for data in found.candidates:
        lines = [_cited_line(cited) for cited in CITED if cited.data == data]
        lines += _measured_lines([row for row in found.rows if row.data == data])
        guide = next(cited for cited in CITED if (cited.data, cited.source, cited.method) == (data, LAO_ZHU, "CFI"))
        references = {measure: pair[0] for measure in ("ap", "cll") if (pair := getattr(guide, measure))}
        boards.append(DotBoard(f"{DATA[data].title}: {found.folds} folds over cells", lines, references))
    subtitle = "right is better; whiskers: one standard deviation over folds; dotted: CFI in the paper"
    return draw_dots("Predictions of held-out cells", boards, PANELS, subtitle=subtitle)


def _cited_record(cited: Cited) -> Record:
    record: Record = {
        "data": cited.data, "origin": "cited", "source": cited.source, "setting": "", "method": cited.method,
        "objective": "",
    }  # fmt: skip
    for name in SCORES:
        record[name], record[f"{name}_sd"] = getattr(cited, name) or (None, None)
    for name in COSTS:
        record[name] = record[f"{name}_sd"] = None
    return {**record, "cited_time": cited.time}


def _measured_record(row: Row) -> Record:
    record: Record = {
        "data": row.data, "origin": "measured", "source": "this run", "setting": row.setting.label,
        "method": row.method, "objective": row.objective,
    }  # fmt: skip
    for name in (*SCORES, *COSTS):
        spread = row.evaluation.spread(name)
        record[name], record[f"{name}_sd"] = spread.mean, spread.sd
    return {**record, "cited_time": ""}


def _cited_line(cited: Cited) -> DotLine:
    kind = "paper" if cited.source == LAO_ZHU else "peer"
    marks = {
        name: (Mark(pair[0], pair[1], kind),) for name in ("ap", "ap_positive", "cll") if (pair := getattr(cited, name))
    }
    return DotLine(f"{cited.method}, {'paper' if kind == 'paper' else 'cited'}", marks)


def _measured_lines(rows: list[Row]) -> Iterator[DotLine]:
    """Return a line per method and setting, with a mark for each objective."""
    for key in dict.fromkeys((row.setting.label, row.method) for row in rows):
        same = [row for row in rows if (row.setting.label, row.method) == key]
        marks = {
            name: tuple(
                Mark(row.evaluation.spread(name).mean, row.evaluation.spread(name).sd, row.objective) for row in same
            )
            for name in ("ap", "ap_positive", "cll")
        }
        yield DotLine(f"{key[1]}, {key[0]}", marks)


def _finite(value: Any) -> Any:
    """Return a value in which numbers that JSON does not have are None."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, (list, tuple)) else value

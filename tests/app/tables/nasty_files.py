"""Make a folder of nasty but realistic files: tables as people have them, and files that are no tables."""

from __future__ import annotations

import bz2
import datetime
import gzip
import io
import lzma
import sqlite3
import zipfile
from pathlib import Path

import polars as pl

ROWS = [("Zoë", 1, 3.25, "ja"), ("Jürgen", 2, 0.5, "nein"), ("Anaïs", 3, 10.75, None)]
NAMES = ("name", "rank", "größe", "answer")
"""The table that all readable files hold."""

GERMAN = "name;rank;größe;answer\nZoë;1;3,25;ja\nJürgen;2;0,5;nein\nAnaïs;3;10,75;NA\n"
PLAIN = "name,rank,größe,answer\nZoë,1,3.25,ja\nJürgen,2,0.5,nein\nAnaïs,3,10.75,\n"
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n"
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
PAGE = b"<!DOCTYPE html>\n<html><body><table><tr><td>1</td></tr></table></body></html>\n"


def table() -> pl.DataFrame:
    return pl.DataFrame(ROWS, schema=NAMES, orient="row")


def readable_texts() -> dict[str, bytes]:
    """Return {file: content} of text files that hold the table."""
    return {
        "plain.csv": PLAIN.encode(),
        "excel-utf8.csv": b"\xef\xbb\xbf" + PLAIN.replace("\n", "\r\n").encode(),
        "german.csv": GERMAN.encode("cp1252"),
        "german-dos.csv": GERMAN.replace("\n", "\r\n").encode("cp850"),
        "unicode-text.txt": GERMAN.replace(";", "\t").encode("utf-16"),
        "big-endian.txt": b"\xfe\xff" + PLAIN.encode("utf-16-be"),
        "old-mac.csv": PLAIN.replace("\n", "\r").encode(),
        "bars.txt": PLAIN.replace(",", "|").encode(),
        "tabs.csv": PLAIN.replace(",", "\t").encode(),
        "commas.tsv": PLAIN.encode(),
        "quoted.csv": "\n".join('"' + '","'.join(line.split(",")) + '"' for line in PLAIN.splitlines()).encode(),
        "excel-sep.csv": b"sep=;\r\n" + GERMAN.replace("\n", "\r\n").encode("cp1252"),
        "spaces.csv": "name, rank, größe,answer\nZoë , 1,3.25, ja\nJürgen, 2, 0.5,nein\nAnaïs,3,10.75, NA \n".encode(),
        "blank-lines.csv": b"\n" + PLAIN.replace("\nJ", "\n\nJ").encode() + b"\n\n\n",
        "no-last-newline.csv": PLAIN.rstrip("\n").encode(),
        "called.xlsx": PLAIN.encode(),
        "packed.csv.gz": gzip.compress(PLAIN.encode()),
        "packed.csv.bz2": bz2.compress(GERMAN.encode("cp1252")),
        "packed.csv.xz": lzma.compress(PLAIN.encode()),
    }


def write_typed_files(folder: Path) -> list[str]:
    """Write the table as files whose columns have types, and return their names."""
    frame = table()
    frame.write_parquet(folder / "table.parquet")
    frame.write_parquet(folder / "parquet-called.csv")
    frame.write_ipc(folder / "table.feather")
    frame.write_ndjson(folder / "table.jsonl")
    with sqlite3.connect(folder / "table.sqlite") as connection:
        connection.execute('CREATE TABLE people (name TEXT, rank INTEGER, "größe" REAL, answer TEXT)')
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", ROWS)
    connection.close()
    frame.write_excel(folder / "table.xlsx")
    return ["table.parquet", "parquet-called.csv", "table.feather", "table.jsonl", "table.sqlite", "table.xlsx"]


def write_statistical_files(folder: Path) -> None:
    """Write a survey with labels, user-missing values and dates as files of SPSS, Stata and SAS."""
    import pandas as pd
    import pyreadstat

    days = [datetime.date(2020, 1, day) for day in (1, 2, 3, 4)]
    survey = pd.DataFrame(
        {
            "trust": [1.0, 2.0, 3.0, 9.0],
            "city": ["Ulm", "", "Bonn", "Ulm"],
            "day": days,
            "age": [30.0, 41.5, None, 20.0],
        }
    )
    labels = {"trust": {1: "low", 2: "medium", 3: "high", 9: "refused"}, "age": {99: "unknown"}}
    missing, measure = {"trust": [9]}, {"trust": "ordinal"}
    pyreadstat.write_sav(
        survey, folder / "survey.sav", variable_value_labels=labels, missing_ranges=missing, variable_measure=measure
    )
    pyreadstat.write_dta(survey, folder / "survey.dta", variable_value_labels={"trust": labels["trust"]})
    pyreadstat.write_xport(survey, folder / "survey.xpt")


def refused() -> dict[str, tuple[bytes, str]]:
    """Return {file: (content, words of the message)} of files that hold no table."""
    archive, arrays = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.csv", "a,b\n1,2\n")
    with zipfile.ZipFile(arrays, "w") as file:
        file.writestr("data.npy", b"\x93NUMPY")
    ragged = "a,b,c\n" + "1,2,3\n" * 4 + "1,2\n1,2,3,4\n" + "1,2,3\n" * 3 + "1\n1,2\n"
    return {
        "paper.csv": (PDF, "no table that can be read"),
        "page.csv": (PAGE, "no table that can be read"),
        "page.xls": (b"\xef\xbb\xbf  <html><table>", "no table that can be read"),
        "picture.csv": (PNG, "no table that can be read"),
        "packed.csv.zst": (b"\x28\xb5\x2f\xfda,b\n1,2\n", "unpack it"),
        "packed.csv.lz4": (b"\x04\x22\x4d\x18a,b\n1,2\n", "unpack it"),
        "folder.zip": (archive.getvalue(), "no table that can be read"),
        "arrays.dat": (arrays.getvalue(), "no table that can be read"),
        "list.json": (b'[{"a": 1}, {"a": 2}]', "one JSON object per line"),
        "pretty.json": (b'{\n  "a": [1, 2]\n}', "one JSON object per line"),
        "nested.jsonl": (b'{"a": 1, "b": {"c": 2}}\n{"a": 2, "b": {"c": 3}}\n', "columns: b"),
        "objects.pkl": (b"\x80\x04\x95\x10\x00\x00\x00", "no table that can be read"),
        "objects.RData": (gzip.compress(b"RDX3\nX\n\x00\x00"), "has a NUL byte"),
        "noise.csv": (bytes(range(256)) * 20, "is not text in"),
        "nul.csv": (b"a,b\n1,2\n3,\x00\n" + b"5,6\n" * 200, "line 3 has a NUL byte"),
        "empty.csv": (b"", "the file is empty"),
        "blank.csv": (b" \n\n", "the file is empty"),
        "only_a_mark.csv": (b"\xef\xbb\xbf\n", "the file is empty"),
        "only_a_separator.csv": (b"sep=;\n\n", "the file is empty"),
        "only-header.csv": (b"a,b\n", "no rows"),
        "ragged.csv": (ragged.encode(), "line 6 has 2, line 7 has 4, line 11 has 1 and 1 more"),
        "row-names.csv": (b'"a","b"\n"1",2,3\n"2",3,4\n', "of files of R"),
        "open-quote.csv": (b'a,b\n1,"2\n' + b"3,4\n" * 80, "opens in line 2 is never closed"),
        "mixed-encoding.csv": (("a,b\n" + "ü,ö\n" * 9).encode() + b"caf\xe9,1\n", "line 11 is not UTF-8"),
        "cut.parquet": (b"PAR1\x15\x04", "cannot be read"),
        "cut.csv.gz": (gzip.compress(PLAIN.encode())[:-12], "damaged"),
        "cut.sav": (b"$FL2@(#) SPSS DATA FILE", "cannot be read"),
        "cut.xlsx": (b"PK\x03\x04broken", "no table that can be read"),
    }

"""Public datasets, read from a local folder, or downloaded once, verified and cached."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from sparsefield.data.relational import Relational
from sparsefield.errors import DataError

Array = np.ndarray[Any, np.dtype[Any]]

FOLDER_VARIABLE = "SPARSEFIELD_DATA"
_REMEDY = f"put the data in a folder and set {FOLDER_VARIABLE} to it"
ENDS = ["subject", "object"]
SPLITS = ("train", "valid", "test")
SPLIT_TABLES, MIXED_TABLES = ("nltcs", "plants", "dna"), ("bfi", "Chile", "survey")
DATASETS = ("animals", "nations", *SPLIT_TABLES)
GITHUB = "https://raw.githubusercontent.com"
SPLITS_URL = f"{GITHUB}/arranger1044/DEBD/master/datasets/{{name}}/{{name}}.{{split}}.data"
MIXED_URL = f"{GITHUB}/vincentarelbundock/Rdatasets/1dcc2bf5f955cc1224a3e1307256e1fe86b68dae/csv"
ASSETS_URL = f"{GITHUB}/probcomp/hierarchical-irm/master/cxx/assets/{{name}}.unary.obs"
# SHA256 of the files at commit b846860 (animals, nations) and 8509086 (splits) of the repositories.
HASHES = {
    "animals.unary.obs": "c8089b8dba2ce82db4535d73f7b99f4a2445433428bafb8132c4bdb8e94da75c",
    "nations.unary.obs": "f381229557c8a78601075241d9cdebece7261576f79b63bdfaa6d07f12306d98",
    "nltcs.train.data": "e547a7aedad1dd2f7177030881ab1b92c7e24ae5464c71a0f1f89daecaf52b30",
    "nltcs.valid.data": "93bbbf5c6febdc9bc6e5b5bfab636f4dc0685ab2896d24b23dd267794c3bfcf6",
    "nltcs.test.data": "f9ffa6b74b27dc03bee3203d157ee31079e80b13be40d0c0093d635c25aed523",
    "plants.train.data": "1fb1219ff94068d12a563f9e81f8889a1885f41e867884cff608669300c6848f",
    "plants.valid.data": "47834ed318b2d74f48e4b083226ef47fd446d41986012ceae19d230574821b34",
    "plants.test.data": "95f53c033cd1d86467aec2610dc5bfe014534206c2da4919f73bcab246ab8755",
    "dna.train.data": "bb8de0ca4b6ad9b610036b7a302962ebecd4b504354b14c02c7d0bee48d207d9",
    "dna.valid.data": "4b0fc89cda5eaf5c75926e281afb6af99de194a546070d5b81b524ba251f4f3f",
    "dna.test.data": "fec3ae7b26804020a9c43c99828441c5e08bb76b23719368a74ad2b09af99100",
    "bfi.csv": "68ae71a96c2157b0c49b8d8f8ccaee1292f5e92adce9a3f202fdc7efac883dc9",
    "Chile.csv": "2f825754d58d18414f97ba8190c37b3bd9d2de1983d04bfa106e03327abd7e70",
    "survey.csv": "83a07639ec2bf521cf67c6b377cb6f77eb9467b15969356db44466476a09f766",
}


class Animals(NamedTuple):
    """The Animals dataset: 50 animals and 85 attributes."""

    frame: pl.DataFrame
    """(50, 85): one 0/1 column per attribute, in alphabetical order."""
    names: tuple[str, ...]
    """The animals, one per row, in alphabetical order."""


class Splits(NamedTuple):
    """A table of 0/1 columns with a fixed split: arrays (rows, columns) of int8."""

    train: Array
    valid: Array
    test: Array


@dataclass(frozen=True)
class Nations:
    """The Nations dataset: 14 nations, their attributes, and the relations between them."""

    nations: pl.DataFrame
    """(14, 112): the key ``nation``, and one 0/1 column per attribute; null where it is unknown."""
    relations: pl.DataFrame
    """(182, 58): ``subject`` and ``object``, two different nations, and one 0/1 column per relation; null where it is
    unknown."""

    def open_world(self) -> Relational:
        """Return the tables ``nation`` and ``pair`` of 182 ordered pairs, where unknown cells are missing."""
        links = {end: ("pair", end, "nation") for end in ENDS}
        return Relational({"nation": self.nations, "pair": self.relations}, keys={"nation": "nation"}, links=links)

    def closed_world(self) -> Relational:
        """Return the tables ``nation`` and ``pair`` of all 196 ordered pairs, where unknown cells are false.

        Pairs of a nation with itself are included; these are the 12,530 ground atoms that are usual for this dataset.
        """
        names = self.nations.select(subject="nation")
        pairs = names.join(names.select(object="subject"), how="cross").sort("subject", "object")
        known = pairs.join(self.relations, on=ENDS, how="left", maintain_order="left")
        nations = self.nations.with_columns(pl.exclude("nation").fill_null(0))
        return Nations(nations, known.with_columns(pl.exclude(ENDS).fill_null(0))).open_world()


def load_dataset(name: str) -> Any:
    """Load a public dataset: `Animals` for "animals", `Nations` for "nations", `Splits` for "nltcs", "plants", "dna".

    Files are read from the folder named by the environment variable ``SPARSEFIELD_DATA`` (``animals.csv``;
    ``nations.csv`` and ``nations_relations.csv``; ``debd/NAME/train.csv``, ``valid.csv`` and ``test.csv``) if they
    exist. Otherwise they are downloaded, verified by checksum, and kept in the user's cache.
    """
    if name not in DATASETS:
        raise DataError(f"no dataset called {name!r}; choose from {', '.join(DATASETS)}")
    if name in SPLIT_TABLES:
        urls = {f"debd/{name}/{split}.csv": SPLITS_URL.format(name=name, split=split) for split in SPLITS}
        return Splits(*(_read_bits(_local_file(path) or _download(url)) for path, url in urls.items()))
    files = [_local_file(f"{name}.csv"), *([_local_file("nations_relations.csv")] if name == "nations" else [])]
    if None in files:
        files = [_download(ASSETS_URL.format(name=name))] * 2
        tables = _read_lines(files[0], name[:-1])
    else:
        tables = [pl.read_csv(file) for file in files if file is not None]
    flags = _flags(files[0], tables[0], name[:-1])
    if name == "animals":
        return Animals(flags.drop("animal"), tuple(flags["animal"]))
    return Nations(flags, _flags(files[1], tables[1], *ENDS))


def load_mixed(name: str) -> pl.DataFrame:
    """Load a public table with text, numbers and missing values.

    "bfi" has the answers of 2,800 people to 25 items of a personality test, "Chile" an opinion poll of 2,700 people
    before a plebiscite, "survey" measurements and habits of 237 students. Files are found as by `load_dataset`, in
    ``mixed/NAME.csv``.
    """
    if name not in MIXED_TABLES:
        raise DataError(f"no table called {name!r}; choose from {', '.join(MIXED_TABLES)}")
    package = {"bfi": "psych", "Chile": "carData", "survey": "MASS"}[name]
    path = _local_file(f"mixed/{name}.csv") or _download(f"{MIXED_URL}/{package}/{name}.csv")
    return pl.read_csv(path, null_values=["NA", ""]).drop("rownames", strict=False)


def data_folder() -> Path | None:
    """Return the folder named by ``SPARSEFIELD_DATA``, or None if the variable is not set."""
    named = os.environ.get(FOLDER_VARIABLE, "")
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DataError(f"{FOLDER_VARIABLE} names '{folder}', which is not a folder")
    return folder


def _local_file(path: str) -> Path | None:
    folder = data_folder()
    return folder / path if folder is not None and (folder / path).is_file() else None


def _download(url: str) -> Path:
    import pooch

    name = url.rsplit("/", 1)[-1]  # by default pooch adds a hash of the URL
    try:
        return Path(pooch.retrieve(url, f"sha256:{HASHES[name]}", fname=name, path=pooch.os_cache("sparsefield")))
    except OSError as error:
        raise DataError(f"{url} cannot be reached; {_REMEDY}") from error
    except ValueError as error:  # raised by pooch for a wrong checksum
        raise DataError(f"the file at {url} is not the expected one, its checksum differs; {_REMEDY}") from error


def _read_bits(path: Path) -> Array:
    bits = np.loadtxt(path, delimiter=",", dtype=np.int8, ndmin=2)
    if bits.size == 0 or np.setdiff1d(bits, [0, 1]).size:
        raise DataError(f"'{path}' has cells other than 0 and 1, or none at all")
    return bits


def _flags(path: Path | None, table: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Return 0/1 columns sorted by name, and rows sorted by key."""
    names = sorted(name for name in table.columns if name not in keys)
    flags = table.sort(keys).select(*keys, *(pl.col(name).cast(pl.Int8) for name in names))
    if any(not flags[name].drop_nulls().is_in([0, 1]).all() for name in names):
        raise DataError(f"'{path}' has cells other than 0 and 1")
    return flags


def _read_lines(path: Path, entity: str) -> list[pl.DataFrame]:
    """Return tables of lines ``value,attribute,entity`` and ``value,relation,subject,object``, one per known cell."""
    rows = [[*line.split(","), None][:4] for line in path.read_text(encoding="utf-8").splitlines() if line]
    lines = pl.DataFrame(rows, schema=["value", "name", *ENDS], orient="row")
    unary, binary = (lines.filter(known) for known in (pl.col("object").is_null(), pl.col("object").is_not_null()))
    unary = unary.drop("object").rename({"subject": entity})
    return [unary.pivot("name", index=entity, values="value"), binary.pivot("name", index=ENDS, values="value")]

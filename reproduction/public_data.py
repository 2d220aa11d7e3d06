"""Public datasets, read from a local folder, or downloaded once, verified and cached."""

from __future__ import annotations

import hashlib
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
MIXED_TABLES = ("bfi", "Chile", "survey")
GITHUB = "https://raw.githubusercontent.com"
SPLITS_URL = (
    f"{GITHUB}/arranger1044/DEBD/850908666388f1b1c766a304b37dae14613f1e51/datasets/{{name}}/{{name}}.{{split}}.data"
)
MIXED_URL = f"{GITHUB}/vincentarelbundock/Rdatasets/1dcc2bf5f955cc1224a3e1307256e1fe86b68dae/csv"
ASSETS_URL = f"{GITHUB}/probcomp/hierarchical-irm/master/cxx/assets/{{name}}.unary.obs"
# SHA256 of the files, at commit b846860 for animals and nations.
HASHES = {
    "animals.unary.obs": "c8089b8dba2ce82db4535d73f7b99f4a2445433428bafb8132c4bdb8e94da75c",
    "nations.unary.obs": "f381229557c8a78601075241d9cdebece7261576f79b63bdfaa6d07f12306d98",
    "bfi.csv": "68ae71a96c2157b0c49b8d8f8ccaee1292f5e92adce9a3f202fdc7efac883dc9",
    "Chile.csv": "2f825754d58d18414f97ba8190c37b3bd9d2de1983d04bfa106e03327abd7e70",
    "survey.csv": "83a07639ec2bf521cf67c6b377cb6f77eb9467b15969356db44466476a09f766",
}
# The 20 binary tables of the density literature, and the ids that git gives their three files at that commit.
SPLIT_TABLES = {
    "nltcs": (
        "8c47cc2d814ec699f6d509d4a77dd10ffa2f8a33",
        "717b851a5d543747dd0e7eab65af54b01ecb52ff",
        "127d1f67947bf06d872b2a6c5178374727df8233",
    ),
    "msnbc": (
        "db2f5c53ef25794a0f14180d388538a62cfec39e",
        "c1feb3683cd12e8c589adb71c34639c9af562b36",
        "49fd68acfdb4772356bcba14a6e0a2470d641d7a",
    ),
    "kdd": (
        "09af7e69c90a2e3bcff23f794ecb141f189c4671",
        "177900b0f28fc85c9fabe1369223af846ab36887",
        "087a5804bac832459e4221b0e8663039d1b5ee69",
    ),
    "plants": (
        "3e6263dd8dc8ea93d37db22b05334b0a9b862f29",
        "1a4fe9824e52a573ff7386786caf765f804cdf19",
        "e1e04c157a53499fc94c67279cc98963ab38c156",
    ),
    "baudio": (
        "53b36fd25aab0415e83d7d0b68979404b11a0eb0",
        "049656e05dec8a816429a2fb250b5ed1f7168eae",
        "3e07f701215c85bd4368828074567218c8e1ab9b",
    ),
    "jester": (
        "bfb2d367627f73eccea33606e8f0633970d7a59a",
        "48e7a863427503785fe8509c7261cb821cee6c68",
        "cb8e29d787084cf9d511355fbc9ac747ca2860ec",
    ),
    "bnetflix": (
        "606d88a4cde4259f0f88f803c8f19a6452ee6137",
        "404b00dcc9a8907cd50b3872d5944a5bc5870a65",
        "f6cacdc6cf931a2b5ab6ac95179645fe4cb9380c",
    ),
    "accidents": (
        "cefacb1816aec82768b2786006b3999d008def9f",
        "e7ac288dfa26a82b3dcf75ebe0812be98672d459",
        "25ff1e5d35f133d0f28f1b511c62b58761e9ca68",
    ),
    "tretail": (
        "52c82ac6a4c9c9a301bcc461335aac0f14c6d682",
        "82682d4997829b5d991e56770fd6a6f447553d8b",
        "c785a1a267b5708123abd24bbd9792be2a4ba7e1",
    ),
    "pumsb_star": (
        "eca57d4a6cdc40abab4114af140729006633de75",
        "91be6ddbef7e241f9cefcb1ae3e3ffabf3044b07",
        "4fef8f225876bd9aa1c97386af884d5e4505350b",
    ),
    "dna": (
        "b729aff6209c07a4c60cb8d6393417af56fb244e",
        "15ffc8398c8ff51f9b7967446a925470a7e34734",
        "351fb8695ffb6ad5fd68dbed4748afd2e84bce54",
    ),
    "kosarek": (
        "cc9c549b93a3636961debfa59f0dc84df93d4c53",
        "a375a72b21c7bb919bce47da1b0537d3d146a186",
        "03b9a4b9629ec560d5a95dfb711a468d3d497fef",
    ),
    "msweb": (
        "939c8391c77e4764c74553b011ba7ced924337de",
        "75598aae35655b504670a3b65c311ec0a8f1a9e9",
        "b7c6804dd2ceba1fbff3308516f4748f5d989698",
    ),
    "book": (
        "7d0e649e4a8952c5454faa29db786d820865ca18",
        "e5a98a673dd4ed0f17fd4bec975a49ca122174b4",
        "90460f56e012e5225467a7459e8e0ba1d34d2679",
    ),
    "tmovie": (
        "7a356abaa5203208127ec5972cf3792bd8d225b3",
        "6920f039750d26f81132dc4a3a3c83b0f2eba8bb",
        "6b610f57b64eb51c4886bc7e29900d4d0bd45870",
    ),
    "cwebkb": (
        "569179f63ac2795dc1b65ab59165c58abedc49c7",
        "38539a369cbf1edcf4be0948c5977e7174a045fd",
        "98f636014c6a37f58243f71684548445df04d787",
    ),
    "cr52": (
        "5a132a4c54dc99a9966d9cf00fea63da5d88fa3d",
        "b35d4b1ab487e32843212bac3abf1a0fcd444a28",
        "4f63c683574db34184e89e8a9b850454a835c5fc",
    ),
    "c20ng": (
        "b5d2937144d0d1340f14c53c807b83f79be21bbd",
        "02fd664e4bbba182a6bf769e25ba7c238307da70",
        "c767f717205a4fe334815161a07e74a107ca9f2c",
    ),
    "bbc": (
        "1109ad0cb67d2f1e6fd964a1efe6827b1145d1dc",
        "ac5335071ced6f53a9990c79e5b397d973c00c07",
        "5782a91c6fe31e6989780651145a25cfda052214",
    ),
    "ad": (
        "b9dfaba77f2cea10c30a2c3c3d6c80f84d811334",
        "28dfd43ad1234f7b62ad4a560bd918327a6e39bf",
        "1a6ecad267097c75cfb9d9b9d36281bcb0c2a162",
    ),
}
DATASETS = ("animals", "nations", *SPLIT_TABLES)


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
    """Load a public dataset: `Animals` for "animals", `Nations` for "nations", `Splits` for `SPLIT_TABLES`.

    Files are read from the folder named by the environment variable ``SPARSEFIELD_DATA`` (``animals.csv``;
    ``nations.csv`` and ``nations_relations.csv``; ``debd/NAME/train.csv``, ``valid.csv`` and ``test.csv``) if they
    exist. Otherwise they are downloaded, verified by checksum, and kept in the user's cache.
    """
    if name not in DATASETS:
        raise DataError(f"no dataset called {name!r}; choose from {', '.join(DATASETS)}")
    if name in SPLIT_TABLES:
        parts = zip(SPLITS, SPLIT_TABLES[name], strict=True)
        urls = {f"debd/{name}/{split}.csv": (SPLITS_URL.format(name=name, split=split), blob) for split, blob in parts}
        return Splits(*(_read_bits(_local_file(path) or _download(*url)) for path, url in urls.items()))
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


def _download(url: str, blob: str | None = None) -> Path:
    """Return the file at an address in the cache, checked by its SHA256, or by the id ``blob`` of git."""
    import pooch

    name = url.rsplit("/", 1)[-1]  # by default pooch adds a hash of the URL
    try:
        known = None if blob else f"sha256:{HASHES[name]}"
        path = Path(pooch.retrieve(url, known, fname=name, path=pooch.os_cache("sparsefield")))
        if blob and blob_id(path.read_bytes()) != blob:
            path.unlink()
            raise ValueError(name)
    except OSError as error:
        raise DataError(f"{url} cannot be reached; {_REMEDY}") from error
    except ValueError as error:  # pooch raises it, too
        raise DataError(f"the file at {url} is not the expected one, its checksum differs; {_REMEDY}") from error
    return path


def blob_id(content: bytes) -> str:
    """Return the id that git gives a file."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


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

"""This module predicts hidden cells of the four data sets of Kok and Domingos, beside what others report on them.

Each of ten folds hides a tenth of the cells; a field finds its templates by itself, at the l1 of the paper. Numbers of
others are those of their publications, on folds of their own:

- IRM and MRC: Kok and Domingos, "Statistical Predicate Invention", ICML 2007;
- RESCAL: Nickel, Tresp and Kriegel, "A Three-Way Model for Collective Learning on Multi-Relational Data", ICML 2011;
- LFM: Jenatton, Le Roux, Bordes and Obozinski, "A Latent Factor Model for Highly Multi-relational Data", NIPS 2012,
  which also has the IRM and MRC of Kinship, UMLS and Nation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from reproduction.irm_estimator import InfiniteRelationalModel
from reproduction.public_data import ENDS, GITHUB, _local_file, load_dataset
from sparsefield.analysis.hold_out import Evaluation, Fold, evaluate
from sparsefield.data import Relational
from sparsefield.errors import DataError
from sparsefield.estimators import MarkovField, RelationalField

MATRICES_URL = f"{GITHUB}/probcomp/hierarchical-irm/master/examples/datasets/{{name}}"
MATRICES = {"kinship": "alyawarradata.mat", "umls": "uml.mat"}
"""Files of Kemp et al. (2006): arrays ``Rs`` of 0 and 1 (entities, entities, relations)."""

SETS = {"animals": "Animal", "nations": "Nation", "kinship": "Kinship", "umls": "UMLS"}
L1 = {"animals": 0.5, "nations": 2.0, "kinship": 2.0, "umls": 2.0}
"""Those of the paper, for one table and for linked ones."""

CITED = {
    "nations": {"IRM": (0.75, None), "MRC": (0.75, -0.311), "RESCAL": (0.84, None), "LFM": (0.909, -0.202)},
    "kinship": {"IRM": (0.66, None), "MRC": (0.84, -0.045), "RESCAL": (0.95, None), "LFM": (0.946, -0.029)},
    "umls": {"IRM": (0.70, None), "MRC": (0.98, -0.004), "RESCAL": (0.98, None), "LFM": (0.990, -0.002)},
}
"""Average precision of true cells, and CLL; None where a publication has none."""


def load_relations(name: str) -> Any:
    """Return one frame of animals, or the linked tables of another set, all of whose cells are known.

    Kinship is read from ``kinship.csv`` (subject, relation, object) in the folder that ``SPARSEFIELD_DATA`` names, if
    it is there; it and UMLS are downloaded otherwise.
    """
    if name == "animals":
        return load_dataset(name).frame
    if name == "nations":
        return load_dataset(name).closed_world()
    file = _local_file(f"{name}.csv")
    return pairs_of_triples(pl.read_csv(file)) if file else pairs_of_array(read_array(download(MATRICES[name])))


def pairs_of_triples(triples: pl.DataFrame) -> Relational:
    """Return all ordered pairs of the entities of triples (subject, relation, object), 1 where there is a triple."""
    entities = sorted({*triples["subject"], *triples["object"]})
    place, relations = {name: k for k, name in enumerate(entities)}, sorted(triples["relation"].unique())
    cells = np.zeros((len(entities), len(entities), len(relations)), dtype=np.int8)
    for subject, relation, target in triples.select("subject", "relation", "object").iter_rows():
        cells[place[subject], place[target], relations.index(relation)] = 1
    return pairs_of_array(cells, entities, relations)


def pairs_of_array(cells: np.ndarray, entities: Any = None, relations: Any = None) -> Relational:
    """Return the tables ``entity``, without attributes, and ``pair`` of an array (entities, entities, relations)."""
    n, _, k = cells.shape
    entities = [f"e{i:03d}" for i in range(n)] if entities is None else entities
    relations = [f"r{r:02d}" for r in range(k)] if relations is None else relations
    i, j = (part.ravel() for part in np.indices((n, n)))
    ends = {end: np.array(entities)[rows] for end, rows in zip(ENDS, (i, j), strict=True)}
    varied = [r for r in range(k) if 0 < cells[:, :, r].sum() < n * n]
    pairs = pl.DataFrame({**ends, **{relations[r]: cells[:, :, r].ravel() for r in varied}})
    links = {end: ("pair", end, "entity") for end in ENDS}
    return Relational({"entity": pl.DataFrame({"id": entities}), "pair": pairs}, keys={"entity": "id"}, links=links)


def download(name: str) -> Path:
    """Return a file of Kemp et al., downloaded once; its contents are checked when it is read."""
    import pooch

    url = MATRICES_URL.format(name=name)
    try:
        return Path(pooch.retrieve(url, None, fname=name, path=pooch.os_cache("sparsefield")))
    except OSError as error:
        raise DataError(
            f"{url} cannot be reached: put '{name}' into the cache of pooch, or leave the set out"
        ) from error


def read_array(path: Path) -> np.ndarray:
    """Return the cells (entities, entities, relations) of a MATLAB file: its one array of 0 and 1 of three axes."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        found = loadmat(path)
    except (MatReadError, NotImplementedError, ValueError, OSError) as error:
        raise DataError(f"'{path}' is no MATLAB file that SciPy reads: {error}") from error
    arrays = {key: np.nan_to_num(v) for key, v in found.items() if isinstance(v, np.ndarray) and v.ndim == 3}
    square = {key: v for key, v in arrays.items() if v.dtype.kind in "buif" and v.shape[0] == v.shape[1]}
    if len(square) > 1 and "Rs" in square:
        square = {"Rs": square["Rs"]}
    if len(square) != 1 or not all(np.isin(array, (0, 1)).all() for array in square.values()):
        raise DataError(f"'{path}' must have one array of 0 and 1 (entities, entities, relations), such as Rs")
    return next(iter(square.values())).astype(np.int8)


def measure(
    name: str, folds: int = 10, seed: int = 0, *, irm: bool = False, progress: Callable[[Fold], None] | None = None
) -> Evaluation:
    """Return the scores of a field that finds its templates, or of an infinite relational model, on a data set."""
    estimator: Any = InfiniteRelationalModel(random_state=seed)
    if not irm:
        options = {"l1": L1[name], "random_state": seed}
        estimator = MarkovField(**options) if name == "animals" else RelationalField(templates="auto", **options)
    return evaluate(load_relations(name), estimator, folds, seed=seed, progress=progress)


def records(name: str, ours: Evaluation, irm: Evaluation | None = None) -> Iterator[tuple[str, ...]]:
    """Yield the lines of the table of a data set: ours, the model run here, and those cited."""
    for method, found in (("sparsefield, auto", ours), ("IRM, run here", irm)):
        if found is not None:
            scores = [found.spread(m) for m in ("ap", "ap_positive", "cll", "error_rate")]
            cells = [f"{value.mean:.4f} ({value.sd:.4f})" for value in scores]
            yield SETS[name], method, *cells, f"{found.spread('seconds').mean:.1f}"
    for method, (ap, cll) in CITED.get(name, {}).items():
        yield SETS[name], f"{method}, cited", "", f"{ap:.3f}", "" if cll is None else f"{cll:.3f}", "", ""

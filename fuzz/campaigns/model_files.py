"""Model files of fields and chains, and checkpoints, with altered bytes or entries are loaded, used and continued."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from fuzz.byte_changes import apply_changes, draw_changes
from fuzz.judging import check_finite, unchanged
from fuzz.recipes import Campaign, Step, first_step, steps_named
from sparsefield import ChainCRF, CRFClassifier, FitCallbacks, MarkovField, Solver, load

NAME = "fit.checkpoint"

VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 3, 2**63, 10**30, 0.5, -0.5, 1e308, "", "auto", "x", "\ud83d", [], [1], ["a", "b"], [[0, 1]], {},
    {"a": 1}, {"object": "CFI"}, {"object": "Gibbs", "chains": "x"}, {"object": "Solver", "tol": []}, {"object": 3},
)  # fmt: skip


class Interruption(Exception):  # noqa: N818
    """Ends a fit on purpose."""


def draw(rng: random.Random) -> list[Step]:
    """Return which file is changed, and changes of its bytes, or of entries of its record and arrays."""
    file = rng.choice(("field", "labels", "chain", "checkpoint"))
    if file == "checkpoint" or rng.random() < 0.4:
        return [("file", file), *draw_changes(rng)]
    kinds = [rng.choice(("entry", "entry", "entry", "array")) for _ in range(rng.randint(1, 2))]
    values = {"entry": VALUES, "array": ("<f4", "<i4", "<i8", "|u1", "|b1", "<f8", "short", "flat", "gone")}
    return [("file", file), *((kind, rng.random(), rng.choice(values[kind])) for kind in kinds)]


def run(steps: list[Step], folder: Path) -> None:
    """Load a changed model and use it, or continue from a changed checkpoint."""
    file = first_step(steps, "file", ("field",))[0]
    if file == "checkpoint":
        path = folder / NAME
        path.write_bytes(apply_changes(checkpoint_bytes(), steps))
        _use("field", make_field(folder).fit(table()))
        return
    path = folder / "m.safetensors"
    path.write_bytes(apply_changes(_change_entries(_model_bytes(file), steps), steps))
    with unchanged(path):
        _use(file, load(path))


def _change_entries(data: bytes, steps: list[Step]) -> bytes:
    """Return a model file with other values in its record, and other arrays."""
    size = int.from_bytes(data[:8], "little")
    arrays, metadata = load_arrays(data), json.loads(data[8 : 8 + size])["__metadata__"]
    document = json.loads(arrays["document"].tobytes())
    for place, value in steps_named(steps, "entry"):
        rare = document["params"] if "params" in document else document["extra"]  # beside hundreds of numbers
        entries = list(_entries(rare if place < 0.5 else document))
        if entries:
            holder, key = entries[int(2.0 * place % 1.0 * len(entries))]
            holder[key] = deepcopy(value)
    arrays["document"] = np.frombuffer(json.dumps(document).encode(), dtype=np.uint8)
    for place, value in steps_named(steps, "array"):
        name = sorted(arrays)[int(place * len(arrays))]
        array = arrays.pop(name)
        if value != "gone":
            arrays[name] = array[:-1] if value == "short" else array.ravel() if value == "flat" else array.astype(value)
    return save_arrays({name: np.ascontiguousarray(array) for name, array in arrays.items()}, metadata)


def _entries(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the places of a JSON value: what holds each entry, and its name or number there."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in parts:
        yield value, key
        yield from _entries(inner)


def _use(file: str, model: Any) -> None:
    if file == "chain":
        tokens = [[{"word": "a", "size": 2.0}, {"word": "b"}]]
        model.predict(tokens)
        check_finite(model.log_likelihood(tokens, [[None, None]]), "log-likelihood")
        answers = model.state_features_, model.transition_features_
    else:
        check_finite(np.asarray(model.features_["weight"], dtype=float), "weights")
        X = table()
        check_finite(float(model.score(X.drop("word"), X["word"]) if file == "labels" else model.score(X)), "score")
        answers = model.edges_, model.biases_
        model.predict(X.drop("word")) if file == "labels" else model.predict_proba(X)
    for answer in (*answers, model.history_, model.get_params()):
        len(answer)


def table() -> Any:
    """Return a small frame of all kinds of columns."""
    import polars as pl

    rng = np.random.default_rng(0)
    size = rng.normal(size=60)
    word = np.where(size + rng.normal(size=60) > 0, "yes", "no")
    return pl.DataFrame({"size": size, "word": word, "level": rng.integers(0, 4, 60), "bit": rng.integers(0, 2, 60)})


def make_field(folder: Path | None = None, callbacks: FitCallbacks | None = None) -> MarkovField:
    """Return an estimator with a checkpoint in a folder."""
    return MarkovField(l1=2.0, n_jobs=1, random_state=0, solver=Solver(checkpoint=folder, callbacks=callbacks))


@cache
def _model_bytes(file: str) -> bytes:
    X = table()
    model = {
        "field": lambda: MarkovField(n_jobs=1, random_state=0, kinds={"level": "ordinal"}).fit(X),
        "labels": lambda: CRFClassifier(l1=2.0, n_jobs=1, class_weight="balanced").fit(X.drop("word"), X["word"]),
        "chain": lambda: ChainCRF(l1="auto", n_jobs=1, selection="ebic", random_state=0).fit(
            [[{"word": word, "size": k % 3} for k, word in enumerate("abac")]] * 4, [["X", "Y", "X", "Z"]] * 4
        ),
    }[file]()
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "m.safetensors")
        return (Path(folder) / "m.safetensors").read_bytes()


@cache
def checkpoint_bytes() -> bytes:
    """Return the checkpoint of a fit that was interrupted."""
    steps = 0

    def interrupt(record: Any) -> None:
        nonlocal steps
        steps += 1
        if steps > 12:
            raise Interruption

    with tempfile.TemporaryDirectory() as folder:
        with suppress(Interruption):
            make_field(Path(folder), callbacks=FitCallbacks(on_iteration=interrupt)).fit(table())
        path = Path(folder) / NAME
        return path.read_bytes() if path.is_file() else b""


CAMPAIGN = Campaign("models", draw, run)

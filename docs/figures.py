"""This script draws the pictures of docs/how-it-works.md into docs/images/how-it-works: ``python docs/figures.py``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from sparsefield import MarkovField, regularization_path
from sparsefield.app.datasets import SyntheticField, make_markov_field
from sparsefield.app.pages.charts import Curve, CurvePoint, LinePanel, draw_panels
from sparsefield.app.pages.palette import BLUE, GREY, INK, ORANGE, PALE, diverging
from sparsefield.app.pages.svg import Drawing

FOLDER = Path(__file__).parent / "images" / "how-it-works"


def draw_signals() -> str:
    """Draw the signal of one column and the error of another, row by row, before and after a pair joins them."""
    rng = np.random.default_rng(4)
    rain = (rng.random(400) < 0.4).astype(int)
    wet = np.where(rng.random(400) < 0.85, rain, 1 - rain)
    alone = wet.mean() - wet
    learned = MarkovField(l1=1.0).fit(np.column_stack([rain, wet])).predict_proba(np.column_stack([rain, wet]))["x1"]
    together = learned[:, 1] - wet
    signal = rain - rain.mean()
    lines = [
        ("rain", rain, "data"),
        ("wet", wet, "data"),
        ("signal of rain", signal, "rain minus its mean"),
        ("error of wet", alone, "prediction minus data, without the pair"),
        ("signal × error", signal * alone, f"sum over all 400 rows: {_format(signal @ alone)}"),  # noqa: RUF001
        ("error of wet, with pair", together, "prediction minus data, with the pair"),
        ("signal × error", signal * together, f"sum over all 400 rows: {_format(signal @ together)}"),  # noqa: RUF001
    ]
    drawing = Drawing(900, 330, "Signals and errors of two columns, row by row")
    drawing.text(36, 42, "Signals and errors", size=18, font_weight=600)
    drawing.text(36, 64, "24 of 400 rows, side by side; orange is negative, blue positive, white 0", fill=GREY)
    for k, (name, values, words) in enumerate(lines):
        y = 88 + 32 * k
        drawing.text(190, y + 17, name, text_anchor="end")
        for row, value in enumerate(values[:24]):
            hint = f"row {row + 1}: {value:.2f}"
            drawing.rect(204 + 17 * row, y, 15, 24, rx=2, fill=diverging(float(value)), stroke=PALE, hint=hint)
        drawing.text(626, y + 17, words, size=12, fill=GREY)
    return drawing.render()


def draw_loop() -> str:
    """Draw the training loop as boxes and arrows."""
    drawing = Drawing(900, 300, "The training loop")
    drawing.text(36, 42, "The training loop", size=18, font_weight=600)
    boxes = [
        (36, "Predict", "each cell from the rest", "of its row and its links"),
        (254, "Compare", "errors and signals,", "cell by cell"),
        (472, "Add", "the pairs with the largest", "sum of signal × error"),  # noqa: RUF001
        (690, "Step", "orthant-wise L-BFGS", "with L1 and L2"),
    ]
    for x, name, one, two in boxes:
        _draw_box(drawing, x, 84, name, one, two, BLUE)
    for x in (210, 428, 646):
        _draw_arrow(drawing, [(x, 118), (x + 44, 118)])
    _draw_arrow(drawing, [(777, 152), (777, 178), (123, 178), (123, 152)])
    words = "until convergence; missing cells are filled in between"
    drawing.text(340, 171, words, size=12, fill=GREY, text_anchor="middle")
    _draw_box(drawing, 472, 208, "Certify", "an exact pass over every", "pair, left-out ones too", ORANGE)
    _draw_arrow(drawing, [(820, 152), (820, 242), (646, 242)])
    drawing.text(832, 202, "done?", size=12, fill=GREY)
    _draw_arrow(drawing, [(559, 208), (559, 152)])
    drawing.text(568, 200, "violating pairs", size=12, fill=GREY)
    _draw_arrow(drawing, [(472, 242), (428, 242)])
    _draw_box(drawing, 254, 208, "The field", "weights, certificate,", "answers", INK)
    return drawing.render()


def draw_path() -> str:
    """Draw the held-out score and the number of features along the regularization path."""
    rows = regularization_path(MarkovField(random_state=0), _made().samples).to_dicts()
    chosen = [row for row in rows if row["selected"]]

    def curves(key: str, error: str | None = None) -> list[Curve]:
        line = Curve("fits on the path", [CurvePoint(r["l1"], r[key], r[error] if error else None) for r in rows])
        return [line, Curve("selected", [CurvePoint(row["l1"], row[key]) for row in chosen], color=ORANGE)]

    panels = [
        LinePanel("Score of held-out rows", "l1", "mean log-likelihood", curves("score", "error"), log_x=True),
        LinePanel("Features in the field", "l1", "features", curves("features"), log_x=True),
    ]
    words = "30 columns, 500 rows; bars are one standard error of a score"
    return draw_panels("The regularization path", panels, subtitle=words, columns=2)


def draw_certificate() -> str:
    """Draw the gradient of every candidate at the end of a fit, and l1."""
    made, l1, l2 = _made(), 20.0, 1.0
    field = MarkovField(l1=l1, l2=l2).fit(made.samples)
    data = made.samples.astype(float)
    errors = np.column_stack([belief[:, 1] for belief in field.predict_proba(made.samples).values()]) - data
    slope = errors.T @ data + data.T @ errors
    weight = np.zeros_like(slope)
    for a, _, b, _, value in field.features_.rows():
        weight[int(a[1:]), int(b[1:])] = weight[int(b[1:]), int(a[1:])] = value
    upper = np.triu_indices(len(slope), k=1)
    sizes, inside = np.abs(slope + l2 * weight)[upper], weight[upper] != 0.0
    order = np.argsort(-sizes)
    ranked = [(rank, float(sizes[k]), bool(inside[k])) for rank, k in enumerate(order.tolist(), start=1)]
    curves = [
        Curve("in the field", [CurvePoint(rank, size) for rank, size, is_in in ranked if is_in]),
        Curve("left out", [CurvePoint(rank, size) for rank, size, is_in in ranked if not is_in][::3], color=GREY),
        Curve("l1", [CurvePoint(1, l1), CurvePoint(len(ranked), l1)], dashed=True, color=ORANGE),
    ]
    panel = LinePanel("", "candidate, sorted", "size of its gradient", curves)
    words = f"{inside.sum()} of {len(inside)} pairs are in the field; of those left out, every third one is drawn"
    return draw_panels("Every candidate meets its condition", [panel], subtitle=words, columns=1)


def draw_inference() -> str:
    """Draw the distance of approximate beliefs from exact ones as weights grow."""
    names = {"mean-field": "mean field", "bp": "belief propagation"}
    found: dict[str, list[CurvePoint]] = {name: [] for name in names}
    for size in (0.5, 1.0, 1.5, 2.0, 3.0):
        made = make_markov_field(12, 200, neighbors=3, weights=(-size, size), burn_in=500, thin=20, seed=2)
        incomplete = made.samples.astype(float)
        incomplete[np.random.default_rng(0).random(incomplete.shape) < 0.5] = np.nan
        exact = _missing_beliefs(made, incomplete, "exact")
        for name in names:
            apart = np.abs(_missing_beliefs(made, incomplete, name) - exact)
            found[name].append(CurvePoint(size, float(apart.mean())))
    curves = [Curve(names[name], spots) for name, spots in found.items()]
    panel = LinePanel("", "largest weight", "mean distance from the exact belief", curves)
    words = "12 columns, three neighbors each, half of the cells missing; the true weights are known"
    return draw_panels("Approximate beliefs", [panel], subtitle=words, columns=1)


PICTURES: dict[str, Callable[[], str]] = {
    "signals.svg": draw_signals,
    "loop.svg": draw_loop,
    "path.svg": draw_path,
    "certificate.svg": draw_certificate,
    "inference.svg": draw_inference,
}


def main(folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        (folder / name).write_text(draw())
        print(folder / name, file=sys.stderr)


def _made() -> SyntheticField:
    return make_markov_field(30, 500, neighbors=3, weights=(-2, 2), biases="balanced", burn_in=500, thin=20, seed=1)


def _missing_beliefs(made: SyntheticField, incomplete: np.ndarray, inference: str) -> np.ndarray:
    """Return the belief of the true field in state 1 of each missing cell, shape (missing cells,)."""
    beliefs = made.field.set_params(inference=inference).predict_proba(incomplete)
    return np.concatenate([belief[np.isnan(incomplete[:, k]), 1] for k, belief in enumerate(beliefs.values())])


def _format(value: float) -> str:
    return f"{value:.1f}".replace("-0.0", "0.0").replace("-", "−")  # noqa: RUF001


def _draw_box(drawing: Drawing, x: float, y: float, name: str, one: str, two: str, color: str) -> None:
    drawing.rect(x, y, 174, 68, rx=8, fill="#ffffff", stroke=color, stroke_width=2)
    drawing.text(x + 87, y + 22, name, size=14, font_weight=600, fill=color, text_anchor="middle")
    for k, words in enumerate((one, two)):
        drawing.text(x + 87, y + 41 + 16 * k, words, size=12, text_anchor="middle")


def _draw_arrow(drawing: Drawing, points: Sequence[tuple[float, float]]) -> None:
    """Draw a line through points, with an arrowhead at the last one."""
    drawing.path("M" + "L".join(f"{x} {y}" for x, y in points), fill="none", stroke=GREY, stroke_width=1.5)
    (x0, y0), (x, y) = points[-2:]
    dx, dy = np.sign(x - x0), np.sign(y - y0)
    head = [(x, y), (x - 8 * dx + 4 * dy, y - 8 * dy + 4 * dx), (x - 8 * dx - 4 * dy, y - 8 * dy - 4 * dx)]
    drawing.path("M" + "L".join(f"{a:g} {b:g}" for a, b in head) + "Z", fill=GREY)


if __name__ == "__main__":
    main()

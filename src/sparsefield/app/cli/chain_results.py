"""This module prints linear chains, and how well they label sequences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.app.cli.console import new_table, show, show_json
from sparsefield.app.pages.fit_summary import format_violation
from sparsefield.app.pages.visible_text import visible
from sparsefield.text import count

if TYPE_CHECKING:
    from sparsefield import ChainCRF
    from sparsefield.chain.entities import SequenceScores
    from sparsefield.chain.label_tables import LabelScore
    from sparsefield.chain.model import ChainModel

SHOWN_FEATURES = 10
SHOWN_LABELS = 50
SHOWN_NAMES = 12


@dataclass(frozen=True)
class LabelingScores:
    """How well sequences were labeled."""

    n_sequences: int
    """Sequences with a token whose label is known."""
    n_tokens: int
    """Tokens whose label is known."""
    overall: SequenceScores
    labels: list[LabelScore]
    entities: list[LabelScore]
    """Scores of types of entities, if labels name any."""

    def as_dict(self) -> dict[str, Any]:
        """Return the scores as values that JSON can express."""
        return {
            "sequences": self.n_sequences,
            "tokens": self.n_tokens,
            **asdict(self.overall),
            "labels": [_label_record(score, "tokens") for score in self.labels],
            "entities": [_label_record(score, "entities") for score in self.entities],
        }


def score_labelings(truth: Sequence[Sequence[Any]], found: Sequence[Sequence[Any]]) -> LabelingScores:
    """Compare labelings with the true ones; tokens whose true label is None do not count."""
    from sparsefield.chain.entities import score_sequences
    from sparsefield.chain.label_tables import score_entities_apart, score_labels_apart

    known = [sum(label is not None for label in one) for one in truth]
    return LabelingScores(
        sum(map(bool, known)),
        sum(known),
        score_sequences(truth, found),
        score_labels_apart(truth, found),
        score_entities_apart(truth, found),
    )


def _label_record(score: LabelScore, what: str) -> dict[str, Any]:
    measures = {name: getattr(score, name) for name in ("precision", "recall", "f1")}
    return {"name": score.name, what: score.n_true, "predicted": score.n_found, **measures}


def show_scores(scores: LabelingScores) -> None:
    """Show the shares of tokens and sequences that are labeled right, and tables of labels and of types of entities."""
    overall = scores.overall
    show(
        f"{overall.token_accuracy:.2%} of {count(scores.n_tokens, 'token')} and {overall.sequence_accuracy:.2%} of "
        f"{count(scores.n_sequences, 'sequence')} are labeled right."
    )
    if overall.f1 is not None:
        show(f"Entities: precision {overall.precision:.2%}, recall {overall.recall:.2%}, F1 {overall.f1:.2%}.")
    for what, rows in (("entity", scores.entities), ("label", scores.labels)):
        if rows:
            show()
            _show_rows(what, rows)


def _show_rows(what: str, rows: Sequence[LabelScore]) -> None:
    table = new_table(what, "entities" if what == "entity" else "tokens", "predicted", "precision", "recall", "F1")
    for row in rows[:SHOWN_LABELS]:
        shares = (f"{share:.1%}" for share in (row.precision, row.recall, row.f1))
        table.add_row(str(row.name), f"{row.n_true:,}", f"{row.n_found:,}", *shares)
    show(table)
    if len(rows) > SHOWN_LABELS:
        show(f"... and {len(rows) - SHOWN_LABELS:,} more: --json lists all.")


def show_chain_fit(chain: ChainCRF, seconds: float, scores: LabelingScores | None) -> None:
    """Show what a fit learned, how, and how well it labels held-out sequences."""
    model = chain.model_
    show_chain_features(model, SHOWN_FEATURES)
    show()
    if "auto" in (chain.l1, chain.l2):
        tried = count(len(chain._path), "pair")
        show(f"Selected l1 = {chain.l1_:g} and l2 = {chain.l2_:g} among {tried}, by the likelihood of held-out labels.")
    show(f"Learned {describe_chain_size(model)}; {count(chain.n_iter_, 'iteration')}, {seconds:.1f} s.")
    show(describe_chain_convergence(model, chain.kkt_tol))
    if scores is not None:
        auto = " (its penalties are those of the fit above)" if "auto" in (chain.l1, chain.l2) else ""
        show(f"\nOn held-out sequences, by a chain fitted without them{auto}:")
        show_scores(scores)


def show_chain_fit_as_json(output: Path, chain: ChainCRF, seconds: float, scores: LabelingScores | None) -> None:
    """Print as JSON what a fit learned."""
    options = {name: value for name, value in chain.get_params().items() if name not in ("callback", "n_jobs")}
    show_json(
        {
            "model": str(output),
            "seconds": seconds,
            "held_out": None if scores is None else scores.as_dict(),
            **chain_content(chain.model_, options),
            "path": [asdict(point) for point in chain._path],
        }
    )


def chain_content(model: ChainModel, options: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a chain as values that JSON can express."""
    return {
        "estimator": "ChainCRF",
        "l1": model.record.l1,
        "l2": model.record.l2,
        "options": options,
        "labels": model.classes.tolist(),
        "n_attributes": len(model.attributes),
        "state_features": _as_records(model.state_table()),
        "transition_features": _as_records(model.transition_table()),
        "record": asdict(model.record),
    }


def _as_records(table: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def show_chain_features(model: ChainModel, most: int) -> None:
    """Show the strongest state features and transitions."""
    states, steps = model.state_table(), model.transition_table()
    if most and states["weight"]:
        show("Strongest attributes:")
        _show_lines((f"{name} → {label}", w) for name, label, w in _first(states, most))
    if most and steps["weight"]:
        show("\nStrongest transitions:")
        _show_lines((f"{one} → {two}", w) for one, two, w in _first(steps, most))


def _first(table: dict[str, list[Any]], most: int) -> list[tuple[Any, ...]]:
    return list(zip(*(column[:most] for column in table.values()), strict=True))


def _show_lines(rows: Iterable[tuple[str, float]]) -> None:
    show("\n".join(f"{weight:+7.2f}  {visible(text)}" for text, weight in rows))


def describe_chain_size(model: ChainModel) -> str:
    """Return the numbers of features with a weight in words."""
    n_states = model.features.n_states
    used = len(set(model.features.attributes.tolist()))
    return (
        f"{count(n_states, 'state feature')} of {used:,} of {count(len(model.attributes), 'attribute')}, and "
        f"{count(len(model.theta) - n_states, 'transition')}, for {count(len(model.classes), 'label')}"
    )


def describe_chain_convergence(model: ChainModel, kkt_tol: float) -> str:
    """Return a sentence on whether the fit converged."""
    record = model.record
    violation = format_violation(record.kkt_violation, record.l1, exact=not record.converged)
    if record.converged:
        return f"Converged: no candidate would improve the fit (worst violation {violation})."
    allowed = format_violation(kkt_tol * (record.l1 or 1.0), record.l1, exact=True)
    return (
        f"Not converged: a further step could improve the fit (worst violation {violation}; the tolerance is "
        f"{allowed}): raise --max-iter, --l1 or --l2."
    )


def describe_names(names: Sequence[Any]) -> str:
    """Return a short list of names."""
    rest = len(names) - SHOWN_NAMES
    return ", ".join(map(str, names[:SHOWN_NAMES])) + (f" and {rest:,} more" if rest > 0 else "")

"""Questions to a field about rows: what is believed of a gap, and of a seen cell given everything else."""

from __future__ import annotations

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Block, DenseDataset, Variable, update_neighbor_sums
from sparsefield.inference.latent_inference import impute_for_each_latent_state, sum_out_latent
from sparsefield.inference.mean_field import MeanField
from sparsefield.inference.method import InferenceMethod
from sparsefield.inference.missing_problem import fill_blocks
from sparsefield.kernels.mean_field_sweep import sweep
from sparsefield.model import Field
from sparsefield.model.latent_features import split_latent

__all__ = ["Posterior", "infer", "state_probabilities"]


class Posterior:
    """Beliefs about all target cells of a mega-sample."""

    def __init__(
        self,
        marginals: tuple[np.ndarray, ...],
        conditionals: tuple[np.ndarray, ...],
        log_likelihood: float,
        unconverged: int,
    ) -> None:
        self.marginals = marginals
        """Table by table, (states, rows): q0, the belief of a gap; one-hot where a cell is seen."""
        self.conditionals = conditionals
        """Table by table, (states, rows): a seen cell given all others; the belief of a gap."""
        self.log_likelihood = log_likelihood
        """Sum over rows and seen cells of ln p(cell | all others), the pseudo-log-likelihood."""
        self.unconverged = unconverged
        """Rows whose inference reached its cap."""


def infer(field: Field, sample: DenseDataset, inference: InferenceMethod, engine: Engine) -> Posterior:
    """Fill the gaps, then predict every seen cell from the rest of its row and from what the row sees.

    Latent variables are summed out then: their beliefs have seen the very cell that is to be predicted.
    """
    blocks = [[b._replace(beliefs=b.beliefs.copy()) for b in table.blocks] for table in sample.tables]
    layout = field.layout
    parts = split_latent(layout, layout.arcs(field.features)) if layout.has_latent else None
    if parts is not None and isinstance(inference, MeanField) and _with_latent(blocks[0], len(field.schema.latent)):
        unconverged = impute_for_each_latent_state(sample, blocks[0], parts, inference, field.theta, engine)
    else:
        unconverged = fill_blocks(sample, blocks, inference, field.graphs, field.theta, engine)
    if sample.has_links and sample.has_missing:
        update_neighbor_sums(sample, blocks, engine.map)

    n_latent = len(field.schema.latent) if layout.has_latent else 0

    def one(member: tuple[int, Block]) -> tuple[np.ndarray, np.ndarray, float]:
        t, block = member
        errors = np.zeros((block.n_target_states, block.n_rows))
        if parts is None:
            loss = sweep(block, field.graphs[t], field.theta, False, block.beliefs, errors)
        else:
            filled = block.beliefs[parts.first : block.n_target_states].copy()
            loss = sum_out_latent(block, parts, field.theta, errors).loss
            errors[parts.first :] = 0.0
            # Where a row has gaps as well, both were filled together; the sum took the gaps' beliefs for what they are.
            missing = np.zeros(block.n_rows, dtype=bool)
            missing[block.missing_rows[: block.cell_offsets[-1 - n_latent]]] = True
            block.beliefs[parts.first : block.n_target_states, missing] = filled[:, missing]
        beliefs = block.beliefs[: block.n_target_states]
        return beliefs, beliefs + errors, -loss

    members = [(t, block) for t, part in enumerate(blocks) for block in part]
    found = engine.map(one, members)

    def table(t: int, what: int) -> np.ndarray:
        parts = [answer[what] for answer, (owner, _) in zip(found, members, strict=True) if owner == t]
        return np.concatenate(parts, axis=1)

    tables = range(len(sample.tables))
    return Posterior(
        tuple(table(t, 0) for t in tables),
        tuple(table(t, 1) for t in tables),
        float(sum(answer[2] for answer in found)),
        unconverged,
    )


def _with_latent(blocks: list[Block], n_latent: int) -> bool:
    """Whether there are gaps in a table's own columns."""
    return any(block.cell_offsets[-1 - n_latent] > 0 for block in blocks)


def state_probabilities(variable: Variable, columns: np.ndarray) -> np.ndarray:
    """(rows, states) in the order of ``variable.states``, from its (width, rows) base-coded beliefs."""
    out = np.empty((columns.shape[1], len(variable.states)))
    codes = variable.position_of_code
    for code, position in enumerate(codes[1:]):
        out[:, position] = columns[code]
    others = columns.sum(axis=0) if len(columns) else 0.0
    out[:, codes[0]] = np.clip(1.0 - others, 0.0, 1.0)
    return out

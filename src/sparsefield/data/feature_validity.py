"""This module checks the features of a loaded field; kernels assume that they are valid."""

from __future__ import annotations

import numpy as np

from sparsefield.data.layout import Array, Layout


def are_valid_pairs(layout: Layout, pairs: Array) -> bool:
    """Return whether every pair is a target state and a column that a template pairs with it, as kernels assume."""
    if (pairs < 0).any() or (pairs >= layout.n_columns).any():
        return False
    a, b = pairs[:, 0], pairs[:, 1]
    table, views = layout.table_of_column[a], layout.view_of_column[b]
    if (layout.target_of_column[a] < 0).any() or (table != layout.table_of_column[b]).any():
        return False
    if not np.isfinite(layout.feature_factors(pairs)).all():
        return False
    for k in np.unique(table):
        start, schema = layout.column_starts[k], layout.schemas[k]
        own = (table == k) & (views < 0)
        owner = schema.variable_of_column
        if (owner[a[own] - start] == owner[b[own] - start]).any() or (own.any() and k not in _within_tables(layout)):
            return False
    for k in np.unique(views[views >= 0]):
        view = layout.neighbor_views[k]
        template = layout.templates[view.template]
        mine = layout.paired_columns(view.target_table, template.left if view.forward else template.right)
        if not np.isin(a[views == k] - layout.column_starts[view.target_table], mine).all():
            return False
    return True


def are_valid_conjunctions(layout: Layout, conjunctions: Array) -> bool:
    """Return whether features of three columns and more are valid.

    Each needs ascending own columns of one table and of different variables, a target state first, padded with -1.
    """
    if conjunctions.ndim != 2 or conjunctions.shape[1] < 3 or (conjunctions >= layout.n_columns).any():
        return False
    named = conjunctions >= 0
    if not named[:, :3].all() or (conjunctions < -1).any() or (named[:, 1:] & ~named[:, :-1]).any():
        return False
    first_is_state = layout.target_of_column[conjunctions[:, 0]] >= 0
    if not first_is_state.all() or (layout.view_of_column[conjunctions][named] >= 0).any():
        return False
    table = layout.table_of_column[conjunctions]
    if ((table != table[:, :1]) & named).any() or not _within_tables(layout).issuperset(table[named].tolist()):
        return False
    owner = layout.variable_of_own_column[conjunctions]
    rising = np.diff(conjunctions, axis=1) > 0
    apart = np.diff(owner, axis=1) != 0  # columns of one variable are adjacent
    return bool((rising & apart | ~named[:, 1:]).all())


def _within_tables(layout: Layout) -> set[int]:
    """Return the numbers of the tables whose columns are paired within a row."""
    return {block.left.table for block in layout.candidate_blocks if block.within}

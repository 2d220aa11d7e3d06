"""Filling hidden cells entity by entity: mean-field updates (Eq. 3) and Gibbs draws.

A web holds the rows that are to be filled, and those that they see, entity after entity in one flat array. A column
below 0 that is seen over a view is the number of neighbors.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def _cell_logits(web, theta, entity, cell, z):
    """Logits of one cell's states less the base, and the largest of all."""
    own, row = web.entity_place[entity], web.entity_row[entity]
    top = 0.0
    for s in range(web.cell_width[cell]):
        state = web.cell_state[cell] + s
        total = theta[state]
        for k in range(web.arc_offsets[state], web.arc_offsets[state + 1]):
            column, view = web.arc_column[k], web.arc_view[k]
            if view < 0:
                seen = web.beliefs[own + column]
            else:
                seen = 0.0
                at = web.view_start[view] + row
                for n in range(web.neighbor_offsets[at], web.neighbor_offsets[at + 1]):
                    seen += web.beliefs[web.neighbor_place[n] + column] if column >= 0 else 1.0
            total += theta[web.arc_feature[k]] * seen
        for k in range(web.term_offsets[state], web.term_offsets[state + 1]):
            product = theta[web.term_feature[k]]
            for j in range(web.term_column.shape[1]):
                if web.term_column[k, j] >= 0:
                    product *= web.beliefs[own + web.term_column[k, j]]
            total += product
        z[s] = total
        top = max(top, total)
    return top


@njit(nogil=True, cache=True)
def _softmax(z, top, count):
    """Turn logits into probabilities in place."""
    total = math.exp(-top)
    for s in range(count):
        z[s] = math.exp(z[s] - top)
        total += z[s]
    for s in range(count):
        z[s] /= total


@njit(nogil=True, cache=True)
def mean_field(web, theta, tolerance, max_sweeps, damping):
    """Visit the entities in order, and update the gaps of each, until no belief moves by more than ``tolerance``.

    Entities that see each other, at first hand or over others, go on together until the largest change among them in a
    round is small; what others do never matters to them. Returns how many entities had not settled at the cap.
    """
    entities = web.entity_place.shape[0]
    moving = np.ones(web.n_circles, dtype=np.bool_)
    change = np.zeros(web.n_circles)
    z = np.empty(web.widest)
    left = entities
    for _ in range(max_sweeps):
        for c in range(web.n_circles):
            change[c] = 0.0
        for e in range(entities):
            circle = web.entity_circle[e]
            if not moving[circle]:
                continue
            for g in range(web.cell_offsets[e], web.cell_offsets[e + 1]):
                top = _cell_logits(web, theta, e, g, z)
                _softmax(z, top, web.cell_width[g])
                place = web.entity_place[e] + web.cell_column[g]
                for s in range(web.cell_width[g]):
                    old = web.beliefs[place + s]
                    new = old + (1.0 - damping) * (z[s] - old)
                    web.beliefs[place + s] = new
                    change[circle] = max(change[circle], abs(new - old))
        for c in range(web.n_circles):
            moving[c] = moving[c] and change[c] > tolerance
        left = 0
        for e in range(entities):
            left += moving[web.entity_circle[e]]
        if left == 0:
            return 0
    return left


@njit(nogil=True, cache=True)
def gibbs(web, theta, rng, sweeps, drawn):
    """Draw every gap, ``sweeps`` times over; beliefs hold the drawn states one-hot, ``drawn`` their codes."""
    z = np.empty(web.widest)
    for _ in range(sweeps):
        for e in range(web.entity_place.shape[0]):
            for g in range(web.cell_offsets[e], web.cell_offsets[e + 1]):
                top = _cell_logits(web, theta, e, g, z)
                _softmax(z, top, web.cell_width[g])
                left = rng.random()
                drawn[g] = 0
                for s in range(web.cell_width[g]):
                    left -= z[s]
                    if left < 0.0:
                        drawn[g] = s + 1
                        break
                place = web.entity_place[e] + web.cell_column[g]
                for s in range(web.cell_width[g]):
                    web.beliefs[place + s] = 1.0 if drawn[g] == s + 1 else 0.0

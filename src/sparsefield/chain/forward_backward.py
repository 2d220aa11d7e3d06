"""Sums over the labelings of linear chains, posteriors and the likelihood; and the most probable labeling (Viterbi).

Sums are products of exponentials, rescaled where they become small; no logarithm of a sum is taken per label. A chain
whose sums underflow all the same is summed in the log domain. Rows of labels are as in
`sparsefield.kernels.chain_scores`.
"""

# Intrinsics are called without their first parameter, the context.
# pyright: reportCallIssue=false

import math

import numpy as np
from numba import njit

from sparsefield.kernels import elementary as vec
from sparsefield.kernels.chain_scores import padded_width, state_scores
from sparsefield.kernels.elementary import FAST, LANES, exp_nonpositive

_SMALL_SUM = 1e-50
"""Sums below this are rescaled."""
_LEAST_SUM = 1e-150
"""Sums that fall below this in one step have lost terms."""
_LEAST_NORM = 1e-200


@njit(nogil=True, cache=True, fastmath=FAST)
def exponentiate(scores, n, width, psi):
    """Set psi = exp(scores - maximum of the token); return the sum of these maxima."""
    total = 0.0
    for t in range(n):
        best = vec.load(scores, t * width)
        for q in range(LANES, width, LANES):
            best = vec.largest(best, vec.load(scores, t * width + q))
        top = vec.horizontal_max(best)
        negative = vec.splat(-top)
        for q in range(t * width, (t + 1) * width, LANES):
            vec.store(psi, q, vec.add(vec.load(scores, q), negative))
        total += top
    for k in range(n * width):
        psi[k] = exp_nonpositive(psi[k])
    return total


@njit(nogil=True, cache=True, forceinline=True)
def _clamp(psi, width, known):
    """Set psi to 0 for labels other than the known one of a token."""
    for t in range(len(known)):
        if known[t] >= 0:
            for j in range(width):
                if j != known[t]:
                    psi[t * width + j] = 0.0


@njit(nogil=True, cache=True, forceinline=True)
def _multiply(vector, place, matrix, m, width, out, target):
    """Set a row of ``out`` to the product of a row of ``vector`` with a matrix, (m x width,)."""
    for q in range(0, width - LANES, 2 * LANES):
        one, other = vec.splat(0.0), vec.splat(0.0)
        for i in range(m):
            weight = vector[place + i]
            one = vec.add_product(one, weight, vec.load(matrix, i * width + q))
            other = vec.add_product(other, weight, vec.load(matrix, i * width + q + LANES))
        vec.store(out, target + q, one)
        vec.store(out, target + q + LANES, other)
    if width % (2 * LANES):
        q = width - LANES
        one = vec.splat(0.0)
        for i in range(m):
            one = vec.add_product(one, vector[place + i], vec.load(matrix, i * width + q))
        vec.store(out, target + q, one)


@njit(nogil=True, cache=True, forceinline=True)
def _rescale(row, place, width, factor):
    scale = vec.splat(factor)
    for q in range(place, place + width, LANES):
        vec.store(row, q, vec.multiply(vec.load(row, q), scale))


@njit(nogil=True, cache=True)
def _forward(psi, n, m, width, steps, alpha, scales):
    """Set alpha in proportion to p(label | tokens so far), each divided by its scale; return ln of the sum of all.

    The result is NaN where sums underflow."""
    log_scale = 0.0
    total = 0.0
    for t in range(n):
        place = t * width
        summed = vec.splat(0.0)
        if t == 0:
            for q in range(0, width, LANES):
                here = vec.load(psi, q)
                vec.store(alpha, q, here)
                summed = vec.add(summed, here)
        else:
            _multiply(alpha, place - width, steps, m, width, alpha, place)
            for q in range(place, place + width, LANES):
                here = vec.multiply(vec.load(alpha, q), vec.load(psi, q))
                vec.store(alpha, q, here)
                summed = vec.add(summed, here)
        total, scales[t] = vec.horizontal_sum(summed), 1.0
        if total < _SMALL_SUM:
            if not total > _LEAST_SUM:
                return np.nan
            _rescale(alpha, place, width, 1.0 / total)
            scales[t] = total
            log_scale += math.log(total)
            total = 1.0
    return log_scale + math.log(total)


@njit(nogil=True, cache=True)
def _backward(psi, n, m, width, steps_back, alpha, beta, norms, buffer):
    """Set beta in proportion to p(tokens after this one | label), and norms to alpha . beta; return whether it worked.

    ``steps_back`` is the transpose of ``steps``, so that inner loops run over neighbors in memory.
    """
    for t in range(n - 1, -1, -1):
        place = t * width
        if t == n - 1:
            for q in range(place, place + width, LANES):
                vec.store(beta, q, vec.splat(1.0))
        else:
            for q in range(0, width, LANES):
                behind = place + width + q
                vec.store(buffer, q, vec.multiply(vec.load(psi, behind), vec.load(beta, behind)))
            _multiply(buffer, 0, steps_back, m, width, beta, place)
        summed, norm = vec.splat(0.0), vec.splat(0.0)
        for q in range(place, place + width, LANES):
            here = vec.load(beta, q)
            summed = vec.add(summed, here)
            norm = vec.add(norm, vec.multiply(here, vec.load(alpha, q)))
        total, norms[t] = vec.horizontal_sum(summed), vec.horizontal_sum(norm)
        if total < _SMALL_SUM:
            if not total > _LEAST_SUM:
                return False
            _rescale(beta, place, width, 1.0 / total)
            norms[t] /= total
        if not norms[t] > _LEAST_NORM:
            return False
    return True


@njit(nogil=True, cache=True, forceinline=True)
def _add_posteriors(n, width, alpha, beta, norms, sign, posteriors, first):
    """Add sign x p(label) to the posteriors of tokens."""
    for t in range(n):
        inverse = vec.splat(sign / norms[t])
        for q in range(t * width, (t + 1) * width, LANES):
            here = vec.multiply(vec.multiply(vec.load(alpha, q), vec.load(beta, q)), inverse)
            vec.store(posteriors, first * width + q, vec.add(vec.load(posteriors, first * width + q), here))


@njit(nogil=True, cache=True, forceinline=True)
def _add_pairs(psi, n, m, width, alpha, beta, scales, norms, sign, pairs, buffer):
    """Add sign x p(label, next label) / step, summed over tokens, to pairs, (m x width,)."""
    for t in range(1, n):
        inverse = vec.splat(sign / (norms[t] * scales[t]))
        for q in range(0, width, LANES):
            here = vec.multiply(vec.load(psi, t * width + q), vec.load(beta, t * width + q))
            vec.store(buffer, q, vec.multiply(here, inverse))
        for i in range(m):
            weight = alpha[(t - 1) * width + i]
            for q in range(0, width, LANES):
                place = i * width + q
                vec.store(pairs, place, vec.add_product(vec.load(pairs, place), weight, vec.load(buffer, q)))


@njit(nogil=True, cache=True)
def _log_sum(values):
    """Return ln of the sum of exp(values)."""
    top = values.max()
    if top == -np.inf:
        return top
    return top + math.log(np.exp(values - top).sum())


@njit(nogil=True, cache=True)
def sum_in_log_domain(scores, transitions, codes, sign, posteriors, pairs):
    """Add posteriors and pairs of one chain, for scores of any size; return ln of the sum over all labelings.

    Labels other than the known ones count only where ``codes`` has no label. ``posteriors`` is (tokens, labels);
    ``pairs``, (labels, labels), gets p(label, next label).
    """
    n, m = scores.shape
    here = scores.copy()
    for t in range(n):
        for j in range(m):
            if codes[t] >= 0 and codes[t] != j:
                here[t, j] = -np.inf
    alpha, beta = here.copy(), np.zeros((n, m))
    for t in range(1, n):
        for j in range(m):
            alpha[t, j] = here[t, j] + _log_sum(alpha[t - 1] + transitions[:, j])
    for t in range(n - 2, -1, -1):
        for i in range(m):
            beta[t, i] = _log_sum(transitions[i] + here[t + 1] + beta[t + 1])
    total = _log_sum(alpha[n - 1])
    for t in range(n):
        for j in range(m):
            posteriors[t, j] += sign * math.exp(alpha[t, j] + beta[t, j] - total)
            if t > 0:
                for i in range(m):
                    joint = alpha[t - 1, i] + transitions[i, j] + here[t, j] + beta[t, j] - total
                    pairs[i, j] += sign * math.exp(joint)
    return total


@njit(nogil=True, cache=True)
def _sum_chain(scores, transitions, known, begin, sign, work, posteriors, pairs, log_pairs):
    """Add the posteriors of one chain, with its known labels clamped; return the logarithm of its sum."""
    psi, alpha, beta, scales, norms, buffer, steps, steps_back, top_step = work
    n, m = len(known), transitions.shape[0]
    width = padded_width(m)
    total = exponentiate(scores, n, width, psi) + (n - 1) * top_step
    _clamp(psi, width, known)
    log_sum = _forward(psi, n, m, width, steps, alpha, scales)
    if math.isfinite(log_sum) and _backward(psi, n, m, width, steps_back, alpha, beta, norms, buffer):
        _add_posteriors(n, width, alpha, beta, norms, sign, posteriors, begin)
        _add_pairs(psi, n, m, width, alpha, beta, scales, norms, sign, pairs, buffer)
        return total + log_sum
    rows = scores[: n * width].reshape(n, width)
    out = posteriors[begin * width : (begin + n) * width].reshape(n, width)
    return sum_in_log_domain(rows[:, :m], transitions, known, sign, out[:, :m], log_pairs)


@njit(nogil=True, cache=True, fastmath=FAST)
def _prepare(transitions, longest):
    """Return arrays that the sums of a chain write to, and the exponentials of the transitions."""
    m = transitions.shape[0]
    width = padded_width(m)
    top = transitions.max()
    steps, steps_back = np.zeros(m * width), np.zeros(m * width)
    for i in range(m):
        for j in range(m):
            steps[i * width + j] = steps_back[j * width + i] = exp_nonpositive(transitions[i, j] - top)
    size = longest * width
    psi, alpha, beta, buffer = np.empty(size), np.empty(size), np.empty(size), np.empty(width)
    return psi, alpha, beta, np.empty(longest), np.empty(longest), buffer, steps, steps_back, top


@njit(nogil=True, cache=True, forceinline=True)
def _subtract_path(scores, transitions, codes, begin, end, width, weight, errors, pairs):
    """Subtract the labels of a chain from errors and pairs; return the score of the chain with these labels."""
    total = 0.0
    for t in range(begin, end):
        code = codes[t]
        total += scores[(t - begin) * width + code]
        errors[t * width + code] -= weight
        if t > begin:
            total += transitions[codes[t - 1], code]
            pairs[codes[t - 1], code] -= weight
    return total


@njit(nogil=True, cache=True)
def chain_errors(table, parameters, codes, chain_weights, first, last, errors, pairs):
    """Return minus the weighted log-likelihood of the labels of the chains from ``first`` to ``last``.

    Labels that are not known are summed out. A chain without any known label is left out.

    Parameters
    ----------
    table : as in `sparsefield.kernels.chain_scores.state_scores`
    parameters : state weights and scores of a token without attributes, as there, and transitions, (labels, labels)
    codes : (tokens,), labels; -1 for those that are not known
    chain_weights : (chains,)
    errors : (tokens x width,), output: weight of the chain x (p(label) - p(label | known labels))
    pairs : (labels, labels), output: the same of a label and the next one, summed over tokens
    """
    weights, base, transitions = parameters
    offsets = table[0]
    longest, m = np.diff(offsets[first : last + 1]).max(), transitions.shape[0]
    width = padded_width(m)
    scores, work = np.empty(longest * width), _prepare(transitions, longest)
    steps = work[6]
    scaled, exact = np.zeros(m * width), np.zeros((m, m))
    unknown = np.full(longest, -1)
    loss = 0.0
    for k in range(offsets[first] * width, offsets[last] * width):
        errors[k] = 0.0
    for s in range(first, last):
        begin, end, weight = offsets[s], offsets[s + 1], chain_weights[s]
        known = 0
        for t in range(begin, end):
            known += codes[t] >= 0
        if known == 0:
            continue
        state_scores(table, weights, base, begin, end, scores)
        total = _sum_chain(scores, transitions, unknown[: end - begin], begin, weight, work, errors, scaled, exact)
        if known == end - begin:
            total -= _subtract_path(scores, transitions, codes, begin, end, width, weight, errors, exact)
        else:
            total -= _sum_chain(scores, transitions, codes[begin:end], begin, -weight, work, errors, scaled, exact)
        loss += weight * total
    for i in range(m):
        for j in range(m):
            pairs[i, j] = scaled[i * width + j] * steps[i * width + j] + exact[i, j]
    return loss


@njit(nogil=True, cache=True)
def chain_marginals(table, parameters, codes, first, last, marginals, log_sums):
    """Set marginals, (tokens x width,), and the logarithm of the sum over labelings of each chain, (chains,).

    Known labels, codes of at least 0, are clamped: the sum is over labelings that have them.
    """
    weights, base, transitions = parameters
    offsets = table[0]
    longest, m = np.diff(offsets[first : last + 1]).max(), transitions.shape[0]
    width = padded_width(m)
    scores, work = np.empty(longest * width), _prepare(transitions, longest)
    pairs, exact = np.zeros(m * width), np.zeros((m, m))
    for s in range(first, last):
        begin, end = offsets[s], offsets[s + 1]
        log_sums[s] = 0.0
        if begin == end:
            continue
        for k in range(begin * width, end * width):
            marginals[k] = 0.0
        state_scores(table, weights, base, begin, end, scores)
        log_sums[s] = _sum_chain(scores, transitions, codes[begin:end], begin, 1.0, work, marginals, pairs, exact)


@njit(nogil=True, cache=True, fastmath=FAST, forceinline=True)
def _viterbi(scores, n, transitions, best, reached, came):
    """Set best to the scores of the best labelings that end in each label, and came to the labels before it."""
    m, width = transitions.shape[0], padded_width(transitions.shape[0])
    for j in range(m):
        best[j] = scores[j]
    for t in range(1, n):
        for j in range(m):
            reached[j] = best[0] + transitions[0, j]
            came[t, j] = 0
        for i in range(1, m):
            for j in range(m):
                value = best[i] + transitions[i, j]
                better = value > reached[j]
                reached[j] = value if better else reached[j]
                came[t, j] = i if better else came[t, j]
        for j in range(m):
            best[j] = reached[j] + scores[t * width + j]


@njit(nogil=True, cache=True, fastmath=FAST)
def best_paths(table, parameters, first, last, paths):
    """Set paths, (tokens,), to the most probable labels of the chains from ``first`` to ``last``.

    ``table`` and ``parameters`` are as in `chain_errors`. Of equally probable
    labels, the first is taken.
    """
    weights, base, transitions = parameters
    offsets = table[0]
    m, longest = transitions.shape[0], np.diff(offsets[first : last + 1]).max()
    scores = np.empty(longest * padded_width(m))
    best, reached, came = np.empty(m), np.empty(m), np.zeros((longest, m), dtype=np.int64)
    for s in range(first, last):
        begin, end = offsets[s], offsets[s + 1]
        if begin == end:
            continue
        state_scores(table, weights, base, begin, end, scores)
        _viterbi(scores, end - begin, transitions, best, reached, came)
        code = 0
        for j in range(1, m):
            code = j if best[j] > best[code] else code
        for t in range(end - 1, begin - 1, -1):
            paths[t] = code
            code = came[t - begin, code]

"""Vectorized loops that the other kernels are built from."""

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

FAST = {"reassoc", "contract", "nsz"}
"""Fast-math flags: sums may be reordered for vector instructions, but NaN and infinity keep their meaning.

A function with these flags may round differently when it is compiled on its own and when it is part of a kernel, and
which of the two is called would depend on what this process has compiled. So functions that a kernel calls are inlined,
or are compiled to the same code either way (a test compares compiled with cached kernels).
"""

_LOWEST, _LOG2_E, _HALF, _ONE = np.float32(-86.0), np.float32(1.44269504), np.float32(0.5), np.float32(1.0)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_C2, _C3, _C4, _C5, _C6 = (np.float32(1 / value) for value in (2, 6, 24, 120, 720))
"""Constants of `exp_nonpositive_narrow`: its lowest argument, ln 2 in two parts, coefficients of the series of exp."""


@intrinsic
def _two_to_the(typingctx, exponent):  # pyright: ignore[reportUnusedFunction]
    """Return 2.0 ** exponent by writing the exponent bits of a double, or of a float for an int32."""
    narrow = exponent == types.int32
    bias, shift, number = (127, 23, ir.FloatType()) if narrow else (1023, 52, ir.DoubleType())

    def codegen(context, builder, signature, args):
        bits = builder.shl(builder.add(args[0], ir.Constant(args[0].type, bias)), ir.Constant(args[0].type, shift))
        return builder.bitcast(bits, number)

    return (types.float32(types.int32) if narrow else types.float64(types.int64)), codegen


@intrinsic
def _fetch(typingctx, array, index):  # pyright: ignore[reportUnusedFunction]
    """Emit the prefetch instruction of the processor."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        address = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, flag, flag, flag])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(function, [address, flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, index), codegen


@njit(nogil=True, cache=True, inline="always")
def prefetch(array, index):
    """Start loading array[index] into the cache without waiting; ``index`` must be within a flat array."""
    _fetch(array, index)  # pyright: ignore[reportCallIssue]


@njit(nogil=True, cache=True, inline="always", fastmath={"contract", "nsz"})
def exp_nonpositive(x):
    """Return exp(x) for x <= 0 with a relative error below 1e-13; unlike the C function it can be vectorized."""
    x = x if x > -708.0 else -708.0
    k = np.int64(x * 1.4426950408889634 - 0.5)
    n = np.float64(k)
    # ln 2 is split into two parts, so that the reduced argument keeps full precision.
    r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 + r) + r2 * (0.5 + r * (1 / 6))
    middle = (1 / 24 + r * (1 / 120)) + r2 * (1 / 720 + r * (1 / 5040))
    high = (1 / 40320 + r * (1 / 362880)) + r2 * (1 / 3628800 + r * (1 / 39916800))
    return (low + r4 * middle + (r4 * r4) * high) * _two_to_the(k)  # pyright: ignore[reportCallIssue]


@njit(nogil=True, cache=True, inline="always", fastmath={"contract", "nsz"})
def exp_nonpositive_narrow(x):
    """Return exp(x) of a float32 x <= 0 with a relative error below 3e-7; values below e^-86 become e^-86."""
    x = x if x > _LOWEST else _LOWEST
    k = np.int32(x * _LOG2_E - _HALF)
    n = np.float32(k)
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    r2 = r * r
    low = (_ONE + r) + r2 * (_C2 + r * _C3)
    high = (_C4 + r * _C5) + r2 * _C6
    return (low + (r2 * r2) * high) * _two_to_the(k)  # pyright: ignore[reportCallIssue]


@njit(nogil=True, cache=True, fastmath=FAST)
def exp_minus_abs(z, out):
    """Set out = exp(-|z|)."""
    for i in range(z.shape[0]):
        out[i] = exp_nonpositive(-abs(z[i]))


@njit(nogil=True, cache=True, fastmath=FAST)
def exp_below_in_place(z, top):
    """Replace z by exp(z - top), where top >= z."""
    for i in range(z.shape[0]):
        z[i] = exp_nonpositive(z[i] - top[i])


@njit(nogil=True, cache=True, fastmath=FAST)
def add_scaled(z, factor, column):
    """Add factor * column to z."""
    for i in range(z.shape[0]):
        z[i] += factor * column[i]


@njit(nogil=True, cache=True, fastmath=FAST)
def dot(a, b):
    """Return the dot product of two vectors."""
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@njit(nogil=True, cache=True, fastmath=FAST)
def add_four_scaled(z, factors, columns, which):
    """Add four columns, each times its factor, to z in one pass instead of four."""
    a, b, c, d = columns[which[0]], columns[which[1]], columns[which[2]], columns[which[3]]
    fa, fb, fc, fd = factors[0], factors[1], factors[2], factors[3]
    for i in range(z.shape[0]):
        z[i] += fa * a[i] + fb * b[i] + fc * c[i] + fd * d[i]


@njit(nogil=True, cache=True, fastmath=FAST)
def four_dots(e, columns, a, b, c, d):
    """Return the dot products of e with four columns, in one pass over e."""
    ca, cb, cc, cd = columns[a], columns[b], columns[c], columns[d]
    ta, tb, tc, td = 0.0, 0.0, 0.0, 0.0
    for i in range(e.shape[0]):
        ta += e[i] * ca[i]
        tb += e[i] * cb[i]
        tc += e[i] * cc[i]
        td += e[i] * cd[i]
    return ta, tb, tc, td

"""Vectorized loops, vectors of four numbers and random numbers, which the other kernels are built from."""

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, models, register_model

FAST = {"reassoc", "contract", "nsz"}
"""Fast-math flags: sums may be reordered for vector instructions, but NaN and infinity keep their meaning.

A function with these flags may round differently when it is compiled on its own and when it is part of a kernel, and
which of the two is called would depend on what this process has compiled. So functions that a kernel calls are inlined,
or are compiled to the same code either way (a test compares compiled with cached kernels).
"""


@intrinsic
def _two_to_the(typingctx, exponent):  # pyright: ignore[reportUnusedFunction]
    """Return 2.0 ** exponent by writing the exponent bits of a double, or of a float for an int32."""
    narrow = exponent == types.int32
    bias, shift, number = (127, 23, ir.FloatType()) if narrow else (1023, 52, ir.DoubleType())

    def codegen(context, builder, signature, args):
        bits = builder.shl(builder.add(args[0], ir.Constant(args[0].type, bias)), ir.Constant(args[0].type, shift))
        return builder.bitcast(bits, number)

    return (types.float32(types.int32) if narrow else types.float64(types.int64)), codegen


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


@njit(nogil=True, cache=True, fastmath=FAST)
def exp_minus_abs(z, out):
    """Set out = exp(-|z|)."""
    for i in range(z.shape[0]):
        out[i] = exp_nonpositive(-abs(z[i]))


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


@njit(nogil=True, cache=True)
def mix(key, value):
    """Return a 64-bit hash of two numbers (the finalizer of SplitMix64)."""
    z = (key ^ np.uint64(value)) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(nogil=True, cache=True)
def uniform(stream):
    """Return a uniform number in [0, 1) and the advanced stream (SplitMix64)."""
    stream += np.uint64(0x9E3779B97F4A7C15)
    return np.float64(mix(stream, 0) >> np.uint64(11)) * 2.0**-53, stream


# -- vectors of four numbers, for loops over labels that the compiler does not vectorize by itself: fits of chains of 5,
# 12 and 45 labels take 1.5, 1.4 and 1.3 times as long with plain loops. Arrays are flat; the caller pads rows.

LANES = 4
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)


class LanesType(types.Type):
    """The type of a vector within a kernel."""


_LANES = LanesType(name="Lanes")


@register_model(LanesType)
class LanesModel(models.PrimitiveModel):
    """A vector is held in one register of the processor, or in several small ones."""

    def __init__(self, manager, kind) -> None:
        super().__init__(manager, kind, _VECTOR)


def _address(context, builder, kind, array, index):
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())


@intrinsic
def load(typingctx, array, index):
    """Return as many numbers of an array, from an index on, as a vector has."""

    def codegen(context, builder, signature, args):
        return builder.load(_address(context, builder, signature.args[0], args[0], args[1]), align=8)

    return _LANES(array, types.intp), codegen


@intrinsic
def store(typingctx, array, index, value):
    """Set as many numbers of an array, from an index on, as a vector has."""

    def codegen(context, builder, signature, args):
        builder.store(args[2], _address(context, builder, signature.args[0], args[0], args[1]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), codegen


def _splat(builder, number):
    vector = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.IntType(32)(0))
    return builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


@intrinsic
def splat(typingctx, number):
    """Return a vector whose numbers are all the same."""

    def codegen(context, builder, signature, args):
        return _splat(builder, args[0])

    return _LANES(number), codegen


def _elementwise(build):
    """Return the function of two vectors that emits what ``build(builder, a, b)`` returns."""

    @intrinsic
    def operation(typingctx, a, b):
        def codegen(context, builder, signature, args):
            return build(builder, *args)

        return a(a, b), codegen

    return operation


add = _elementwise(lambda builder, a, b: builder.fadd(a, b))
multiply = _elementwise(lambda builder, a, b: builder.fmul(a, b))
largest = _elementwise(lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))


@intrinsic
def add_product(typingctx, total, factor, b):
    """Return total + factor * b, where ``factor`` is a number."""

    def codegen(context, builder, signature, args):
        product = builder.fmul(_splat(builder, args[1]), args[2], flags=("contract",))
        return builder.fadd(args[0], product, flags=("contract",))

    return total(total, factor, b), codegen


def _numbers(builder, vector):
    return [builder.extract_element(vector, ir.IntType(32)(k)) for k in range(LANES)]


@intrinsic
def horizontal_sum(typingctx, a):
    """Return the sum of the numbers of a vector."""

    def codegen(context, builder, signature, args):
        first, second, third, fourth = _numbers(builder, args[0])
        return builder.fadd(builder.fadd(first, third), builder.fadd(second, fourth))

    return types.float64(a), codegen


@intrinsic
def horizontal_max(typingctx, a):
    """Return the largest number of a vector."""

    def codegen(context, builder, signature, args):
        best, *rest = _numbers(builder, args[0])
        for part in rest:
            best = builder.select(builder.fcmp_ordered(">", part, best), part, best)
        return best

    return types.float64(a), codegen

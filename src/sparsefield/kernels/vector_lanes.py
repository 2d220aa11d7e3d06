"""This module gives kernels vectors of 32 bytes, for loops that the compiler does not vectorize well by itself.

A vector has four numbers of float64 or eight of float32. Arrays are flat; the caller pads rows to a multiple of `LANES`
or `SINGLE_LANES`.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

LANES, SINGLE_LANES = 4, 8


class LanesType(types.Type):
    """The type of a vector within a kernel."""

    def __init__(self, dtype: types.Float, count: int) -> None:
        self.dtype, self.count = dtype, count
        super().__init__(name=f"Lanes{count}")

    @property
    def vector(self) -> ir.VectorType:
        """The type of the vector in the compiled code."""
        return ir.VectorType(ir.FloatType() if self.dtype == types.float32 else ir.DoubleType(), self.count)


_KINDS = {types.float64: LanesType(types.float64, LANES), types.float32: LanesType(types.float32, SINGLE_LANES)}


@register_model(LanesType)
class LanesModel(models.PrimitiveModel):
    """A vector is held in one register of the processor, or in several small ones."""

    def __init__(self, manager, kind) -> None:
        super().__init__(manager, kind, kind.vector)


def _address(context, builder, kind, array, index):
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _KINDS[kind.dtype].vector.as_pointer())


@intrinsic
def load(typingctx, array, index):
    """Return as many numbers of an array, from an index on, as a vector has."""

    def codegen(context, builder, signature, args):
        kind = signature.args[0]
        return builder.load(_address(context, builder, kind, args[0], args[1]), align=kind.dtype.bitwidth // 8)

    return _KINDS[array.dtype](array, types.intp), codegen


@intrinsic
def store(typingctx, array, index, value):
    """Set as many numbers of an array, from an index on, as a vector has."""

    def codegen(context, builder, signature, args):
        kind = signature.args[0]
        address = _address(context, builder, kind, args[0], args[1])
        builder.store(args[2], address, align=kind.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), codegen


def _splat(builder, kind, number):
    vector = builder.insert_element(ir.Constant(kind.vector, ir.Undefined), number, ir.IntType(32)(0))
    return builder.shuffle_vector(vector, vector, _places(0, kind.count, step=0))


def _places(first, count, step=1):
    """Return consecutive numbers, or the same number several times, as a constant of the compiled code."""
    return ir.Constant(ir.VectorType(ir.IntType(32), count), [first + step * k for k in range(count)])


@intrinsic
def splat(typingctx, number):
    """Return a vector whose numbers are all the same."""

    def codegen(context, builder, signature, args):
        return _splat(builder, signature.return_type, args[0])

    return _KINDS[number](number), codegen


@intrinsic
def add(typingctx, a, b):
    """Return a + b."""

    def codegen(context, builder, signature, args):
        return builder.fadd(args[0], args[1])

    return a(a, b), codegen


@intrinsic
def multiply(typingctx, a, b):
    """Return a * b."""

    def codegen(context, builder, signature, args):
        return builder.fmul(args[0], args[1])

    return a(a, b), codegen


@intrinsic
def add_product(typingctx, total, factor, b):
    """Return total + factor * b, where ``factor`` is a number or a vector."""

    def codegen(context, builder, signature, args):
        kind = signature.args[1]
        vector = args[1] if isinstance(kind, LanesType) else _splat(builder, signature.return_type, args[1])
        product = builder.fmul(vector, args[2], flags=("contract",))
        return builder.fadd(args[0], product, flags=("contract",))

    return total(total, factor, b), codegen


@intrinsic
def largest(typingctx, a, b):
    """Return the larger of a and b, number by number."""

    def codegen(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[0], args[1])

    return a(a, b), codegen


@intrinsic
def horizontal_sum(typingctx, a):
    """Return the sum of the numbers of a vector; halves of the vector are added until one number is left."""

    def codegen(context, builder, signature, args):
        vector, count = args[0], signature.args[0].count
        while count > 1:
            count //= 2
            low = builder.shuffle_vector(vector, vector, _places(0, count))
            vector = builder.fadd(low, builder.shuffle_vector(vector, vector, _places(count, count)))
        return builder.extract_element(vector, ir.IntType(32)(0))

    return a.dtype(a), codegen


@intrinsic
def horizontal_max(typingctx, a):
    """Return the largest number of a vector."""

    def codegen(context, builder, signature, args):
        best, *rest = [builder.extract_element(args[0], ir.IntType(32)(k)) for k in range(signature.args[0].count)]
        for part in rest:
            best = builder.select(builder.fcmp_ordered(">", part, best), part, best)
        return best

    return a.dtype(a), codegen

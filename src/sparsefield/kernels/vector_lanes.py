"""This module gives kernels vectors of four numbers, for loops that are too short for the compiler to vectorize well.

Arrays are flat, and of float64; the caller pads rows to a multiple of `LANES`.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

LANES = 4
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_ALIGNMENT = 8


class LanesType(types.Type):
    """The type of a vector of four numbers within a kernel."""

    def __init__(self) -> None:
        super().__init__(name="Lanes4")


lanes = LanesType()


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
    """Return array[index : index + 4]."""

    def codegen(context, builder, signature, args):
        return builder.load(_address(context, builder, signature.args[0], args[0], args[1]), align=_ALIGNMENT)

    return lanes(array, types.intp), codegen


@intrinsic
def store(typingctx, array, index, value):
    """Set array[index : index + 4] = value."""

    def codegen(context, builder, signature, args):
        builder.store(args[2], _address(context, builder, signature.args[0], args[0], args[1]), align=_ALIGNMENT)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), codegen


def _splat(builder, number):
    vector = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.IntType(32)(0))
    return builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


@intrinsic
def splat(typingctx, number):
    """Return a vector whose numbers are all the same."""

    def codegen(context, builder, signature, args):
        return _splat(builder, args[0])

    return lanes(types.float64), codegen


@intrinsic
def add(typingctx, a, b):
    """Return a + b."""

    def codegen(context, builder, signature, args):
        return builder.fadd(args[0], args[1])

    return lanes(lanes, lanes), codegen


@intrinsic
def multiply(typingctx, a, b):
    """Return a * b."""

    def codegen(context, builder, signature, args):
        return builder.fmul(args[0], args[1])

    return lanes(lanes, lanes), codegen


@intrinsic
def add_product(typingctx, total, number, b):
    """Return total + number * b, where ``number`` is not a vector."""

    def codegen(context, builder, signature, args):
        product = builder.fmul(_splat(builder, args[1]), args[2], flags=("contract",))
        return builder.fadd(args[0], product, flags=("contract",))

    return lanes(lanes, types.float64, lanes), codegen


@intrinsic
def largest(typingctx, a, b):
    """Return the larger of a and b, number by number."""

    def codegen(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[0], args[1])

    return lanes(lanes, lanes), codegen


@intrinsic
def horizontal_sum(typingctx, a):
    """Return the sum of the numbers of a vector."""

    def codegen(context, builder, signature, args):
        parts = [builder.extract_element(args[0], ir.IntType(32)(k)) for k in range(LANES)]
        return builder.fadd(builder.fadd(parts[0], parts[2]), builder.fadd(parts[1], parts[3]))

    return types.float64(lanes), codegen


@intrinsic
def horizontal_max(typingctx, a):
    """Return the largest number of a vector."""

    def codegen(context, builder, signature, args):
        best, *rest = [builder.extract_element(args[0], ir.IntType(32)(k)) for k in range(LANES)]
        for part in rest:
            best = builder.select(builder.fcmp_ordered(">", part, best), part, best)
        return best

    return types.float64(lanes), codegen

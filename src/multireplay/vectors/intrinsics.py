"""What LLVM can do and Numba has no word for: eight numbers at a time, and asking for memory before it is needed.

Loops over coordinates are written in packs of eight, because a loop that Numba leaves to LLVM to make them of begins
every row of features with tests of which arrays overlap. LLVM splits a pack where the processor's registers are
shorter. Arithmetic is in float64; numbers that are stored in float32 are converted on the way. Rows are asked for some
steps ahead, so that a scattered order does not wait for memory at every step.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from multireplay._jit import kernel

_LINE = 64
_BYTE_ALIGNED = 1
WIDTH = 8
"""Numbers in a pack: a cache line of float64."""
AHEAD = 8
"""Steps ahead, where the bytes of a row are not known. The positions are, so any order can be fetched ahead."""
REACH = 2**13
"""Bytes ahead for dense rows: enough to cover the latency of memory, and little beside the second cache."""
_MOST = 16 * _LINE  # more at once than this would wait for each other; `coordinates.move` asks piece by piece instead

_NUMBER, _SHORT_INTEGER, _WORD = ir.DoubleType(), ir.IntType(32), ir.IntType(64)
_PACK = ir.VectorType(_NUMBER, WIDTH)


class PackType(types.Type):  # type: ignore[misc]
    """The type of a pack."""

    def __init__(self) -> None:
        super().__init__(name=f"Pack({WIDTH} x float64)")


pack = PackType()


@register_model(PackType)
class _PackModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, front_end_type: Any) -> None:
        super().__init__(manager, front_end_type, _PACK)


def can_be_packed(*arrays: Any) -> bool:
    """Whether arrays of these types are such that neighbouring numbers lie side by side."""
    return all(array.layout == "C" and array.dtype in (types.float64, types.float32) for array in arrays)


class _Place:
    """A few numbers of a one-dimensional array from index `at` on, as LLVM sees them."""

    def __init__(self, context: Any, builder: Any, kind: Any, count: int, array: Any, at: Any) -> None:
        self.builder, self.bytes = builder, kind.dtype.bitwidth // 8
        data = builder.ptrtoint(context.make_array(kind)(context, builder, array).data, _WORD)
        address = builder.add(data, builder.mul(at, ir.Constant(_WORD, self.bytes)))
        self.type = ir.VectorType(_NUMBER if self.bytes == 8 else ir.FloatType(), count)
        self.pointer = builder.inttoptr(address, self.type.as_pointer())

    def load(self) -> Any:
        """The numbers, as float64."""
        values = self.builder.load(self.pointer, align=_BYTE_ALIGNED)
        return values if self.bytes == 8 else self.builder.fpext(values, ir.VectorType(_NUMBER, self.type.count))

    def store(self, values: Any) -> None:
        """Put these there."""
        narrowed = values if self.bytes == 8 else self.builder.fptrunc(values, self.type)
        self.builder.store(narrowed, self.pointer, align=_BYTE_ALIGNED)


def _indices(*which: int) -> Any:
    return ir.Constant(ir.VectorType(_SHORT_INTEGER, len(which)), list(which))


def _fill(builder: Any, value: Any) -> Any:
    nothing = ir.Constant(ir.VectorType(value.type, WIDTH), ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(_SHORT_INTEGER, 0))
    return builder.shuffle_vector(first, nothing, _indices(*[0] * WIDTH))


@intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def load(typing_context: Any, array: Any, at: Any, count: Any) -> Any:
    """array[at], …, array[at + count − 1] and zeros, for a count of 8, 4, 2 or 1 that is known when this is compiled.

    What is stored in parts must be loaded in the same parts: the processor hands a number that was just stored to
    the next load only if that asks for no more than was stored, and makes it wait for memory otherwise.
    """
    size = count.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = _Place(context, builder, signature.args[0], size, *arguments[:2]).load()
        zeros = ir.Constant(values.type, [0.0] * size)
        return builder.shuffle_vector(values, zeros, _indices(*[min(index, size) for index in range(WIDTH)]))

    return pack(array, types.intp, count), generate


@intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def store(typing_context: Any, array: Any, at: Any, count: Any, values: Any) -> Any:
    """array[at], …, array[at + count − 1] ← the first of the values, for a count as in `load`."""
    size = count.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = builder.shuffle_vector(arguments[3], arguments[3], _indices(*range(size)))
        _Place(context, builder, signature.args[0], size, *arguments[:2]).store(first)
        return context.get_dummy_value()

    return types.void(array, types.intp, count, pack), generate


@intrinsic  # type: ignore[untyped-decorator]
def as_stored(typing_context: Any, array: Any, values: Any) -> Any:
    """The values as they come out of an array into which they are stored: rounded, if it holds float32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if signature.args[0].dtype == types.float64:
            return arguments[1]
        shorter = builder.fptrunc(arguments[1], ir.VectorType(ir.FloatType(), WIDTH))
        return builder.fpext(shorter, _PACK)

    return pack(array, pack), generate


@intrinsic  # type: ignore[untyped-decorator]
def fill(typing_context: Any, value: Any) -> Any:
    """One number eight times."""
    return pack(types.float64), lambda context, builder, signature, arguments: _fill(builder, arguments[0])


@intrinsic  # type: ignore[untyped-decorator]
def multiply_add(typing_context: Any, left: Any, right: Any, added: Any) -> Any:
    """left · right + added, number by number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function = ir.FunctionType(_PACK, [_PACK] * 3)
        name = f"llvm.fmuladd.v{WIDTH}f64"
        return builder.call(cgutils.get_or_insert_function(builder.module, function, name), arguments)

    return pack(pack, pack, pack), generate


@intrinsic  # type: ignore[untyped-decorator]
def sum_of(typing_context: Any, left: Any, right: Any) -> Any:
    """The sum of all sixteen numbers of two packs."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function = ir.FunctionType(_NUMBER, [_NUMBER, _PACK])
        name = f"llvm.vector.reduce.fadd.v{WIDTH}f64"
        reduce = cgutils.get_or_insert_function(builder.module, function, name)
        return builder.call(reduce, [ir.Constant(_NUMBER, -0.0), builder.fadd(*arguments)], fastmath=("reassoc",))

    return types.float64(pack, pack), generate


@intrinsic  # type: ignore[untyped-decorator]
def ask(typing_context: Any, array: Any, row: Any, offset: Any) -> Any:
    """Ask for the cache line at `offset` bytes into `row` of the array: LLVM's prefetch, which never faults."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        struct = context.make_array(signature.args[0])(context, builder, arguments[0])
        word, byte = ir.IntType(64), ir.IntType(8).as_pointer()
        stride = cgutils.unpack_tuple(builder, struct.strides)[0]
        start = builder.add(builder.ptrtoint(struct.data, word), builder.mul(arguments[1], stride))
        address = builder.inttoptr(builder.add(start, arguments[2]), byte)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        read, second_cache, data = (ir.Constant(number, value) for value in (0, 2, 1))
        builder.call(prefetch, [address, read, second_cache, data])
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp), generate


@kernel(nogil=True, inline="always")
def fetch_row(array, row):  # type: ignore[no-untyped-def]
    """Ask for a row of a two-dimensional array."""
    for offset in range(0, min(_MOST, array.shape[1] * array.itemsize), _LINE):
        ask(array, row, offset)


@kernel(nogil=True, inline="always")
def fetch_number(array, row):  # type: ignore[no-untyped-def]
    """Ask for an entry of a one-dimensional array."""
    ask(array, row, 0)

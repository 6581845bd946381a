"""Asking for rows before they are needed, so that a scattered order does not wait for memory at every step."""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

AHEAD = 8
"""Steps ahead, where the bytes of a row are not known. The positions are, so any order can be fetched ahead."""
REACH = 2**13
"""Bytes ahead for dense rows: enough to cover the latency of memory, and little beside the second cache."""

_LINE = 64
_MOST = 16 * _LINE  # more at once than this would wait for each other; `rows.move` asks piece by piece instead


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


@numba.njit(cache=True, nogil=True, _nrt=False, inline="always")
def fetch_row(array, row):  # type: ignore[no-untyped-def]
    """Ask for a row of a two-dimensional array."""
    for offset in range(0, min(_MOST, array.shape[1] * array.itemsize), _LINE):
        ask(array, row, offset)


@numba.njit(cache=True, nogil=True, _nrt=False, inline="always")
def fetch_number(array, row):  # type: ignore[no-untyped-def]
    """Ask for an entry of a one-dimensional array."""
    ask(array, row, 0)

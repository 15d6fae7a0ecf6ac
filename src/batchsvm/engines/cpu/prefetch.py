"""Prefetching: asking the memory for a row before its turn comes.

Rows are visited in random order, so that on data larger than the cache every visit waits
for memory.  The order is known ahead; a hint some rows early hides most of the wait.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from batchsvm.compiled import callable_in_kernels

ROWS_AHEAD = 4  # more would ask for more than a core can wait for at once
SLICES_AHEAD = 8  # of rows that are cut among workers, since each has little to do
ENTRIES_AHEAD = 512  # in passes in the order of memory: the next page of values
LINE = 64  # bytes that the memory hands over at a time
MOST_LINES = 16  # of the values of a row; the hardware sees the rest of a longer one coming


@intrinsic
def prefetch(typing_context, array, index):
    """Hint that array[index] (first axis) will be read soon; never faults."""

    def code(context, builder, signature, args):
        array_type = signature.args[0]
        view = make_array(array_type)(context, builder, args[0])
        offset = builder.mul(
            context.cast(builder, args[1], signature.args[1], types.intp),
            builder.extract_value(view.strides, 0),
        )
        i32, byte_pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        pointer = cgutils.pointer_add(builder, view.data, offset, byte_pointer)
        hint_type = ir.FunctionType(ir.VoidType(), [byte_pointer, i32, i32, i32])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [byte_pointer], hint_type)
        builder.call(hint, [pointer, i32(0), i32(3), i32(1)])
        return context.get_dummy_value()

    return types.void(array, index), code


def prefetch_lines(array, start, end):
    """The entries of a vector from `start` to before `end`, but for a line that begins earlier."""
    k, step = start, LINE // array.itemsize  # a range with a step divides to know its length
    while k < end:
        prefetch(array, k)
        k += step


callable_in_kernels(prefetch_lines)

"""Python imports this first where the folder is in PYTHONPATH: no index is counted from the end of an array.

Numba's own check (NUMBA_BOUNDSCHECK=1) comes after it has turned a negative index into one from the end, as Python
does; nothing in the engine means that by one. Here negative indices stay what they are, and fail the check.
"""

from numba.np import arrayobj

before = arrayobj.fix_integer_index  # not a part of Numba's public interface: an error where it is not there


def keep_index(context, builder, index_type, index, size):
    return context.cast(builder, index, index_type, arrayobj.types.intp if index_type.signed else arrayobj.types.uintp)


arrayobj.fix_integer_index = keep_index

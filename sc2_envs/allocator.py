"""The C library's memory allocator, as training on a CPU needs it."""

from __future__ import annotations

import ctypes
import platform

# numbers of mallopt's parameters, from glibc's malloc.h
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8


def keep_freed_memory() -> bool:
    """Let glibc keep freed memory for the next call, instead of giving it back to the system.

    Every pass of a network allocates its activations anew and frees them. glibc gives large blocks back at once and
    asks for them again in the next pass, and the system then clears them page by page at the first touch. A process
    that has once needed much memory keeps it from here on.

    Returns:
        Whether there is a glibc that was told so; other systems allocate in ways of their own.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    # 32 MiB is the largest threshold that glibc takes; larger blocks, rare at small screens, go the old way
    settings = {_TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 2**26, _MMAP_THRESHOLD: 2**25, _ARENA_MAX: 1}
    return all([mallopt(parameter, value) == 1 for parameter, value in settings.items()])
